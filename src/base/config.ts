import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { ConfigError } from "./config-error.ts";
import { readConfigFile, wrongValue } from "./config-file.ts";
import { type ConfigFile, type ConfigKey, otherVariables, settings } from "./config-schema.ts";
import type { LogFormat } from "./logger.ts";
import { nearest } from "./nearest.ts";
import { parseBytes, parseCpu, parseDuration } from "./units.ts";

/**
 * The effective configuration: flags, then the environment, then config files, then defaults.
 * Every path is absolute. The object is frozen.
 */
export interface Config {
  readonly dataDir: string;
  readonly specsDir: string;
  /** Further templates beside the built-in ones; undefined where none were asked for. */
  readonly templatesDir: string | undefined;
  /** Port 0: the system picks one. An IPv6 address stands without brackets. */
  readonly listen: { readonly host: string; readonly port: number };
  /** As in DOCKER_HOST: `unix:///var/run/docker.sock`, `tcp://10.0.0.2:2375`. */
  readonly dockerHost: string;
  /** auto: Caddy on this machine, otherwise in a container; off where neither can be had. */
  readonly ingress: "auto" | "process" | "container" | "off";
  /** The image of a Caddy in a container. */
  readonly ingressImage: string;
  /** Where the ingress listens; undefined: it does not. */
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  /** Told to the certificate authority, which warns of certificates that run out. */
  readonly acmeEmail: string | undefined;
  readonly build: BuildLimits;
  readonly uploadBytesMax: number;
  /** A repository whose files are kept in the watched folder; undefined: none. */
  readonly specsGit: SpecsGit | undefined;
  readonly assistant: "on" | "off";
  readonly baseDomain: string;
  readonly logFormat: LogFormat;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** From BERTH_PASSWORD only. A secret: in no log, no answer and no listing. */
  readonly password: string | undefined;
  /** Config files that were read, the one that wins last. */
  readonly files: readonly string[];
  /** What is odd but not wrong, such as BERTH_DATADIR in the environment. */
  readonly warnings: readonly string[];
  /** Each setting as it counts, and where it came from; the password as "(secret)". */
  readonly values: readonly ConfigValue[];
}

export interface BuildLimits {
  /** Builds at once. */
  readonly concurrency: number;
  /** Of one build; undefined: as much as the engine gives. */
  readonly memoryBytes: number | undefined;
  readonly nanoCpus: number | undefined;
  readonly timeoutMs: number;
  /** Images and archives kept of each app, beside those in use. */
  readonly keep: number;
  /** Images and archives of all apps together; above it the oldest go, never one in use. */
  readonly diskBytesMax: number;
}

export interface SpecsGit {
  readonly url: string;
  readonly ref: string | undefined;
  readonly path: string;
  readonly intervalMs: number;
  /** Name of a Secret. */
  readonly credential: string | undefined;
}

