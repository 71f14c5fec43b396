import { type Static, Type } from "typebox";

const domainPattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

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
    ingress: Type.Optional(Type.String({ pattern: "^(off|caddy)$" })),
    assistant: Type.Optional(Type.String({ pattern: "^(on|off)$" })),
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

export interface SettingNames {
  readonly key: ConfigKey;
  /** As on the command line: `--data-dir`. */
  readonly flag: string;
  readonly variable: string;
  /** Relative values mean the folder of the file, or the working directory. */
  readonly isPath: boolean;
  /** Completes "KEY must be ...". */
  readonly expects: string;
}

/** Every setting but the password, in the order in which `berth config` shows them. */
export const settings: readonly SettingNames[] = [
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
    expects: "off or caddy",
  },
  {
    key: "assistant",
    flag: "--assistant",
    variable: "BERTH_ASSISTANT",
    isPath: false,
    expects: "on or off",
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

/** Variables that are no settings of the server: its secret, and what the command line reads. */
export const otherVariables = [
  "BERTH_PASSWORD",
  "BERTH_CONFIG",
  "BERTH_URL",
  "BERTH_TOKEN",
] as const;
