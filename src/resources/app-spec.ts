import { type Static, Type } from "typebox";
import { IngressOptions } from "./app-ingress-spec.ts";
import { Folder, Tmpfs, Volume } from "./app-mount-spec.ts";
import { Security, Ulimits } from "./app-privilege-spec.ts";
import { AppSource, BuildOptions } from "./app-source-spec.ts";
import {
  Alias,
  Bytes,
  ContainerPath,
  Cpu,
  Duration,
  Name,
  OwnDomain,
  Port,
} from "./field-schemas.ts";

/** The longest text of a file, in characters. Larger files belong into an image or a volume. */
const FILE_LENGTH_MAX = 256 * 1024;

const closed = { additionalProperties: false } as const;

/** A reference to a value in a Secret. `key` is optional if the Secret has only one key. */
export const SecretReference = Type.Object(
  { secret: Name, key: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9._-]{1,253}$" })) },
  { ...closed, description: "a value from a Secret" },
);
export type SecretReference = Static<typeof SecretReference>;

/**
 * The value of a variable. YAML parses `PORT: 80` as a number and `DEBUG: true` as a boolean. The container gets the
 * text of the value.
 */
export const EnvValue = Type.Union(
  [Type.String({ maxLength: 131_072 }), Type.Number(), Type.Boolean(), SecretReference],
  {
    description: "text, a number, true or false, or { secret: NAME, key: KEY }",
  },
);
export type EnvValue = Static<typeof EnvValue>;

export const PublishedPort = Type.Object(
  {
    host: Port,
    container: Port,
    protocol: Type.Optional(Type.Union([Type.Literal("tcp"), Type.Literal("udp")])),
    address: Type.Optional(
      Type.String({
        pattern: "^[0-9a-fA-F.:]+$",
        description: "an IP address of the machine; default: every address",
      }),
    ),
  },
  closed,
);

const FilePlace = {
  path: ContainerPath,
  mode: Type.Optional(
    Type.String({
      pattern: "^0[0-7]{3}$",
      description: 'octal permissions in quotes, such as "0400" or "0555"',
    }),
  ),
};

/** A file that Berth writes, and that the containers see read-only at `path`. */
export const AppFile = Type.Union(
  [
    Type.Object({ ...FilePlace, content: Type.String({ maxLength: FILE_LENGTH_MAX }) }, closed),
    Type.Object({ ...FilePlace, from: SecretReference }, closed),
  ],
  { description: "a file with path, and its text in content or from" },
);
export type AppFile = Static<typeof AppFile>;

export const HealthCheck = Type.Object(
  {
    path: Type.Optional(
      Type.String({
        pattern: "^/",
        maxLength: 2048,
        description: "path for GET; the app is healthy if the answer has a status from 200 to 399",
      }),
    ),
    port: Type.Optional(Port),
    command: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        description: "command in the container; the app is healthy if it exits with 0",
      }),
    ),
    interval: Type.Optional(Duration),
    timeout: Type.Optional(Duration),
    retries: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    startPeriod: Type.Optional(Duration),
  },
  {
    ...closed,
    description:
      "health check with path (HTTP) or command; without either, it connects to the port",
  },
);

export const Rollout = Type.Object(
  {
    strategy: Type.Optional(Type.Union([Type.Literal("rolling"), Type.Literal("recreate")])),
    progressDeadline: Type.Optional(Duration),
    drain: Type.Optional(Duration),
    observe: Type.Optional(Duration),
    minReadySeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 31_536_000 })),
    autoRevert: Type.Optional(Type.Boolean()),
  },
  closed,
);

export const RestartBudget = Type.Object(
  {
    attempts: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000 })),
    interval: Type.Optional(Duration),
    backoff: Type.Optional(Duration),
  },
  { ...closed, description: "restart budget: at most `attempts` restarts in any `interval`" },
);

