import { type Stats, statSync } from "node:fs";
import { totalmem } from "node:os";
import { basename, resolve } from "node:path";
import { resolveAssistantDataDir, resolveCompanionDataDir } from "../base/assistant-paths.ts";
import { defaultPorts } from "../base/default-ports.ts";
import { BerthError } from "../base/errors.ts";
import type { LogFormat } from "../base/logger.ts";
import type { Environment } from "../base/process-environment.ts";
import { parseBytes, parseDuration } from "../base/units.ts";
import { ConfigError } from "./config-error.ts";

/** What `berth assistant` runs with: flags, then the environment, then defaults. Frozen; paths are absolute. */
export interface AssistantConfig {
  /** system: local models on 7777. user: the companion of one person, on 7778. */
  readonly instance: "system" | "user";
  /** Which program started it, as that one calls itself; undefined: a person did. */
  readonly startedBy: string | undefined;
  readonly dataDir: string;
  /** On 127.0.0.1. 0: the system picks one. */
  readonly port: number;
  readonly engine: "auto" | "llama" | "stub";
  /** Loaded at start and kept. */
  readonly models: readonly ConfiguredModel[];
  /** Another name for a model to its id. */
  readonly aliases: ReadonlyMap<string, string>;
  /** What all models together may take. */
  readonly memoryBytesMax: number;
  /** How long a model that was loaded on demand stays idle; Infinity: for ever. */
  readonly keepAliveMs: number;
  /** Of one sequence, in tokens; undefined: what the model was trained with, at most 8,192. */
  readonly contextTokens: number | undefined;
  /** Requests that a model answers side by side; undefined: 8, fewer where memory is short. */
  readonly sequences: number | undefined;
  /** Undefined: found by calibration. */
  readonly threads: number | undefined;
  /** Requests that wait for a place, for each model; more are refused with 429. */
  readonly queueMax: number;
  /** From a request's arrival to its end. */
  readonly requestTimeoutMs: number;
  readonly logFormat: LogFormat;
  readonly logLevel: "debug" | "info" | "warn" | "error";
}

/** `path` undefined: the file of that id in the models folder. */
export interface ConfiguredModel {
  readonly id: string;
  readonly path: string | undefined;
}

export interface AssistantFlags {
  readonly system?: boolean | undefined;
  readonly user?: boolean | undefined;
  readonly startedBy?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly port?: string | undefined;
  readonly engine?: string | undefined;
  readonly model?: readonly string[] | undefined;
  readonly alias?: readonly string[] | undefined;
  readonly memory?: string | undefined;
  readonly keepAlive?: string | undefined;
  readonly context?: string | undefined;
  readonly parallel?: string | undefined;
  readonly threads?: string | undefined;
  readonly queue?: string | undefined;
  readonly timeout?: string | undefined;
  readonly logFormat?: string | undefined;
  readonly logLevel?: string | undefined;
}

/** The rest is the system's, the apps' and what llama.cpp takes beside what it tells. */
const DEFAULT_MEMORY_SHARE = 0.75;

const engines = ["auto", "llama", "stub"] as const;
const logFormats = ["json", "pretty"] as const;
const logLevels = ["debug", "info", "warn", "error"] as const;

/** Throws ConfigError, which names the flag or the variable. */
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
      "start one daemon for each: berth assistant --system",
    );
  const instance = flags.user === true ? "user" : "system";
  const setting = (flag: keyof AssistantFlags, name: string) => {
    const fromFlag = flags[flag];
    if (typeof fromFlag === "string")
      return { text: fromFlag, origin: `--${name.toLowerCase().replaceAll("_", "-")}` };
    const variable = `BERTH_ASSISTANT_${name}`;
    const text = environment[variable];
    return text ? { text, origin: variable } : undefined;
  };
  return Object.freeze({
    instance,
    startedBy: flags.startedBy || undefined,
    dataDir: (instance === "user" ? resolveCompanionDataDir : resolveAssistantDataDir)({
      flag: flags.dataDir,
      environment,
      workingDirectory,
    }),
    port: parseInteger(setting("port", "PORT"), 0, 65_535) ?? getDefaultPort(instance),
    engine: parseChoice(setting("engine", "ENGINE"), engines) ?? "auto",
    models: Object.freeze(
      (flags.model ?? splitList(environment["BERTH_ASSISTANT_MODEL"])).map((text) =>
        parseConfiguredModel(text, workingDirectory),
      ),
    ),
    aliases: new Map(
      (flags.alias ?? splitList(environment["BERTH_ASSISTANT_ALIAS"])).map(parseAlias),
    ),
    memoryBytesMax:
      parseSetting(setting("memory", "MEMORY"), parseBytes) ??
      Math.floor(getMemoryBytes() * DEFAULT_MEMORY_SHARE),
    keepAliveMs: parseSetting(setting("keepAlive", "KEEP_ALIVE"), parseKeepAlive) ?? 5 * 60_000,
    contextTokens: parseInteger(setting("context", "CONTEXT"), 16, 10_000_000),
    sequences: parseInteger(setting("parallel", "PARALLEL"), 1, 256),
    threads: parseInteger(setting("threads", "THREADS"), 1, 1_024),
    queueMax: parseInteger(setting("queue", "QUEUE"), 0, 100_000) ?? 64,
    requestTimeoutMs: parseSetting(setting("timeout", "TIMEOUT"), parseDuration) ?? 60 * 60_000,
    logFormat:
      parseChoice(setting("logFormat", "LOG_FORMAT"), logFormats) ??
      (input.isTerminal ? "pretty" : "json"),
    logLevel: parseChoice(setting("logLevel", "LOG_LEVEL"), logLevels) ?? "info",
  });
}

