import assert from "node:assert";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import type { LogFormat } from "../base/logger.ts";
import type { Environment } from "../base/process-environment.ts";
import { toAbsolutePath } from "./absolute-path.ts";
import { checkApiDomain } from "./api-domain.ts";
import { ConfigError } from "./config-error.ts";
import { type ConfigFile, readConfigFile } from "./config-file.ts";
import { warnOfMisspelledVariables } from "./misspelled-variables.ts";
import type { ConfigContext, ServerSetting } from "./server-setting.ts";
import {
  type ConfigKey,
  getDefaultDataDir,
  type SpecsTrust,
  secretSettings,
  serverSettingList,
  serverSettings,
} from "./server-settings.ts";
import { type Default, resolveDefault } from "./setting.ts";
import { pairTlsFiles, type TlsFiles } from "./tls-files.ts";

/**
 * The effective configuration. Flags override the environment, which overrides config files, which override
 * defaults. Every path is absolute. The object is frozen.
 */
export interface Config {
  readonly dataDir: string;
  readonly specsDir: string;
  /** Folder of templates in addition to the built-in ones; undefined if none is configured. */
  readonly templatesDir: string | undefined;
  /** The address of the API. With port 0 the system chooses a free port. An IPv6 address has no brackets. */
  readonly listen: { readonly host: string; readonly port: number };
  /** The certificate of the API and its key; undefined if the API speaks plain HTTP. */
  readonly tls: TlsFiles | undefined;
  /** Addresses and networks of reverse proxies whose X-Forwarded-For header is trusted. */
  readonly trustedProxies: readonly string[];
  /** The host name under which the ingress serves the API over HTTPS; undefined if it does not. */
  readonly apiDomain: string | undefined;
  /**
   * The address of the container engine in the form of DOCKER_HOST: `unix:///var/run/docker.sock`,
   * `tcp://10.0.0.2:2375`.
   */
  readonly dockerHost: string;
  /** `auto` means a Caddy process on this machine, otherwise a Caddy container, otherwise no ingress. */
  readonly ingress: "auto" | "process" | "container" | "off";
  /** Image for running Caddy in a container. */
  readonly ingressImage: string;
  /** Port of the ingress for HTTP; undefined if it does not serve HTTP. */
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  /** Address to which the certificate authority sends warnings about expiring certificates. */
  readonly acmeEmail: string | undefined;
  readonly build: BuildLimits;
  readonly uploadBytesMax: number;
  /**
   * The spec files that may use fields with access to the machine, such as mounts of its folders; see
   * findFileAuthority.
   */
  readonly specsTrust: SpecsTrust;
  /** Folders of the machine that writers without the scope `admin` may mount. */
  readonly hostPathAllow: readonly string[];
  /** The repository that is synchronised into the specs folder; undefined if none is configured. */
  readonly specsGit: SpecsGitSettings | undefined;
  /** The assistant that the server supervises; undefined if it is off. */
  readonly assistant: AssistantSettings | undefined;
  /** The companion that is started if there is a session bus; undefined if the companion is turned off. */
  readonly companion: CompanionSettings | undefined;
  readonly models: ModelSettings;
  /** The private IPv4 range from which the network of each stack gets a /26. */
  readonly networkPool: string;
  readonly baseDomain: string;
  readonly logFormat: LogFormat;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** The password, which comes from the variable BERTH_PASSWORD only. It is in no log, no response and no listing. */
  readonly password: string | undefined;
  /** Config files that were read; settings of later files override those of earlier files. */
  readonly files: readonly string[];
  /** Warnings about probable mistakes, such as BERTH_DATADIR in the environment. */
  readonly warnings: readonly string[];
  /** Every setting with its effective value and its source. The value of a secret is "(secret)". */
  readonly values: readonly ConfigValue[];
}

export interface BuildLimits {
  /** Number of concurrent builds. */
  readonly concurrency: number;
  /** Memory limit of one build in bytes; undefined means no limit. */
  readonly memoryBytes: number | undefined;
  readonly nanoCpus: number | undefined;
  readonly timeoutMs: number;
  /** Number of unused images and archives to keep of each app, in addition to those in use. */
  readonly keep: number;
  /** Limit on the size of the images and archives of all apps. Above it, the oldest unused ones are removed. */
  readonly diskBytesMax: number;
}

export interface SpecsGitSettings {
  readonly url: string;
  readonly ref: string | undefined;
  readonly path: string;
  readonly intervalMs: number;
  /** Name of the Secret with the repository's credentials. */
  readonly credential: string | undefined;
}

export interface AssistantSettings {
  /** The assistant's port on 127.0.0.1. With 0 the system chooses a free port. */
  readonly port: number;
  /** Folder of the models, the ledger and the sockets of the assistant. */
  readonly dataDir: string;
  /** Memory budget of all models together; undefined means the default of the assistant. */
  readonly memoryBytesMax: number | undefined;
}

