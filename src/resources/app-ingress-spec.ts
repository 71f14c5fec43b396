import { type Static, Type } from "typebox";
import { Domain, Name } from "./field-schemas.ts";

const closed = { additionalProperties: false } as const;

export const Redirect = Type.Object(
  {
    from: Domain,
    to: Type.Optional(
      Type.String({
        pattern: "^https?://[^\\s]+$",
        maxLength: 2048,
        description:
          "an http or https URL, to which path and query are added; default: the app's own domain",
      }),
    ),
    permanent: Type.Optional(
      Type.Boolean({ description: "true: status 308 (permanent) instead of 307" }),
    ),
  },
  closed,
);

/** Options of the ingress for the requests of an App. */
export const IngressOptions = Type.Object(
  {
    domains: Type.Optional(
      Type.Array(Domain, {
        maxItems: 100,
        description: "domains of the app in addition to the field domain",
      }),
    ),
    redirects: Type.Optional(Type.Array(Redirect, { maxItems: 100 })),
    pathPrefix: Type.Optional(
      Type.String({
        pattern: "^/[^\\s?#*]*[^\\s?#*/]$",
        maxLength: 1024,
        description: "the app gets only the requests below this path of its domains, such as /api",
      }),
    ),
    stripPrefix: Type.Optional(
      Type.Boolean({ description: "true: the app receives paths without pathPrefix" }),
    ),
    basicAuth: Type.Optional(
      Type.Object(
        { secret: Name },
        { ...closed, description: "a Secret whose keys are user names and values passwords" },
      ),
    ),
    maintenance: Type.Optional(
      Type.Union([
        Type.Boolean(),
        Type.Object(
          {
            message: Type.Optional(Type.String({ maxLength: 10_000 })),
            html: Type.Optional(Type.String({ maxLength: 100_000 })),
          },
          closed,
        ),
      ]),
    ),
    https: Type.Optional(
      Type.Union([Type.Literal("auto"), Type.Literal("off")], {
        description:
          "auto (default): a certificate for every domain, and HTTP is redirected; off: HTTP only",
      }),
    ),
  },
  { ...closed, description: "domains, redirects, access and maintenance at the ingress" },
);
export type IngressOptions = Static<typeof IngressOptions>;
