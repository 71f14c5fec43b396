import { totalmem } from "node:os";
import { defaultPorts } from "../base/default-ports.ts";
import { BerthError } from "../base/errors.ts";
import { parseBytes, parseDuration } from "../base/units.ts";
import { ConfigError } from "./config-error.ts";
import { type ConfiguredModel, parseConfiguredModel } from "./configured-model.ts";
import { parseConfiguredOrigin } from "./configured-origin.ts";
import { parseConfiguredTemplate } from "./configured-template.ts";
import { createFlagName, type Default, type Setting, type SettingFlags } from "./setting.ts";

/** Values of the process and the machine from which the defaults of settings are computed. */
export interface AssistantContext {
  readonly instance: "system" | "user";
  readonly isTerminal: boolean;
}

type AssistantDefault = Default<AssistantContext> | undefined;

interface AssistantSettingRow<Value, D extends AssistantDefault> {
  /** Name of the environment variable without the prefix BERTH_ASSISTANT_. The flag is derived from it. */
  readonly name: string;
  readonly argument: string;
  readonly help: string;
  readonly default: D;
  readonly choices?: readonly string[];
  /** Parses the value. Throws ConfigError, whose message begins with `origin`, which is the flag or the variable. */
  readonly parse: (text: string, origin: string, workingDirectory: string) => Value;
}

export type AssistantSetting<
  Value = unknown,
  D extends AssistantDefault = AssistantDefault,
> = Setting<D> & AssistantSettingRow<Value, D>;

function setting<Value, D extends AssistantDefault>(
  row: AssistantSettingRow<Value, D>,
): AssistantSetting<Value, D> {
  return {
    flag: createFlagName(row.name.toLowerCase()),
    variable: `BERTH_ASSISTANT_${row.name}`,
    ...row,
  };
}

function list<Value>(
  row: AssistantSettingRow<Value, undefined>,
): AssistantSetting<Value, undefined> & { readonly isList: true } {
  return { ...setting(row), isList: true };
}

/**
 * The share of the machine's memory that models may use. The rest is for the system, the apps, and the buffers that
 * llama.cpp does not report.
 */
const DEFAULT_MEMORY_SHARE = 0.75;

const DEFAULT_UPSTREAM = `http://127.0.0.1:${defaultPorts.system}`;

