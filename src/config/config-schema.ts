import { type Static, Type } from "typebox";
import { bytesPattern, cpuPattern, durationPattern } from "../base/units.ts";

const domainPattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

const portText = Type.String({
  pattern:
    "^(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$",
});

/** An amount that is more than nothing. */
const positiveBytesPattern = bytesPattern.replace("^", "^(?!0*(\\.0*)?[A-Za-z]*$)");

/** Without credentials in it; without TLS on this machine only, where nobody listens in. */
const hubPattern =
  "^(https://[^\\s/@?#]+|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]{1,5})?)(/[^\\s?#]*)?$";

/**
 * The keys of a config file, which are those of the flags with `_` for `-`.
 */
export const ConfigFile = Type.Object(
  {
    data_dir: Type.Optional(Type.String({ minLength: 1 })),
    specs_dir: Type.Optional(Type.String({ minLength: 1 })),
    templates_dir: Type.Optional(Type.String({ minLength: 1 })),
    listen: Type.Optional(
      Type.String({
        pattern: "^(\\[[0-9A-Fa-f:.]+(%[0-9A-Za-z]+)?\\]|[^\\s:\\[\\]/]+):[0-9]{1,5}$",
      }),
    ),
    docker_host: Type.Optional(
      Type.String({
        pattern: "^(unix:///.+|(tcp|https?)://[^/\\s]+/?)$",
      }),
    ),
    ingress: Type.Optional(Type.String({ pattern: "^(auto|process|container|off)$" })),
    ingress_image: Type.Optional(Type.String({ pattern: "^[^\\s]+$" })),
    http_port: Type.Optional(portText),
    https_port: Type.Optional(portText),
    acme_email: Type.Optional(Type.String({ pattern: "^[^\\s@]+@[^\\s@]+$" })),
    build_concurrency: Type.Optional(Type.String({ pattern: "^([1-9]|1[0-6])$" })),
    build_memory: Type.Optional(Type.String({ pattern: bytesPattern })),
    build_cpu: Type.Optional(Type.String({ pattern: cpuPattern })),
    build_timeout: Type.Optional(Type.String({ pattern: durationPattern })),
    build_keep: Type.Optional(Type.String({ pattern: "^([1-9]|[1-9][0-9])$" })),
    build_disk: Type.Optional(Type.String({ pattern: bytesPattern })),
    upload_limit: Type.Optional(Type.String({ pattern: bytesPattern })),
    specs_git_url: Type.Optional(
      Type.String({ pattern: "^((https?|ssh)://[^\\s]+|[^\\s@/]+@[^\\s:/]+:[^\\s]+)$" }),
    ),
    specs_git_ref: Type.Optional(Type.String({ pattern: "^[^\\s]+$", maxLength: 255 })),
    specs_git_path: Type.Optional(Type.String({ pattern: "^(?!/)(?!.*(^|/)\\.\\.(/|$)).+$" })),
    specs_git_interval: Type.Optional(Type.String({ pattern: durationPattern })),
    specs_git_credential: Type.Optional(
      Type.String({ pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength: 63 }),
    ),
    assistant: Type.Optional(Type.String({ pattern: "^(on|off)$" })),
    assistant_port: Type.Optional(portText),
    assistant_data_dir: Type.Optional(Type.String({ minLength: 1 })),
    assistant_memory: Type.Optional(Type.String({ pattern: positiveBytesPattern })),
    companion: Type.Optional(Type.String({ pattern: "^(auto|off)$" })),
    companion_port: Type.Optional(portText),
    models_disk: Type.Optional(Type.String({ pattern: bytesPattern })),
    models_bandwidth: Type.Optional(Type.String({ pattern: positiveBytesPattern })),
    hf_endpoint: Type.Optional(Type.String({ pattern: hubPattern, maxLength: 2_048 })),
    base_domain: Type.Optional(
      Type.String({
        pattern: domainPattern,
        maxLength: 190,
      }),
    ),
    log_format: Type.Optional(Type.String({ pattern: "^(json|pretty)$" })),
    log_level: Type.Optional(
      Type.String({
        pattern: "^(debug|info|warn|error)$",
      }),
    ),
  },
  { additionalProperties: false },
);
export type ConfigFile = Static<typeof ConfigFile>;
export type ConfigKey = keyof ConfigFile;

