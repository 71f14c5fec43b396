import type { Client } from "../../client/rest/client.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { HealthView, SpecsView, SystemInfo } from "../../resources/wire/system.ts";
import type { Colors } from "../colours.ts";
import { listAllModels } from "../models/list-all-models.ts";
import { toSingleLine } from "../output/display-width.ts";

/** The state of a running server, which `up` and `status` print. */
interface ServerFacts {
  readonly health: HealthView;
  readonly info: SystemInfo;
  readonly specs: SpecsView;
  readonly apps: readonly AppItem[];
  readonly models: readonly ModelView[];
}

/** The state of the ingress, the assistant or the companion, which `up`, `status` and `doctor` show. */
interface ComponentState {
  /** `off` means disabled, or not available on this machine. `warn` means not running yet, or limited. */
  readonly level: "ok" | "off" | "warn" | "fail";
  readonly text: string;
}

export async function readServerFacts(client: Client): Promise<ServerFacts> {
  const [health, info, specs, apps, models] = await Promise.all([
    client.health(),
    client.system.info(),
    client.specs(),
    client.apps.listAll(),
    listAllModels(client),
  ]);
  return { health, info, specs, apps, models };
}

/** Lists the problems of the files in the specs folder, each as `file:line:column: message`. */
export function listSpecProblems({ folder, files }: SpecsView): readonly string[] {
  return files.flatMap(({ file, errors }) =>
    errors.map(
      ({ line, column, message }) =>
        `${folder}/${toSingleLine(file)}:${line}:${column}: ${message}`,
    ),
  );
}

/** Describes another server that writes to the engine; null if this server writes to it. */
export function describeOtherWriter({ other_writer }: SystemInfo["engine"]): string | null {
  if (other_writer === null) return null;
  const { host, data_dir, since } = other_writer;
  return `another Berth with the same identity writes to the engine: on ${host}, data directory ${data_dir}, since ${since}; this server changes nothing on that engine`;
}

export function describeIngress({ mode, ready, message }: SystemInfo["ingress"]): ComponentState {
  if (ready) return { level: "ok", text: message };
  return mode === "off"
    ? { level: "off", text: message }
    : { level: "fail", text: `not ready: ${message}` };
}

/**
 * Returns a list with one field, the URL at which the ingress serves the API; an empty list if there is no such URL.
 */
export function apiUrlField(
  { api_url: url, api_problem: problem }: SystemInfo["ingress"],
  colours: Colors,
): [string, string][] {
  if (url === null) return [];
  const text = problem === null ? url : colours.yellow(`${url}, not yet: ${problem}`);
  return [["API at", text]];
}

export function describeAssistant(assistant: SystemInfo["assistant"]): ComponentState {
  const { state, url, message } = assistant;
  const address = `${url ?? ""}/v1, for OpenAI clients with any API key`;
  const restarts = formatRestarts(assistant);
  if (state === "off") return { level: "off", text: message ?? "off" };
  if (state === "foreign")
    return { level: "ok", text: `${address}; another process started it${restarts}` };
  if (state === "up")
    return message === null
      ? { level: "ok", text: `${address}${restarts}` }
      : { level: "warn", text: `${address}${restarts}; ${message}` };
  return {
    level: "warn",
    text: `${notReady(state)}: ${message ?? "it is starting"}${restarts}`,
  };
}

/**
 * Describes the companion. Returns undefined with `--companion off`, and on a machine without a session bus, such as
 * most servers.
 */
function describeCompanion(companion: SystemInfo["companion"]): ComponentState | undefined {
  const { state, url, message } = companion;
  if (state === "off" || state === "no_bus") return undefined;
  const address = url === null ? "" : `${url}/v1, and dev.assistant.* on the session bus`;
  if (state === "up") return { level: "ok", text: `${address}${formatRestarts(companion)}` };
  if (state === "activated" || state === "foreign")
    return { level: "ok", text: [address, message].filter(Boolean).join("; ") };
  return { level: "warn", text: `${notReady(state)}: ${message ?? "it is starting"}` };
}

export function colourComponent({ level, text }: ComponentState, colours: Colors): string {
  if (level === "fail") return colours.red(text);
  return level === "ok" ? text : colours.yellow(text);
}

/** Returns a list with one field about the companion; an empty list if there is nothing to show. */
export function companionField(
  companion: SystemInfo["companion"],
  colours: Colors,
): [string, string][] {
  const state = describeCompanion(companion);
  return state === undefined ? [] : [["Companion", colourComponent(state, colours)]];
}

function notReady(state: "starting" | "waiting"): string {
  return state === "waiting" ? "not ready, Berth starts it again soon" : "not ready";
}

function formatRestarts({ starts }: { readonly starts: number }): string {
  return starts > 1 ? `, started ${starts} times` : "";
}
