import { type Static, Type } from "typebox";
import { Name } from "../field-schemas.ts";
import { type Kind, kinds, type Manifest, type SpecOf } from "../kinds.ts";
import type { StatusOf } from "../resource.ts";
import { SecretSpec } from "../secret-spec.ts";
import { PlanView } from "./apps.ts";
import { ModelPlanView } from "./models.ts";
import {
  Component,
  closed,
  FieldChangeView,
  NullableInteger,
  NullableOf,
  NullableString,
  OneOf,
  StringMap,
  Timestamp,
} from "./wire-schema.ts";

/** A resource in the form of its manifest, with the fields that the store adds. */
export const ResourceView = Type.Object(
  {
    apiVersion: Type.String(),
    kind: OneOf(kinds),
    metadata: Type.Object(
      {
        name: Type.String(),
        stack: NullableString,
        uid: Type.String(),
        labels: StringMap(),
        annotations: StringMap(),
        generation: Type.Integer(),
        resourceVersion: Type.Integer(),
        creationTimestamp: Timestamp,
        deletionTimestamp: NullableString,
        owners: StringMap(),
      },
      closed,
    ),
    spec: Component<SpecOf[Kind]>("Spec"),
    status: Type.Unsafe<StatusOf[Kind] | null>({
      type: ["object", "null"],
      additionalProperties: true,
    }),
  },
  closed,
);
export type ResourceView = Static<typeof ResourceView>;

export const ResourceList = Type.Object(
  { items: Type.Array(ResourceView), total: Type.Integer() },
  closed,
);
export type ResourceList = Static<typeof ResourceList>;

/** The schema of any manifest, which is validated later, as in `berth validate`, to report all issues together. */
const AnyManifest = Type.Unsafe<Manifest>({ "x-component": "Manifest" });

export const ApplyBody = Type.Object(
  {
    manifests: Type.Array(AnyManifest, { minItems: 1, maxItems: 1000 }),
    manager: Type.Optional(OneOf(["cli", "api"])),
    dry_run: Type.Optional(Type.Boolean()),
    force: Type.Optional(
      Type.Boolean({
        description: "true: fields are taken over from the spec files that own them",
      }),
    ),
  },
  closed,
);
export type ApplyBody = Static<typeof ApplyBody>;

export const ApplyResultView = Type.Object(
  {
    kind: OneOf(kinds),
    name: Type.String(),
    stack: Type.Unsafe<string | null>({
      ...NullableString,
      description: "stack that the resource belongs to; null for a resource without a stack",
    }),
    action: OneOf(["created", "configured", "unchanged"]),
    generation: Type.Integer(),
    changes: Type.Array(FieldChangeView),
    plan: NullableOf(PlanView),
    model_plan: NullableOf(ModelPlanView),
    plan_message: Type.Unsafe<string | null>({
      ...NullableString,
      description: "reason for which an App or a Model has no plan",
    }),
  },
  closed,
);
export type ApplyResultView = Static<typeof ApplyResultView>;

export const ApplyResponse = Type.Object(
  { dry_run: Type.Boolean(), results: Type.Array(ApplyResultView) },
  closed,
);
export type ApplyResponse = Static<typeof ApplyResponse>;

export const DeletedView = Type.Object(
  {
    kind: OneOf(kinds),
    name: Type.String(),
    state: OneOf(["deleting", "deleted"]),
  },
  closed,
);
export type DeletedView = Static<typeof DeletedView>;

export const SecretView = Type.Object(
  {
    name: Type.String(),
    type: OneOf(["opaque", "registry"]),
    keys: Type.Array(Type.String(), { description: "values are never shown" }),
    created_at: Timestamp,
    generation: Type.Integer(),
    managed_by: Type.String(),
  },
  closed,
);
export type SecretView = Static<typeof SecretView>;

export const SecretList = Type.Object(
  { secrets: Type.Array(SecretView), total: Type.Integer() },
  closed,
);
export type SecretList = Static<typeof SecretList>;

export const CreateSecretBody = Type.Object({ name: Name, ...SecretSpec.properties }, closed);
export type CreateSecretBody = {
  name: string;
  type?: "opaque" | "registry";
  data: Record<string, string>;
};

export const PutSecretBody = SecretSpec;
export type PutSecretBody = { type?: "opaque" | "registry"; data: Record<string, string> };

/** Sets some keys and keeps all others. The value null removes a key. */
export const PatchSecretBody = Type.Object(
  {
    data: Type.Record(
      Type.String({ pattern: "^[A-Za-z0-9._-]{1,253}$" }),
      Type.Unsafe<string | null>({ type: ["string", "null"], maxLength: 1_048_576 }),
      { maxProperties: 1000, additionalProperties: false },
    ),
  },
  closed,
);
export type PatchSecretBody = { data: Record<string, string | null> };

const TemplateParameterView = Type.Object(
  {
    name: Type.String(),
    description: Type.String(),
    default: Type.Optional(Type.Unknown()),
    required: Type.Boolean(),
    secret: Type.Boolean(),
    generated: Type.Boolean({
      description: "true if Berth generates a random value when the user gives none",
    }),
    pattern: NullableString,
  },
  closed,
);

export const TemplateView = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    description: Type.String(),
    category: Type.String(),
    image: Type.String(),
    port: NullableInteger,
    parameters: Type.Array(TemplateParameterView),
    website: NullableString,
    companions: Type.Array(Type.String(), {
      description: "suffixes of the further apps that the template creates",
    }),
    built_in: Type.Boolean(),
  },
  closed,
);
export type TemplateView = Static<typeof TemplateView>;

export const TemplateList = Type.Object(
  { templates: Type.Array(TemplateView), total: Type.Integer() },
  closed,
);
export type TemplateList = Static<typeof TemplateList>;
