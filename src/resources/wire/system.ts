import { type Static, Type } from "typebox";
import { kinds } from "../kinds.ts";
import {
  closed,
  NullableInteger,
  NullableOf,
  NullableString,
  OneOf,
  Timestamp,
} from "./wire-schema.ts";

export const HealthView = Type.Object(
  {
    status: OneOf(["ok", "degraded"]),
    runtime: OneOf(["connected", "disconnected"]),
    version: Type.String(),
    uptime_seconds: Type.Integer(),
    message: Type.Optional(
      Type.String({
        description: "reason why the status is degraded although the engine is connected",
      }),
    ),
  },
  closed,
);
export type HealthView = Static<typeof HealthView>;

export const SystemInfo = Type.Object(
  {
    version: Type.String(),
    instance_id: Type.String(),
    hostname: Type.String(),
    os: Type.String(),
    arch: Type.String(),
    cpus: Type.Integer(),
    memory: Type.Object({ total_bytes: Type.Integer(), free_bytes: Type.Integer() }, closed),
    disk: Type.Object({ total_bytes: Type.Integer(), free_bytes: Type.Integer() }, closed),
    uptime_seconds: Type.Integer({ description: "time since the start of Berth, in seconds" }),
    host_uptime_seconds: Type.Integer(),
    engine: Type.Object(
      {
        connected: Type.Boolean(),
        name: NullableString,
        version: NullableString,
        api_version: NullableString,
        message: NullableString,
        other_writer: NullableOf(
          Type.Object(
            { host: Type.String(), data_dir: Type.String(), since: Type.String() },
            {
              ...closed,
              description:
                "another Berth server with this instance's identity, which writes to the engine; this server changes nothing on the engine",
            },
          ),
        ),
      },
      closed,
    ),
    ingress: Type.Object(
      {
        mode: OneOf(["off", "process", "container"]),
        ready: Type.Boolean({ description: "true if the ingress routes requests to apps" }),
        version: NullableString,
        message: Type.String({
          description: "description of the ingress, or its problem and what to do",
        }),
        http_port: NullableInteger,
        https_port: NullableInteger,
        api_url: Type.Unsafe<string | null>({
          ...NullableString,
          description: "URL at which the ingress serves this API over HTTPS (setting api_domain)",
        }),
        api_problem: Type.Unsafe<string | null>({
          ...NullableString,
          description: "reason why the ingress does not serve this API under api_domain yet",
        }),
      },
      closed,
    ),
    assistant: Type.Object(
      {
        state: Type.Unsafe<"off" | "starting" | "up" | "waiting" | "foreign">({
          type: "string",
          enum: ["off", "starting", "up", "waiting", "foreign"],
          description:
            "state of the assistant. waiting: it exited, and is restarted after a pause; foreign: another program started it",
        }),
        url: NullableString,
        pid: NullableInteger,
        starts: Type.Integer({
          description:
            "number of starts of the assistant since the start of Berth; 1 if it never exited",
        }),
        message: Type.Unsafe<string | null>({
          ...NullableString,
          description:
            "reason why the assistant is not up, and what to do; otherwise notices for users of the assistant",
        }),
      },
      closed,
    ),
    companion: Type.Object(
      {
        state: Type.Unsafe<
          "off" | "no_bus" | "starting" | "up" | "activated" | "foreign" | "waiting"
        >({
          type: "string",
          enum: ["off", "no_bus", "starting", "up", "activated", "foreign", "waiting"],
          description:
            "state of the companion. no_bus: there is no session bus; activated: the companion is installed, and the bus and systemd manage it; foreign: another program started it; waiting: it exited, and is restarted after a pause",
        }),
        url: NullableString,
        pid: NullableInteger,
        starts: Type.Integer({
          description:
            "number of starts of the companion by this Berth server since the server's start",
        }),
        message: Type.Unsafe<string | null>({
          ...NullableString,
          description: "reason why there is no companion, or the program that manages it",
        }),
      },
      { ...closed, description: "the companion of the user who runs Berth" },
    ),
    counts: Type.Object(
      {
        apps: Type.Integer(),
        apps_ready: Type.Integer(),
        models: Type.Integer(),
        models_ready: Type.Integer({
          description: "number of models in the state that their specs desire",
        }),
        models_running: Type.Integer(),
        secrets: Type.Integer(),
        templates: Type.Integer(),
      },
      closed,
    ),
  },
  closed,
);
export type SystemInfo = Static<typeof SystemInfo>;

export const ConfigEntry = Type.Object(
  {
    key: Type.String(),
    value: Type.Unsafe<string | null>({
      ...NullableString,
      description: 'value in the form of a config file; a secret value is shown as "(secret)"',
    }),
    source: OneOf(["flag", "environment", "file", "default"]),
    origin: Type.Unsafe<string | null>({
      ...NullableString,
      description: "name of the flag, the variable or the file that set the value",
    }),
  },
  closed,
);
export type ConfigEntry = Static<typeof ConfigEntry>;

/** The effective configuration without secrets, with the source of each value. */
export const SystemConfig = Type.Object({ config: Type.Array(ConfigEntry) }, closed);
export type SystemConfig = Static<typeof SystemConfig>;

const PendingPrune = Type.Object(
  {
    kind: OneOf(kinds),
    name: Type.String(),
    stack: Type.Unsafe<string | null>({
      ...NullableString,
      description: "stack that the resource belongs to; null for a resource without a stack",
    }),
    file: Type.String(),
  },
  closed,
);

export const SpecFileView = Type.Object(
  {
    file: Type.String(),
    state: OneOf(["applied", "invalid", "conflict"]),
    content_hash: Type.String(),
    resources: Type.Array(
      Type.Object(
        { kind: OneOf(kinds), name: Type.String(), yielded: Type.Array(Type.String()) },
        closed,
      ),
    ),
    errors: Type.Array(
      Type.Object({ line: Type.Integer(), column: Type.Integer(), message: Type.String() }, closed),
    ),
    time: Timestamp,
  },
  closed,
);
export type SpecFileView = Static<typeof SpecFileView>;

export const SpecsGitView = Type.Object(
  {
    url: Type.String(),
    ref: Type.Unsafe<string | null>({
      ...NullableString,
      description: "branch, tag or commit; null: the default branch of the repository",
    }),
    path: Type.String(),
    folder: Type.String({ description: "folder for the spec files, below the watched folder" }),
    commit: NullableString,
    state: OneOf(["following", "failing"]),
    message: NullableString,
    checked_at: NullableString,
    applied_at: NullableString,
  },
  closed,
);
export type SpecsGitView = Static<typeof SpecsGitView>;

export const SpecsView = Type.Object(
  {
    folder: Type.String(),
    state: OneOf(["watching", "missing", "unreadable", "empty", "off"]),
    message: NullableString,
    files: Type.Array(SpecFileView),
    pending_prune: Type.Array(PendingPrune),
    git: NullableOf(SpecsGitView),
  },
  closed,
);
export type SpecsView = Static<typeof SpecsView>;

export const PruneBody = Type.Object(
  { confirm: Type.Literal(true, { description: "must be true" }) },
  closed,
);

export const PruneResponse = Type.Object({ pruned: Type.Array(PendingPrune) }, closed);
export type PruneResponse = Static<typeof PruneResponse>;