export interface CompanionSettings {
  /** The companion's port on 127.0.0.1. With 0 the system chooses a free port. */
  readonly port: number;
}

export interface ModelSettings {
  /** Disk budget of model files that belong to no Model. Above it, the least recently used files are removed. */
  readonly diskBytesMax: number;
  /** Bandwidth of all downloads together, in bytes per second; undefined: no limit. */
  readonly bandwidthBytesMax: number | undefined;
  /** Base URL of the model hub, without a trailing slash. */
  readonly hubUrl: string;
  /** The hub's token, which comes from the variable HF_TOKEN only and is kept secret like the password. */
  readonly hubToken: string | undefined;
}

export interface ConfigValue {
  readonly key: ConfigKey | (typeof secretSettings)[number]["key"];
  /** The value as text, as a config file would contain it; null if the setting has no value. */
  readonly value: string | null;
  readonly source: "flag" | "environment" | "file" | "default";
  /** The flag, the variable or the file that set the value; null for a default. */
  readonly origin: string | null;
}

export interface ConfigInput {
  /** Values of flags by config key; `config` is the path given with --config. */
  readonly flags?: Readonly<Partial<Record<ConfigKey | "config", string | undefined>>>;
  readonly environment?: Environment;
  readonly workingDirectory?: string;
  readonly userId?: number;
  readonly homeDirectory?: string;
  readonly isTerminal?: boolean;
  /** Path of the system-wide config file; only tests set another path. */
  readonly systemFile?: string;
}

/** Returns the environment of this process. No other code reads it. */
function getProcessEnvironment(): Environment {
  return process.env;
}

/**
 * Returns the folders in which Berth looks for programs, in the format of PATH: those of PATH, and folders that the
 * PATH of a service may lack.
 */
export function getProgramSearchPath(environment: Environment = getProcessEnvironment()): string {
  const usual = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"];
  return [environment["PATH"] ?? "", ...usual].join(delimiter);
}

/** Returns the environment for programs that Berth starts: its own environment without the secrets. */
export function createChildEnvironment(
  environment: Environment = getProcessEnvironment(),
): Environment {
  const ours: readonly string[] = [
    ...secretSettings.map(({ variable }) => variable),
    "BERTH_TOKEN",
  ];
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !ours.includes(name)));
}