/** The `spec` of an App as users write it. `app-defaults.ts` has the defaults. */
export const AppSpec = Type.Object(
  {
    image: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        pattern: "^[^\\s]+$",
        description: "image reference, such as nginx:1.27",
      }),
    ),
    source: Type.Optional(AppSource),
    build: Type.Optional(BuildOptions),
    platform: Type.Optional(
      Type.String({
        pattern: "^linux/[a-z0-9_]+(/[a-z0-9]+)?$",
        maxLength: 64,
        description: "platform of the image, such as linux/arm64; default: that of the machine",
      }),
    ),
    port: Type.Optional(Port),
    domain: Type.Optional(OwnDomain),
    ingress: Type.Optional(IngressOptions),
    env: Type.Optional(
      Type.Record(Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_.-]*$" }), EnvValue, {
        maxProperties: 1000,
        additionalProperties: false,
      }),
    ),
    entrypoint: Type.Optional(
      Type.Array(Type.String(), {
        description: "program and arguments that replace the image's ENTRYPOINT",
      }),
    ),
    command: Type.Optional(
      Type.Array(Type.String(), { description: "arguments that replace the image's CMD" }),
    ),
    user: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    workingDir: Type.Optional(ContainerPath),
    hostname: Type.Optional(
      Type.Unsafe<string>({
        ...Alias,
        maxLength: 63,
        description: "the host name that the container has for its own programs",
      }),
    ),
    security: Type.Optional(Security),
    ulimits: Type.Optional(Ulimits),
    tmpfs: Type.Optional(
      Type.Array(Tmpfs, { maxItems: 20, description: "folders whose content is in memory" }),
    ),
    shmSize: Type.Optional(
      Type.Unsafe<string>({ ...Bytes, description: "size of /dev/shm; default: 64Mi" }),
    ),
    oneShot: Type.Optional(
      Type.Boolean({
        description: "true: the container runs once to its end, before the apps that depend on it",
      }),
    ),
    running: Type.Optional(Type.Boolean({ description: "false: the app is stopped" })),
    suspend: Type.Optional(Type.Boolean({ description: "true: Berth does not change the app" })),
    replicas: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
    resources: Type.Optional(
      Type.Object(
        {
          memory: Type.Optional(Bytes),
          cpu: Type.Optional(Type.Union([Cpu, Type.Number({ exclusiveMinimum: 0 })])),
        },
        closed,
      ),
    ),
    volumes: Type.Optional(Type.Array(Volume, { maxItems: 100 })),
    folders: Type.Optional(
      Type.Array(Folder, {
        maxItems: 100,
        description: "folders that Berth makes below its data directory, and keeps as volumes",
      }),
    ),
    files: Type.Optional(
      Type.Array(AppFile, {
        maxItems: 50,
        description: "files that the containers see read-only, with text of the spec or a Secret",
      }),
    ),
    ports: Type.Optional(
      Type.Array(PublishedPort, {
        maxItems: 100,
        description: "ports of the machine, in addition to the app's own port",
      }),
    ),
    healthCheck: Type.Optional(HealthCheck),
    rollout: Type.Optional(Rollout),
    restart: Type.Optional(RestartBudget),
    stopGracePeriod: Type.Optional(Duration),
    models: Type.Optional(
      Type.Array(Name, {
        maxItems: 32,
        uniqueItems: true,
        description:
          "Models that have to run first; the app gets their addresses in its environment",
      }),
    ),
    aliases: Type.Optional(
      Type.Array(Alias, {
        maxItems: 20,
        uniqueItems: true,
        description:
          "further names of the app in the network of its stack, where its service name (web for blog-web) always leads to it",
      }),
    ),
    dependsOn: Type.Optional(Type.Array(Name, { maxItems: 100 })),
    pullPolicy: Type.Optional(Type.Union([Type.Literal("IfNotPresent"), Type.Literal("Always")])),
    pullSecret: Type.Optional(Name),
  },
  { ...closed, description: "An app: containers of one image, kept running." },
);
export type AppSpec = Static<typeof AppSpec>;