export interface ConfigSetting {
  readonly key: ConfigKey;
  /** As on the command line: `--data-dir`. */
  readonly flag: string;
  readonly variable: string;
  /** Relative values mean the folder of the file, or the working directory. */
  readonly isPath: boolean;
  /** Completes "KEY must be ...". */
  readonly expects: string;
}

/** Every setting but the secrets, in the order in which `berth config` shows them. */
export const configSettings: readonly ConfigSetting[] = [
  {
    key: "data_dir",
    flag: "--data-dir",
    variable: "BERTH_DATA_DIR",
    isPath: true,
    expects: "a folder",
  },
  {
    key: "specs_dir",
    flag: "--specs-dir",
    variable: "BERTH_SPECS_DIR",
    isPath: true,
    expects: "a folder",
  },
  {
    key: "templates_dir",
    flag: "--templates-dir",
    variable: "BERTH_TEMPLATES_DIR",
    isPath: true,
    expects: "a folder",
  },
  {
    key: "listen",
    flag: "--listen",
    variable: "BERTH_LISTEN",
    isPath: false,
    expects: "HOST:PORT or [IPV6]:PORT (port 0 picks a free one)",
  },
  {
    key: "docker_host",
    flag: "--docker-host",
    variable: "DOCKER_HOST",
    isPath: false,
    expects: "unix:///PATH or tcp://HOST:PORT",
  },
  {
    key: "ingress",
    flag: "--ingress",
    variable: "BERTH_INGRESS",
    isPath: false,
    expects: "auto, process, container or off",
  },
  {
    key: "ingress_image",
    flag: "--ingress-image",
    variable: "BERTH_INGRESS_IMAGE",
    isPath: false,
    expects: "an image reference of Caddy, such as caddy:2",
  },
  {
    key: "http_port",
    flag: "--http-port",
    variable: "BERTH_HTTP_PORT",
    isPath: false,
    expects: "a port of 0 to 65535 (0: no HTTP)",
  },
  {
    key: "https_port",
    flag: "--https-port",
    variable: "BERTH_HTTPS_PORT",
    isPath: false,
    expects: "a port of 0 to 65535 (0: no HTTPS)",
  },
  {
    key: "acme_email",
    flag: "--acme-email",
    variable: "BERTH_ACME_EMAIL",
    isPath: false,
    expects: "an e-mail address",
  },
  {
    key: "build_concurrency",
    flag: "--build-concurrency",
    variable: "BERTH_BUILD_CONCURRENCY",
    isPath: false,
    expects: "a number of 1 to 16",
  },
  {
    key: "build_memory",
    flag: "--build-memory",
    variable: "BERTH_BUILD_MEMORY",
    isPath: false,
    expects: "an amount of memory, such as 2Gi",
  },
  {
    key: "build_cpu",
    flag: "--build-cpu",
    variable: "BERTH_BUILD_CPU",
    isPath: false,
    expects: "a number of CPUs, such as 1.5",
  },
  {
    key: "build_timeout",
    flag: "--build-timeout",
    variable: "BERTH_BUILD_TIMEOUT",
    isPath: false,
    expects: "a duration, such as 30m",
  },
  {
    key: "build_keep",
    flag: "--build-keep",
    variable: "BERTH_BUILD_KEEP",
    isPath: false,
    expects: "a number of 1 to 99",
  },
  {
    key: "build_disk",
    flag: "--build-disk",
    variable: "BERTH_BUILD_DISK",
    isPath: false,
    expects: "an amount of disk space, such as 20Gi",
  },
  {
    key: "upload_limit",
    flag: "--upload-limit",
    variable: "BERTH_UPLOAD_LIMIT",
    isPath: false,
    expects: "an amount of data, such as 512Mi",
  },
  {
    key: "specs_git_url",
    flag: "--specs-git-url",
    variable: "BERTH_SPECS_GIT_URL",
    isPath: false,
    expects: "https://, ssh:// or user@host:path",
  },
  {
    key: "specs_git_ref",
    flag: "--specs-git-ref",
    variable: "BERTH_SPECS_GIT_REF",
    isPath: false,
    expects: "a branch, a tag or a commit",
  },
  {
    key: "specs_git_path",
    flag: "--specs-git-path",
    variable: "BERTH_SPECS_GIT_PATH",
    isPath: false,
    expects: "a folder of the repository",
  },
  {
    key: "specs_git_interval",
    flag: "--specs-git-interval",
    variable: "BERTH_SPECS_GIT_INTERVAL",
    isPath: false,
    expects: "a duration, such as 1m",
  },
  {
    key: "specs_git_credential",
    flag: "--specs-git-credential",
    variable: "BERTH_SPECS_GIT_CREDENTIAL",
    isPath: false,
    expects: "the name of a Secret",
  },
  {
    key: "assistant",
    flag: "--assistant",
    variable: "BERTH_ASSISTANT",
    isPath: false,
    expects: "on or off",
  },
  {
    key: "assistant_port",
    flag: "--assistant-port",
    variable: "BERTH_ASSISTANT_PORT",
    isPath: false,
    expects: "a port of 0 to 65535 (0 picks a free one)",
  },
  {
    key: "assistant_data_dir",
    flag: "--assistant-data-dir",
    variable: "BERTH_ASSISTANT_DATA_DIR",
    isPath: true,
    expects: "a folder",
  },
  {
    key: "assistant_memory",
    flag: "--assistant-memory",
    variable: "BERTH_ASSISTANT_MEMORY",
    isPath: false,
    expects: "an amount of memory, such as 8Gi",
  },
  {
    key: "companion",
    flag: "--companion",
    variable: "BERTH_COMPANION",
    isPath: false,
    expects: "auto or off",
  },
  {
    key: "companion_port",
    flag: "--companion-port",
    variable: "BERTH_COMPANION_PORT",
    isPath: false,
    expects: "a port of 0 to 65535 (0 picks a free one)",
  },
  {
    key: "models_disk",
    flag: "--models-disk",
    variable: "BERTH_MODELS_DISK",
    isPath: false,
    expects: "an amount of disk space, such as 50Gi",
  },
  {
    key: "models_bandwidth",
    flag: "--models-bandwidth",
    variable: "BERTH_MODELS_BANDWIDTH",
    isPath: false,
    expects: "an amount of data in a second, such as 20Mi",
  },
  {
    key: "hf_endpoint",
    flag: "--hf-endpoint",
    variable: "HF_ENDPOINT",
    isPath: false,
    expects: "an https:// URL without credentials (http:// for this machine only)",
  },
  {
    key: "base_domain",
    flag: "--base-domain",
    variable: "BERTH_BASE_DOMAIN",
    isPath: false,
    expects: "a host name in lower case, such as localhost or apps.example.org",
  },
  {
    key: "log_format",
    flag: "--log-format",
    variable: "BERTH_LOG_FORMAT",
    isPath: false,
    expects: "json or pretty",
  },
  {
    key: "log_level",
    flag: "--log-level",
    variable: "BERTH_LOG_LEVEL",
    isPath: false,
    expects: "debug, info, warn or error",
  },
];

/** What stands in no config file and in no flag, and is shown to nobody. */
export const secretSettings = [
  { key: "password", variable: "BERTH_PASSWORD", what: "a password" },
  { key: "hf_token", variable: "HF_TOKEN", what: "a token" },
] as const;

/** Variables that are no settings of the server: what the command line reads, and the assistant that it starts. */
export const otherEnvironmentVariables = [
  "BERTH_CONFIG",
  // Where bin/berth keeps a Node.js of its own (scripts/pinned-node.cjs).
  "BERTH_NODE_DIR",
  "BERTH_URL",
  "BERTH_TOKEN",
  "BERTH_ASSISTANT_ENGINE",
  "BERTH_ASSISTANT_MODEL",
  "BERTH_ASSISTANT_ALIAS",
  "BERTH_ASSISTANT_KEEP_ALIVE",
  "BERTH_ASSISTANT_CONTEXT",
  "BERTH_ASSISTANT_PARALLEL",
  "BERTH_ASSISTANT_THREADS",
  "BERTH_ASSISTANT_QUEUE",
  "BERTH_ASSISTANT_TIMEOUT",
  "BERTH_ASSISTANT_LOG_FORMAT",
  "BERTH_ASSISTANT_LOG_LEVEL",
] as const;