export interface ConfigValue {
  readonly key: ConfigKey | "password";
  /** As it would stand in a config file; null where it is not set. */
  readonly value: string | null;
  readonly source: "flag" | "environment" | "file" | "default";
  /** The flag, the variable or the file; null for a default. */
  readonly origin: string | null;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigInput {
  /** Flags as given, by config key; `config` is the file that --config names. */
  readonly flags?: Readonly<Partial<Record<ConfigKey | "config", string | undefined>>>;
  readonly environment?: Environment;
  readonly workingDirectory?: string;
  readonly userId?: number;
  readonly homeDirectory?: string;
  readonly isTerminal?: boolean;
  /** Config file of the machine; another path only in tests. */
  readonly systemFile?: string;
}

/** Settings that are not set unless somebody sets them. */
const unset = [
  "templates_dir",
  "acme_email",
  "build_memory",
  "build_cpu",
  "specs_git_url",
  "specs_git_ref",
  "specs_git_credential",
] as const;
type SettingWithDefault = Exclude<ConfigKey, (typeof unset)[number]>;

const ingressModes: readonly Config["ingress"][] = ["auto", "process", "container", "off"];
const logLevels: readonly Config["logLevel"][] = ["debug", "info", "warn", "error"];

/** The one place that reads the environment of this process. */
function processEnvironment(): Environment {
  return process.env;
}

/** Where programs of this machine are looked for: PATH, and the folders that a service's PATH may lack. */
export function programSearchPath(environment: Environment = processEnvironment()): string {
  const usual = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"];
  return [environment["PATH"] ?? "", ...usual].join(delimiter);
}

/** Throws ConfigError, which says which value is wrong, where it came from and what it may be. */
export function loadConfig(input: ConfigInput = {}): Config {
  const environment = input.environment ?? processEnvironment();
  const workingDirectory = input.workingDirectory ?? process.cwd();
  const home = input.homeDirectory ?? environment["HOME"] ?? homedir();
  const found = new Map<ConfigKey, ConfigValue>();
  const take = (
    key: ConfigKey,
    value: string,
    source: ConfigValue["source"],
    origin: string | null,
    base: string,
    isPath: boolean,
  ) => {
    const expected = wrongValue(key, value);
    if (expected !== undefined)
      throw new ConfigError(`${origin ?? key} must be ${expected}, not "${value}"`);
    found.set(key, { key, value: isPath ? absolute(value, base, home) : value, source, origin });
  };
  const takeFile = (file: string, content: ConfigFile) => {
    for (const { key, isPath } of settings) {
      const value = content[key];
      if (value !== undefined) take(key, value, "file", file, dirname(file), isPath);
    }
  };
  const takeEnvironmentAndFlags = () => {
    for (const { key, variable, isPath } of settings) {
      const value = environment[variable];
      if (value) take(key, value, "environment", variable, workingDirectory, isPath);
    }
    for (const { key, flag, isPath } of settings) {
      const value = input.flags?.[key];
      if (value !== undefined) take(key, value, "flag", flag, workingDirectory, isPath);
    }
  };

  const files: string[] = [];
  const named = input.flags?.config ?? (environment["BERTH_CONFIG"] || undefined);
  if (named !== undefined) {
    const file = absolute(named, workingDirectory, home);
    const content = readConfigFile(file);
    if (!content)
      throw new ConfigError(`there is no config file ${file}`, "check --config and BERTH_CONFIG");
    takeFile(file, content);
    files.push(file);
  } else {
    const systemFile = input.systemFile ?? "/etc/berth/config.yaml";
    const content = readConfigFile(systemFile);
    if (content) {
      takeFile(systemFile, content);
      files.push(systemFile);
    }
  }
  takeEnvironmentAndFlags();
  const dataDir =
    found.get("data_dir")?.value ??
    defaultDataDir(environment, home, input.userId ?? userIdOfProcess());
  if (named === undefined) {
    const file = join(dataDir, "config.yaml");
    const content = readConfigFile(file);
    if (content?.data_dir !== undefined && absolute(content.data_dir, dataDir, home) !== dataDir)
      throw new ConfigError(
        `${file} sets data_dir to another folder than the one it lies in`,
        "set data_dir in /etc/berth/config.yaml, BERTH_DATA_DIR or --data-dir",
      );
    if (content) {
      takeFile(file, content);
      files.push(file);
      takeEnvironmentAndFlags();
    }
  }

  const local = join(workingDirectory, "specs");
  const isRoot = (input.userId ?? userIdOfProcess()) === 0;
  const defaults: Record<SettingWithDefault, string> = {
    data_dir: dataDir,
    specs_dir: existsSync(local) ? local : join(dataDir, "specs"),
    listen: "127.0.0.1:7776",
    docker_host: defaultDockerHost(environment, home),
    ingress: "auto",
    ingress_image: "caddy:2",
    http_port: isRoot ? "80" : "8080",
    https_port: isRoot ? "443" : "8443",
    build_concurrency: "1",
    build_timeout: "30m",
    build_keep: "5",
    build_disk: "20Gi",
    upload_limit: "512Mi",
    specs_git_path: ".",
    specs_git_interval: "1m",
    assistant: "off",
    base_domain: "localhost",
    log_format: (input.isTerminal ?? process.stderr.isTTY) ? "pretty" : "json",
    log_level: "info",
  };
  const text = (key: SettingWithDefault) => found.get(key)?.value ?? defaults[key];
  const optional = (key: (typeof unset)[number]) => found.get(key)?.value ?? undefined;
  const password = environment["BERTH_PASSWORD"] || undefined;

  const config: Config = {
    dataDir,
    specsDir: text("specs_dir"),
    templatesDir: optional("templates_dir"),
    listen: parseListen(text("listen"), found.get("listen")?.origin ?? "listen"),
    dockerHost: text("docker_host"),
    ingress: ingressModes.find((mode) => mode === text("ingress")) ?? "auto",
    ingressImage: text("ingress_image"),
    httpPort: Number(text("http_port")) || undefined,
    httpsPort: Number(text("https_port")) || undefined,
    acmeEmail: optional("acme_email"),
    build: Object.freeze({
      concurrency: Number(text("build_concurrency")),
      memoryBytes: mapped(optional("build_memory"), parseBytes),
      nanoCpus: mapped(optional("build_cpu"), parseCpu),
      timeoutMs: parseDuration(text("build_timeout")),
      keep: Number(text("build_keep")),
      diskBytesMax: parseBytes(text("build_disk")),
    }),
    uploadBytesMax: parseBytes(text("upload_limit")),
    specsGit: mapped(optional("specs_git_url"), (url) =>
      Object.freeze({
        url,
        ref: optional("specs_git_ref"),
        path: text("specs_git_path"),
        intervalMs: parseDuration(text("specs_git_interval")),
        credential: optional("specs_git_credential"),
      }),
    ),
    assistant: text("assistant") === "on" ? "on" : "off",
    baseDomain: text("base_domain"),
    logFormat: text("log_format") === "pretty" ? "pretty" : "json",
    logLevel: logLevels.find((level) => level === text("log_level")) ?? "info",
    password,
    files: Object.freeze(files),
    warnings: Object.freeze(misspeltVariables(environment)),
    values: Object.freeze([
      ...settings.map(
        ({ key }): ConfigValue =>
          found.get(key) ?? {
            key,
            value: hasDefault(key) ? defaults[key] : null,
            source: "default",
            origin: null,
          },
      ),
      password === undefined
        ? ({ key: "password", value: null, source: "default", origin: null } as const)
        : ({
            key: "password",
            value: "(secret)",
            source: "environment",
            origin: "BERTH_PASSWORD",
          } as const),
    ]),
  };
  Object.freeze(config.listen);
  for (const value of config.values) Object.freeze(value);
  return Object.freeze(config);
}

/** Throws ConfigError for what a person may ask for one day, but not of this version. */
export function assertAvailable(config: Config): void {
  if (config.assistant === "on")
    throw new ConfigError(
      "the control plane does not start the assistant yet",
      "leave --assistant off, and run it beside: berth assistant --system",
    );
}

/** `127.0.0.1:7776`, `localhost:0`, `[::1]:7776`. Throws ConfigError with `origin` in its message. */
export function parseListen(text: string, origin = "listen"): Config["listen"] {
  const match = /^(?:\[([^\]]+)\]|([^:\s[\]]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535)
    throw new ConfigError(
      `${origin} must be HOST:PORT or [IPV6]:PORT with a port of 0 to 65535, not "${text}"`,
      "for every address of the machine write 0.0.0.0:7776",
    );
  return { host: match[1] ?? match[2] ?? "", port };
}

function absolute(path: string, base: string, home: string): string {
  if (path === "~" || path.startsWith("~/")) return join(home, path.slice(1));
  return isAbsolute(path) ? resolve(path) : resolve(base, path);
}

function hasDefault(key: ConfigKey): key is SettingWithDefault {
  return !unset.some((item) => item === key);
}

function mapped<T>(text: string | undefined, map: (text: string) => T): T | undefined {
  return text === undefined ? undefined : map(text);
}

function userIdOfProcess(): number {
  return process.getuid?.() ?? 1;
}

function defaultDataDir(environment: Environment, home: string, userId: number): string {
  if (userId === 0) return "/var/lib/berth";
  const state = environment["XDG_STATE_HOME"];
  // The XDG specification says that a relative value is invalid and to be ignored.
  return join(state && isAbsolute(state) ? state : join(home, ".local/state"), "berth");
}

/** The first engine socket that exists; the usual place where none does, so that errors name it. */
function defaultDockerHost(environment: Environment, home: string): string {
  const usual = "/var/run/docker.sock";
  const runtime = environment["XDG_RUNTIME_DIR"];
  const candidates = [
    usual,
    ...(runtime ? [join(runtime, "docker.sock")] : []),
    join(home, ".docker/run/docker.sock"),
  ];
  return `unix://${candidates.find((path) => existsSync(path)) ?? usual}`;
}

/** Only names near to a known one: a variable of another program is nobody's mistake. */
function misspeltVariables(environment: Environment): string[] {
  const known: readonly string[] = [
    ...settings.map((setting) => setting.variable),
    ...otherVariables,
  ];
  const prefix = "BERTH_";
  // What all of them begin with would make any two of them near.
  const endings = known.flatMap((name) =>
    name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
  );
  return Object.keys(environment)
    .filter((name) => name.startsWith(prefix) && !known.includes(name))
    .flatMap((name) => {
      const meant = nearest(name.slice(prefix.length), endings);
      return meant ? [`${name} means nothing to Berth; did you mean ${prefix}${meant}?`] : [];
    });
}