type Setting = { readonly text: string; readonly origin: string } | undefined;

function getDefaultPort(instance: "system" | "user"): number {
  return instance === "user" ? defaultPorts.companion : defaultPorts.system;
}

function parseInteger(setting: Setting, min: number, max: number): number | undefined {
  if (!setting) return undefined;
  const value = Number(setting.text);
  if (!/^\d+$/.test(setting.text) || value < min || value > max)
    throw new ConfigError(`${setting.origin} must be a whole number from ${min} to ${max}`);
  return value;
}

function parseChoice<T extends string>(setting: Setting, choices: readonly T[]): T | undefined {
  if (!setting) return undefined;
  const choice = choices.find((one) => one === setting.text);
  if (choice === undefined)
    throw new ConfigError(`${setting.origin} must be one of ${choices.join(", ")}`);
  return choice;
}

function parseSetting<T>(setting: Setting, parse: (text: string) => T): T | undefined {
  if (!setting) return undefined;
  try {
    return parse(setting.text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "it is wrong";
    const hint = error instanceof BerthError ? error.hint : undefined;
    throw new ConfigError(`${setting.origin}: ${reason}`, hint);
  }
}

/** `-1` or `forever`: it stays. */
function parseKeepAlive(text: string): number {
  return text === "-1" || text === "forever" ? Number.POSITIVE_INFINITY : parseDuration(text);
}

const MODEL_FILE_HINT =
  "name a GGUF file with --model FILE.gguf; the path counts from the working directory";

/** Otherwise it is the id of a model in the models folder, where there is no such file. */
function looksLikeFile(text: string): boolean {
  return /\.gguf$/i.test(text) || /^(\.{0,2}|~)\//.test(text);
}

/** `[ID=]FILE`, or the id of a model in the models folder. */
function parseConfiguredModel(text: string, workingDirectory: string): ConfiguredModel {
  const split = /^(?<id>[^=/]+(\/[^=/]+)*)=(?<file>.+)$/.exec(text)?.groups;
  const file = split?.["file"] ?? text;
  const path = resolve(workingDirectory, file);
  const facts = statIfReadable(path);
  if (file === text && !facts?.isFile() && !looksLikeFile(text)) {
    if (text === "") throw new ConfigError("--model is empty", MODEL_FILE_HINT);
    return { id: text, path: undefined };
  }
  if (facts?.isDirectory())
    throw new ConfigError(
      `${file} is a folder, and a model is a file`,
      "name a GGUF file in it; what DATA_DIR/models has in it is found without being named",
    );
  if (!facts?.isFile()) throw new ConfigError(`there is no model file ${file}`, MODEL_FILE_HINT);
  return { id: split?.["id"] ?? basename(file).replace(/\.gguf$/i, ""), path };
}

/** Undefined also where a folder on the way is none, or may not be looked into. */
function statIfReadable(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function parseAlias(text: string): [string, string] {
  const split = /^(?<alias>[^=]+)=(?<id>[^=]+)$/.exec(text)?.groups;
  if (split?.["alias"] === undefined || split["id"] === undefined)
    throw new ConfigError(
      `"${text}" is not an alias`,
      "write --alias NAME=MODEL, such as --alias gpt-4o-mini=qwen3-4b",
    );
  return [split["alias"], split["id"]];
}

function splitList(text: string | undefined): readonly string[] {
  return text ? text.split(",").filter((item) => item !== "") : [];
}

/** Of the machine, or of the control group where that has less. */
function getMemoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}
