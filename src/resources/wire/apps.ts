import { type Static, Type } from "typebox";
import { GitSource } from "../app-source-spec.ts";
import { AppSpec } from "../app-spec.ts";
import { appPhases } from "../app-status.ts";
import { Name, Port } from "../field-schemas.ts";
import { Metadata } from "../kinds.ts";
import { BuildView } from "./builds.ts";
import { EventView } from "./events.ts";
import { dryRunFields, planFields } from "./plans.ts";
import {
  Component,
  closed,
  NullableBoolean,
  NullableInteger,
  NullableOf,
  NullableString,
  OneOf,
  StringMap,
  Timestamp,
} from "./wire-schema.ts";

const itemFields = {
  id: Type.String({ description: "identifier that stays the same for the app's whole life" }),
  name: Type.String(),
  stack: Type.Unsafe<string | null>({
    ...NullableString,
    description: "stack that the app belongs to; null for an app without a stack",
  }),
  status: OneOf(appPhases),
  domain: Type.String({
    description: "main domain of the app; empty for an app with domain: none",
  }),
  image: Type.String({
    description: "reference of the image; empty while the image is still to be built",
  }),
  source: Type.Unsafe<string | null>({
    ...NullableString,
    description: "short description of the source; null for an app with an image",
  }),
  domains: Type.Array(Type.String(), {
    description: "every host name of the app, its main domain first",
  }),
  created_at: Timestamp,
  port: NullableInteger,
  url: NullableString,
  ready: Type.Boolean({ description: "true if the app is as its newest spec requests" }),
  generation: Type.Integer(),
  observed_generation: Type.Integer(),
  message: Type.String({ description: "explanation of the app's status" }),
  managed_by: Type.String({
    description: "manager of the app: file:<path> of the spec file that declares it, or api",
  }),
};

export const AppItem = Type.Object(itemFields, closed);
export type AppItem = Static<typeof AppItem>;

export const AppList = Type.Object(
  {
    apps: Type.Array(AppItem),
    total: Type.Integer({
      description: "number of apps that match, independent of limit and offset",
    }),
  },
  closed,
);
export type AppList = Static<typeof AppList>;

export const ConditionView = Type.Object(
  {
    type: Type.String(),
    status: OneOf(["True", "False", "Unknown"]),
    reason: Type.String(),
    message: Type.String(),
    last_transition_time: Timestamp,
    observed_generation: Type.Integer(),
  },
  closed,
);
export type ConditionView = Static<typeof ConditionView>;

export const ContainerView = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    replica: Type.Integer(),
    generation: Type.Integer(),
    role: OneOf(["candidate", "active", "draining"]),
    state: Type.String(),
    healthy: NullableBoolean,
    exit_code: NullableInteger,
    started_at: NullableString,
    image: Type.String(),
    image_id: Type.String({ description: "id of the image that the container runs" }),
    address: NullableString,
  },
  closed,
);
export type ContainerView = Static<typeof ContainerView>;

const AppRevisions = Type.Object(
  { attempted: NullableInteger, applied: NullableInteger, stable: NullableInteger },
  closed,
);

/** The image that the reference in the spec was resolved to at the last deploy. */
const ResolvedImage = Type.Object(
  {
    reference: Type.String(),
    image_id: Type.String(),
    digest: NullableString,
    engine_only: Type.Boolean({
      description: "true: no registry has the image, so Berth uses the image that the engine has",
    }),
  },
  closed,
);

const CreatedResource = Type.Object({ kind: Type.String(), name: Type.String() }, closed);

/** A volume or folder with the data of an app. Folders of the machine (hostPath) are not among them. */
export const AppDataView = Type.Object(
  {
    type: OneOf(["volume", "folder"]),
    name: Type.String(),
    paths: Type.Array(Type.String(), { description: "paths in the containers" }),
    stack: Type.Unsafe<string | null>({
      ...NullableString,
      description: "stack that owns the data; null if the app does",
    }),
    used_by: Type.Array(Type.String(), { description: "other apps that use the same data" }),
  },
  closed,
);
export type AppDataView = Static<typeof AppDataView>;

export const AppDetails = Type.Object(
  {
    ...itemFields,
    spec: Component<AppSpec>("AppSpec"),
    env: Component<NonNullable<AppSpec["env"]>>(
      "Env",
      "variables of the app, with secrets as references only",
    ),
    labels: StringMap(),
    conditions: Type.Array(ConditionView),
    containers: Type.Array(ContainerView),
    revisions: AppRevisions,
    data: Type.Array(AppDataView, { description: "the volumes and folders of the app" }),
    resolved_image: NullableOf(ResolvedImage),
    build: NullableOf(BuildView),
    restarts: Type.Integer(),
    next_retry_at: NullableString,
    owners: StringMap({
      description: "manager of each field of the spec, by JSON Pointer",
    }),
    events: Type.Array(EventView, { description: "the last 20 events of the app, newest first" }),
    created: Type.Optional(
      Type.Array(CreatedResource, {
        description: "after POST /api/apps/from-template: all resources that it created",
      }),
    ),
  },
  closed,
);
export type AppDetails = Static<typeof AppDetails>;