/** Loads the configuration. Throws ConfigError, which names the wrong value, its source and the allowed values. */
export function loadConfig(input: ConfigInput = {}): Config {
  const environment = input.environment ?? getProcessEnvironment();
  const workingDirectory = input.workingDirectory ?? process.cwd();
  const home = input.homeDirectory ?? environment["HOME"] ?? homedir();
  const surroundings = {
    environment,
    workingDirectory,
    home,
    userId: input.userId ?? getUserId(),
    isTerminal: input.isTerminal ?? process.stderr.isTTY,
  };
  const found = new Map<ConfigKey, ConfigValue>();
  const setValue = (
    { key, isPath, expects, parse }: ServerSetting<ConfigKey>,
    value: string,
    source: ConfigValue["source"],
    origin: string,
    base: string,
  ) => {
    if (parse(value) === undefined)
      throw new ConfigError(`${origin} must be ${expects}, not "${value}"`);
    found.set(key, {
      key,
      value: isPath === true ? toAbsolutePath(value, base, home) : value,
      source,
      origin,
    });
  };
  const setValuesOfFile = (file: string, content: ConfigFile) => {
    for (const setting of serverSettingList) {
      const value = content[setting.key];
      if (value !== undefined) setValue(setting, value, "file", file, dirname(file));
    }
  };
  const setValuesOfEnvironmentAndFlags = () => {
    for (const setting of serverSettingList) {
      const { variable } = setting;
      const value = environment[variable];
      if (value) setValue(setting, value, "environment", variable, workingDirectory);
    }
    for (const setting of serverSettingList) {
      const value = input.flags?.[setting.key];
      if (value !== undefined) setValue(setting, value, "flag", setting.flag, workingDirectory);
    }
  };

  const files: string[] = [];
  const explicitFile = input.flags?.config ?? (environment["BERTH_CONFIG"] || undefined);
  if (explicitFile !== undefined) {
    const file = toAbsolutePath(explicitFile, workingDirectory, home);
    const content = readConfigFile(file);
    if (!content)
      throw new ConfigError(`there is no config file ${file}`, "check --config and BERTH_CONFIG");
    setValuesOfFile(file, content);
    files.push(file);
  } else {
    const systemFile = input.systemFile ?? "/etc/berth/config.yaml";
    const content = readConfigFile(systemFile);
    if (content) {
      setValuesOfFile(systemFile, content);
      files.push(systemFile);
    }
  }
  setValuesOfEnvironmentAndFlags();
  const dataDir = found.get("data_dir")?.value ?? getDefaultDataDir(surroundings);
  if (explicitFile === undefined) {
    const file = join(dataDir, "config.yaml");
    const content = readConfigFile(file);
    if (
      content?.data_dir !== undefined &&
      toAbsolutePath(content.data_dir, dataDir, home) !== dataDir
    )
      throw new ConfigError(
        `${file} sets data_dir to a folder other than the one that contains the file`,
        "set data_dir in /etc/berth/config.yaml, BERTH_DATA_DIR or --data-dir",
      );
    if (content) {
      setValuesOfFile(file, content);
      files.push(file);
      setValuesOfEnvironmentAndFlags();
    }
  }

  const context: ConfigContext = { dataDir, ...surroundings };
  const getText = ({ key, default: value }: ServerSetting<ConfigKey>): string | null =>
    found.get(key)?.value ?? (value === undefined ? null : resolveDefault(value, context));
  const readOptional = <Value>(setting: ServerSetting<ConfigKey, Value>): Value | undefined => {
    const text = getText(setting);
    return text === null ? undefined : setting.parse(text);
  };
  const read = <Value>(setting: ServerSetting<ConfigKey, Value, Default<ConfigContext>>): Value => {
    const value = readOptional(setting);
    assert(value !== undefined, `the default of ${setting.key} is valid`);
    return value;
  };
  const secret = (variable: (typeof secretSettings)[number]["variable"]) =>
    environment[variable] || undefined;

  const settings = serverSettings;
  const specsGitUrl = readOptional(settings.specsGitUrl);
  const hasAssistant = read(settings.assistant) === "on";
  const config: Config = {
    dataDir,
    specsDir: read(settings.specsDir),
    templatesDir: readOptional(settings.templatesDir),
    listen: parseListen(read(settings.listen), found.get("listen")?.origin ?? "listen"),
    tls: pairTlsFiles(readOptional(settings.tlsCert), readOptional(settings.tlsKey)),
    trustedProxies: Object.freeze(readOptional(settings.trustedProxies) ?? []),
    apiDomain: readOptional(settings.apiDomain),
    dockerHost: read(settings.dockerHost),
    ingress: read(settings.ingress),
    ingressImage: read(settings.ingressImage),
    httpPort: read(settings.httpPort) || undefined,
    httpsPort: read(settings.httpsPort) || undefined,
    acmeEmail: readOptional(settings.acmeEmail),
    build: Object.freeze({
      concurrency: read(settings.buildConcurrency),
      memoryBytes: readOptional(settings.buildMemory),
      nanoCpus: readOptional(settings.buildCpu),
      timeoutMs: read(settings.buildTimeout),
      keep: read(settings.buildKeep),
      diskBytesMax: read(settings.buildDisk),
    }),
    uploadBytesMax: read(settings.uploadLimit),
    specsTrust: read(settings.specsTrust),
    hostPathAllow: Object.freeze(readOptional(settings.hostPathAllow) ?? []),
    specsGit:
      specsGitUrl === undefined
        ? undefined
        : Object.freeze({
            url: specsGitUrl,
            ref: readOptional(settings.specsGitRef),
            path: read(settings.specsGitPath),
            intervalMs: read(settings.specsGitInterval),
            credential: readOptional(settings.specsGitCredential),
          }),
    assistant: hasAssistant
      ? Object.freeze({
          port: read(settings.assistantPort),
          dataDir: read(settings.assistantDataDir),
          memoryBytesMax: readOptional(settings.assistantMemory),
        })
      : undefined,
    // A companion uses the system assistant's models, so without a system assistant no companion is started.
    companion:
      read(settings.companion) === "auto" && hasAssistant
        ? Object.freeze({ port: read(settings.companionPort) })
        : undefined,
    models: Object.freeze({
      diskBytesMax: read(settings.modelsDisk),
      bandwidthBytesMax: readOptional(settings.modelsBandwidth),
      hubUrl: read(settings.hfEndpoint).replace(/\/+$/, ""),
      hubToken: secret("HF_TOKEN"),
    }),
    networkPool: read(settings.networkPool),
    baseDomain: read(settings.baseDomain),
    logFormat: read(settings.logFormat),
    logLevel: read(settings.logLevel),
    password: secret("BERTH_PASSWORD"),
    files: Object.freeze(files),
    warnings: Object.freeze(warnOfMisspelledVariables(environment)),
    values: Object.freeze([
      ...serverSettingList.map((setting): ConfigValue => {
        const { key } = setting;
        return found.get(key) ?? { key, value: getText(setting), source: "default", origin: null };
      }),
      ...secretSettings.map(
        ({ key, variable }): ConfigValue =>
          secret(variable) === undefined
            ? { key, value: null, source: "default", origin: null }
            : { key, value: "(secret)", source: "environment", origin: variable },
      ),
    ]),
  };
  checkApiDomain(config);
  Object.freeze(config.listen);
  for (const value of config.values) Object.freeze(value);
  return Object.freeze(config);
}

/** Parses `127.0.0.1:7776`, `localhost:0` and `[::1]:7776`. Throws ConfigError with `origin` in its message. */
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

function getUserId(): number {
  return process.getuid?.() ?? 1;
}