/** The settings of `berth assistant`, in the order of its help. Only a companion has `upstream`. */
export const assistantSettings = {
  upstream: setting({
    name: "UPSTREAM",
    argument: "<url>",
    help: "URL of the system instance that runs the models of a companion (BERTH_ASSISTANT_UPSTREAM); default: http://127.0.0.1:7777, unless --engine or --model is given",
    default: DEFAULT_UPSTREAM,
    parse: parseUpstream,
  }),
  model: list({
    name: "MODEL",
    argument: "<[id=]file>",
    help: "GGUF file, or model of DATA_DIR/models, that is loaded at start and kept loaded; can be repeated (BERTH_ASSISTANT_MODEL)",
    default: undefined,
    parse: (text, _origin, workingDirectory): ConfiguredModel =>
      parseConfiguredModel(text, workingDirectory),
  }),
  chatTemplate: list({
    name: "CHAT_TEMPLATE",
    argument: "<[id=]file>",
    help: "file with a chat template, or its text, in place of the one in the file of the model ID, or of all chat models of --model; can be repeated (BERTH_ASSISTANT_CHAT_TEMPLATE)",
    default: undefined,
    parse: parseConfiguredTemplate,
  }),
  alias: list({
    name: "ALIAS",
    argument: "<name=model>",
    help: "another name for a model; can be repeated (BERTH_ASSISTANT_ALIAS)",
    default: undefined,
    parse: parseAlias,
  }),
  port: setting({
    name: "PORT",
    argument: "<port>",
    help: "port on 127.0.0.1; 0: any (BERTH_ASSISTANT_PORT)",
    default: ({ instance }) =>
      String(instance === "user" ? defaultPorts.companion : defaultPorts.system),
    parse: integer(0, 65_535),
  }),
  allowedOrigin: list({
    name: "ALLOWED_ORIGIN",
    argument: "<origin>",
    help: "a web page or desktop app that may use the port, by its exact Origin header, such as app://obsidian.md; can be repeated (BERTH_ASSISTANT_ALLOWED_ORIGIN)",
    default: undefined,
    parse: parseConfiguredOrigin,
  }),
  engine: setting({
    name: "ENGINE",
    argument: "<engine>",
    help: "inference engine (BERTH_ASSISTANT_ENGINE); default: auto",
    default: "auto",
    choices: ["auto", "llama", "stub"],
    parse: choice("auto", "llama", "stub"),
  }),
  memory: setting({
    name: "MEMORY",
    argument: "<amount>",
    help: "memory budget of all models together (BERTH_ASSISTANT_MEMORY); default: three quarters of the machine's memory",
    default: () => String(Math.floor(getMemoryBytes() * DEFAULT_MEMORY_SHARE)),
    parse: withOrigin(parseBytes),
  }),
  keepAlive: setting({
    name: "KEEP_ALIVE",
    argument: "<duration>",
    help: "how long an idle model that was loaded on demand stays loaded; -1: without a time limit (BERTH_ASSISTANT_KEEP_ALIVE); default: 5m",
    default: "5m",
    parse: withOrigin(parseKeepAlive),
  }),
  context: setting({
    name: "CONTEXT",
    argument: "<tokens>",
    help: "context length of one request in tokens (BERTH_ASSISTANT_CONTEXT); default: up to 8192",
    default: undefined,
    parse: integer(16, 10_000_000),
  }),
  parallel: setting({
    name: "PARALLEL",
    argument: "<number>",
    help: "number of requests that one model answers concurrently (BERTH_ASSISTANT_PARALLEL); default: 8",
    default: undefined,
    parse: integer(1, 256),
  }),
  deterministic: setting({
    name: "DETERMINISTIC",
    argument: "<on|off>",
    help: "on: the same request gets the same answer, bit for bit, at the cost of speed (BERTH_ASSISTANT_DETERMINISTIC); default: off",
    default: "off",
    choices: ["on", "off"],
    parse: (text, origin) => choice("on", "off")(text, origin) === "on",
  }),
  threads: setting({
    name: "THREADS",
    argument: "<number>",
    help: "number of threads of the engine (BERTH_ASSISTANT_THREADS); default: measured at load",
    default: undefined,
    parse: integer(1, 1_024),
  }),
  queue: setting({
    name: "QUEUE",
    argument: "<number>",
    help: "number of requests that may wait for each model (BERTH_ASSISTANT_QUEUE); default: 64",
    default: "64",
    parse: integer(0, 100_000),
  }),
  timeout: setting({
    name: "TIMEOUT",
    argument: "<duration>",
    help: "time limit of one request (BERTH_ASSISTANT_TIMEOUT); default: 1h",
    default: "1h",
    parse: withOrigin(parseDuration),
  }),
  logFormat: setting({
    name: "LOG_FORMAT",
    argument: "<json|pretty>",
    help: "format of the log (BERTH_ASSISTANT_LOG_FORMAT); default: pretty at a terminal",
    default: ({ isTerminal }) => (isTerminal ? "pretty" : "json"),
    parse: choice("json", "pretty"),
  }),
  logLevel: setting({
    name: "LOG_LEVEL",
    argument: "<debug|info|warn|error>",
    help: "level of the log (BERTH_ASSISTANT_LOG_LEVEL); default: info",
    default: "info",
    parse: choice("debug", "info", "warn", "error"),
  }),
};

export type AssistantSettingFlags = SettingFlags<typeof assistantSettings>;

function integer(min: number, max: number): (text: string, origin: string) => number {
  return (text, origin) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new ConfigError(`${origin} must be a whole number from ${min} to ${max}`);
    return value;
  };
}

function choice<const Choice extends string>(
  ...choices: readonly Choice[]
): (text: string, origin: string) => Choice {
  return (text, origin) => {
    const found = choices.find((one) => one === text);
    if (found === undefined)
      throw new ConfigError(`${origin} must be one of ${choices.join(", ")}`);
    return found;
  };
}

/** Adds the name of the flag or the variable to the errors of a parser that does not know this name. */
function withOrigin<Value>(
  parse: (text: string) => Value,
): (text: string, origin: string) => Value {
  return (text, origin) => {
    try {
      return parse(text);
    } catch (error) {
      const reason = error instanceof Error ? error.message : "it is wrong";
      const hint = error instanceof BerthError ? error.hint : undefined;
      throw new ConfigError(`${origin}: ${reason}`, hint);
    }
  };
}

/** Parses a duration to milliseconds. `-1` and `forever` become Infinity, with which the model is never unloaded. */
function parseKeepAlive(text: string): number {
  return text === "-1" || text === "forever" ? Number.POSITIVE_INFINITY : parseDuration(text);
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

function parseUpstream(text: string): string {
  const url = URL.parse(text) ?? undefined;
  const isLocal =
    url?.protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname);
  if (!url || !isLocal || url.username !== "" || url.search !== "")
    throw new ConfigError(
      "--upstream must be the address of the system instance on this machine",
      `write a URL such as ${DEFAULT_UPSTREAM}; models of a provider are added with \`berth remote add\``,
    );
  return url.origin;
}

/** Returns the memory of the machine, or the limit of the control group if that is lower. */
function getMemoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : totalmem();
}