export const PlanView = Type.Object(
  {
    app: Type.String(),
    ...planFields,
    strategy: OneOf(["recreate", "rolling"]),
    strategy_reason: Type.String(),
  },
  closed,
);
export type PlanView = Static<typeof PlanView>;

/** The response to a dry run (`dry_run=true`) of a write to an App: what the write would change. */
export const DryRunReport = Type.Object(dryRunFields(PlanView), closed);
export type DryRunReport = Static<typeof DryRunReport>;

export const RevisionView = Type.Object(
  {
    number: Type.Integer(),
    generation: Type.Integer(),
    image: NullableString,
    image_id: Type.Unsafe<string | null>({
      ...NullableString,
      description:
        "id of the image of all containers of the revision; null if the image was never available",
    }),
    digest: Type.Unsafe<string | null>({
      ...NullableString,
      description: "digest of the image in its registry",
    }),
    source_revision: Type.Unsafe<string | null>({
      ...NullableString,
      description:
        "commit of the source from which the image was built, or sha256 of an archive or folder",
    }),
    build_id: NullableInteger,
    spec_hash: Type.String(),
    state: OneOf(["attempted", "stable", "quarantined"]),
    message: NullableString,
    created_at: Timestamp,
    actor: Type.String(),
    current: Type.Boolean({ description: "true for the last attempted revision" }),
    spec: Component<AppSpec>("AppSpec"),
  },
  closed,
);
export type RevisionView = Static<typeof RevisionView>;

export const RevisionList = Type.Object(
  { revisions: Type.Array(RevisionView), total: Type.Integer() },
  closed,
);
export type RevisionList = Static<typeof RevisionList>;

/** The request body of `POST /api/apps`: the name and the labels of an App, and the fields of its spec. */
export const CreateAppBody = Type.Object(
  {
    name: Name,
    stack: Metadata.properties.stack,
    labels: Type.Optional(Metadata.properties.labels),
    ...AppSpec.properties,
  },
  closed,
);
export type CreateAppBody = {
  name: string;
  stack?: string;
  labels?: Record<string, string>;
} & AppSpec;

/** A merge patch (RFC 7396) of the spec, in which null removes a field. */
export const PatchAppBody = Component<Record<string, unknown>>(
  "AppSpecPatch",
  "fields of an App's spec; null removes a field",
);
export type PatchAppBody = { readonly [K in keyof AppSpec]?: AppSpec[K] | null };

const GitDeploy = Type.Omit(GitSource, ["interval", "hookSecret"], closed);
export const DeployBody = NullableOf(
  Type.Object(
    {
      image: Type.Optional(AppSpec.properties.image),
      git: Type.Optional(GitDeploy),
    },
    {
      ...closed,
      description:
        "either image or git; without both, the image or the source of the app is resolved again",
    },
  ),
);
export type DeployBody = { image?: string; git?: GitDeploy };
export type GitDeploy = Static<typeof GitDeploy>;

const NullablePort = Type.Unsafe<number | null>({
  ...Port,
  type: ["integer", "null"],
  description: "port of the app; null: the app listens on no port",
});

/** The part `config` of POST /api/deploy: name, port, and other fields of an App's spec. */
const { image: _image, source: _source, ...deployedFields } = AppSpec.properties;
export const SourceDeployConfig = Type.Object(
  { ...deployedFields, name: Name, port: NullablePort },
  closed,
);
export type SourceDeployConfig = { name: string; port: number | null } & Omit<
  AppSpec,
  "image" | "source" | "port"
>;

export const RollbackBody = NullableOf(
  Type.Object(
    {
      revision: Type.Optional(
        Type.Integer({
          minimum: 1,
          description:
            "revision to deploy again; default: the last stable revision before the current one",
        }),
      ),
    },
    closed,
  ),
);
export type RollbackBody = Static<typeof RollbackBody>;

export const FromTemplateBody = Type.Object(
  {
    template_id: Type.String({ minLength: 1, maxLength: 63 }),
    name: Name,
    parameters: Type.Optional(
      Type.Record(Type.String({ pattern: "^[a-z][A-Za-z0-9_]{0,62}$" }), Type.Unknown(), {
        maxProperties: 100,
        additionalProperties: false,
      }),
    ),
  },
  closed,
);
export type FromTemplateBody = Static<typeof FromTemplateBody>;

export const LogLineView = Type.Object(
  {
    time: Timestamp,
    stream: OneOf(["stdout", "stderr"]),
    message: Type.String(),
    container: Type.String(),
  },
  closed,
);
export type LogLineView = Static<typeof LogLineView>;

/** The data of an event named `skipped`, which a followed log sends for lines that the reader missed. */
export interface SkippedLogLines {
  readonly skipped: number;
  readonly container: string;
}

export const AppLogs = Type.Object({ name: Type.String(), lines: Type.Array(LogLineView) }, closed);
export type AppLogs = Static<typeof AppLogs>;
