import { type Static, Type } from "typebox";
import { Name } from "./field-schemas.ts";

const closed = { additionalProperties: false } as const;

export const TemplateParameter = Type.Object(
  {
    name: Type.String({ pattern: "^[a-z][A-Za-z0-9_]{0,62}$" }),
    description: Type.Optional(Type.String({ maxLength: 1000 })),
    default: Type.Optional(Type.Union([Type.String(), Type.Number(), Type.Boolean()])),
    required: Type.Optional(Type.Boolean()),
    /** The length of the random value that is generated if the user gives none. */
    generate: Type.Optional(
      Type.Integer({
        minimum: 8,
        maximum: 256,
        description: "length of the random value that Berth generates if the user gives none",
      }),
    ),
    secret: Type.Optional(
      Type.Boolean({
        description: "true: the value is stored in a Secret named <app>-<parameter>",
      }),
    ),
    pattern: Type.Optional(Type.String({ maxLength: 500 })),
  },
  closed,
);
export type TemplateParameter = Static<typeof TemplateParameter>;

/**
 * A catalog entry. The `app` of the entry and that of each of its `companions` are App specs with the placeholders
 * `${parameter}` for values of parameters and `${name}` for the name of the new app. They are validated as App specs
 * after the replacement.
 */
export const TemplateSpec = Type.Object(
  {
    title: Type.String({ minLength: 1, maxLength: 100 }),
    description: Type.String({ minLength: 1, maxLength: 2000 }),
    category: Type.String({ minLength: 1, maxLength: 63 }),
    website: Type.Optional(Type.String({ maxLength: 500 })),
    parameters: Type.Optional(Type.Array(TemplateParameter, { maxItems: 50 })),
    app: Type.Record(Type.String(), Type.Unknown()),
    companions: Type.Optional(
      Type.Array(
        Type.Object({ suffix: Name, app: Type.Record(Type.String(), Type.Unknown()) }, closed),
        {
          maxItems: 10,
          description: "further apps, named <name>-<suffix>, such as the database of a web app",
        },
      ),
    ),
  },
  { ...closed, description: "A catalog entry from which apps are created." },
);
export type TemplateSpec = Static<typeof TemplateSpec>;
