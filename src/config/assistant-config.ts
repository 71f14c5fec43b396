import { resolveAssistantDataDir, resolveCompanionDataDir } from "../base/assistant-paths.ts";
import type { LogFormat } from "../base/logger.ts";
import type { Environment } from "../base/process-environment.ts";
import {
  type AssistantContext,
  type AssistantSetting,
  type AssistantSettingFlags,
  assistantSettings,
} from "./assistant-settings.ts";
import { ConfigError } from "./config-error.ts";
import type { ConfiguredModel } from "./configured-model.ts";
import type { ConfiguredTemplate } from "./configured-template.ts";
import { type Default, resolveDefault } from "./setting.ts";

/**
 * The settings of `berth assistant`. Flags override the environment, which overrides the defaults. The object is
 * frozen, and all paths are absolute.
 */
export interface AssistantConfig {
  /** `system` is the daemon with local models, on port 7777. `user` is the companion of one user, on port 7778. */
  readonly instance: "system" | "user";
  /** The name of the program that started the daemon; undefined if the user started it. */
  readonly startedBy: string | undefined;
  readonly dataDir: string;
  /** The port of the daemon on 127.0.0.1. With 0 the system chooses a free port. */
  readonly port: number;
  /**
   * Values of the Origin header of web pages that may use the port, in addition to the pages that are always allowed.
   */
  readonly allowedOrigins: ReadonlySet<string>;
  readonly engine: "auto" | "llama" | "stub";
  /** Models that are loaded at start and stay in memory. */
  readonly models: readonly ConfiguredModel[];
  /** Chat templates that replace those of model files. */
  readonly chatTemplates: readonly ConfiguredTemplate[];
  /** Maps each alias to the id of its model. */
  readonly aliases: ReadonlyMap<string, string>;
  /** The memory budget of all models together. */
  readonly memoryBytesMax: number;
  /** An idle model that was loaded on demand is unloaded after this time; with Infinity, it is never unloaded. */
  readonly keepAliveMs: number;
  /**
   * The context length of one concurrent request in tokens; undefined means the length with which the model was
   * trained, at most 8,192.
   */
  readonly contextTokens: number | undefined;
  /** The number of requests that a model answers concurrently; undefined means 8, or fewer if memory is short. */
  readonly sequences: number | undefined;
  /**
   * True if the models give the same request the same logprobs, bit for bit. The registration of a model can override
   * this.
   */
  readonly isDeterministic: boolean;
  /** The number of threads; if undefined, the assistant measures which number is fastest. */
  readonly threads: number | undefined;
  /** The number of requests that may wait for each model; further requests are refused with status 429. */
  readonly queueMax: number;
  /** The time limit of a request, from its arrival to its end. */
  readonly requestTimeoutMs: number;
  readonly logFormat: LogFormat;
  readonly logLevel: "debug" | "info" | "warn" | "error";
}

export interface AssistantFlags extends AssistantSettingFlags {
  readonly system?: boolean | undefined;
  readonly user?: boolean | undefined;
  readonly startedBy?: string | undefined;
  readonly dataDir?: string | undefined;
}

/** Reads the settings. Throws ConfigError, which names the wrong flag or variable. */
export function loadAssistantConfig(input: {
  readonly flags: AssistantFlags;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly isTerminal: boolean;
}): AssistantConfig {
  const { flags, environment, workingDirectory } = input;
  if (flags.system === true && flags.user === true)
    throw new ConfigError(
      "--system and --user exclude each other",
      "start two daemons, one with `berth assistant --system` and one with `berth assistant --user`",
    );
  const instance = flags.user === true ? "user" : "system";
  const context: AssistantContext = { instance, isTerminal: input.isTerminal };
  const readOptional = <Value>(
    { variable, flag, parse }: AssistantSetting<Value>,
    given: string | undefined,
  ): Value | undefined => {
    if (given !== undefined) return parse(given, flag, workingDirectory);
    const text = environment[variable];
    return text ? parse(text, variable, workingDirectory) : undefined;
  };
  const read = <Value>(
    setting: AssistantSetting<Value, Default<AssistantContext>>,
    given: string | undefined,
  ): Value =>
    readOptional(setting, given) ??
    setting.parse(resolveDefault(setting.default, context), setting.flag, workingDirectory);
  const readList = <Value>(
    { variable, parse }: AssistantSetting<Value>,
    given: readonly string[] | undefined,
  ): readonly Value[] =>
    (given ?? splitList(environment[variable])).map((text) =>
      parse(text, variable, workingDirectory),
    );
  const settings = assistantSettings;
  return Object.freeze({
    instance,
    startedBy: flags.startedBy || undefined,
    dataDir: (instance === "user" ? resolveCompanionDataDir : resolveAssistantDataDir)({
      flag: flags.dataDir,
      environment,
      workingDirectory,
    }),
    port: read(settings.port, flags.port),
    allowedOrigins: new Set(readList(settings.allowedOrigin, flags.allowedOrigin)),
    engine: read(settings.engine, flags.engine),
    models: Object.freeze(readList(settings.model, flags.model)),
    chatTemplates: Object.freeze(readList(settings.chatTemplate, flags.chatTemplate)),
    aliases: new Map(readList(settings.alias, flags.alias)),
    memoryBytesMax: read(settings.memory, flags.memory),
    keepAliveMs: read(settings.keepAlive, flags.keepAlive),
    contextTokens: readOptional(settings.context, flags.context),
    sequences: readOptional(settings.parallel, flags.parallel),
    isDeterministic: read(settings.deterministic, flags.deterministic),
    threads: readOptional(settings.threads, flags.threads),
    queueMax: read(settings.queue, flags.queue),
    requestTimeoutMs: read(settings.timeout, flags.timeout),
    logFormat: read(settings.logFormat, flags.logFormat),
    logLevel: read(settings.logLevel, flags.logLevel),
  });
}

function splitList(text: string | undefined): readonly string[] {
  return text ? text.split(",").filter((item) => item !== "") : [];
}
