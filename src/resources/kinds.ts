import { type Static, type TSchema, Type } from "typebox";
import { AppSpec } from "./app-spec.ts";
import { Name } from "./field-schemas.ts";
import { ModelSpec } from "./model-spec.ts";
import { SecretSpec } from "./secret-spec.ts";
import { TemplateSpec } from "./template-spec.ts";

export const API_VERSION = "berth.dev/v1";

export const kinds = ["App", "Model", "Template", "Secret"] as const;
export type Kind = (typeof kinds)[number];

export interface SpecOf {
  App: AppSpec;
  Model: ModelSpec;
  Template: TemplateSpec;
  Secret: SecretSpec;
}

export const specSchemas = {
  App: AppSpec,
  Model: ModelSpec,
  Template: TemplateSpec,
  Secret: SecretSpec,
} as const;

/** The plurals of the kinds, as URLs and the command line use them. */
export const plurals: Readonly<Record<Kind, string>> = {
  App: "apps",
  Model: "models",
  Template: "templates",
  Secret: "secrets",
};

export const Metadata = Type.Object(
  {
    name: Name,
    stack: Type.Optional(
      Type.Unsafe<string>({
        ...Name,
        description:
          "the stack that the resource belongs to; apps of a stack are called STACK-SERVICE and share a network",
      }),
    ),
    labels: Type.Optional(
      Type.Record(
        Type.String({ pattern: "^[A-Za-z0-9./_-]{1,253}$" }),
        Type.String({ maxLength: 253 }),
        { additionalProperties: false },
      ),
    ),
    annotations: Type.Optional(
      Type.Record(
        Type.String({ pattern: "^[A-Za-z0-9./_-]{1,253}$" }),
        Type.String({ maxLength: 65_536 }),
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);
export type Metadata = Static<typeof Metadata>;

/** The kinds whose resources can belong to a stack. */
const STACK_KINDS: readonly Kind[] = ["App", "Secret"];
const MetadataWithoutStack = Type.Omit(Metadata, ["stack"], { additionalProperties: false });

/** A document of a spec file, as users write it. */
export interface Manifest<K extends Kind = Kind> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: K;
  readonly metadata: Metadata;
  readonly spec: SpecOf[K];
}

/** Creates the schema of the documents of a kind, for the validator, the OpenAPI component and the editor schema. */
export function createManifestSchema(kind: Kind): TSchema {
  return Type.Object(
    {
      apiVersion: Type.Literal(API_VERSION),
      kind: Type.Literal(kind),
      metadata: STACK_KINDS.includes(kind) ? Metadata : MetadataWithoutStack,
      spec: specSchemas[kind],
    },
    { additionalProperties: false, title: kind },
  );
}
