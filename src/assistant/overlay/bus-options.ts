import { JsonFault, parseStrictJson } from "../../base/strict-json.ts";
import type { BusValue } from "../../dbus/port.ts";
import { readOptions } from "../bus/options.ts";
import { AssistantError } from "../errors.ts";
import type { AskRequest, HistoryTurn, Lane } from "./port.ts";

const askOptions = {
  my_stuff: "b",
  window: "b",
  selection: "b",
  model_hint: "s",
  lane: "s",
  history_json: "s",
} as const;

const HISTORY_BYTES_MAX = 1_024 * 1_024;
const HISTORY_TURNS_MAX = 256;
/** An array of objects of strings. */
const HISTORY_DEPTH_MAX = 2;

/** What Ask asks for. Throws `invalid_request`, with the option's name as its parameter and in its text. */
export function askRequestOf(prompt: string, options: BusValue | undefined): AskRequest {
  const given = readOptions(askOptions, options);
  const lane = laneOf(given.lane);
  if (lane === "agent" && given.history_json !== undefined)
    throw refused("history_json", "belongs to the chat lane: set lane to chat, or leave it out");
  return {
    prompt,
    lane,
    myStuff: given.my_stuff ?? false,
    window: given.window ?? false,
    selection: given.selection ?? false,
    modelHint: given.model_hint === "" ? undefined : given.model_hint,
    history: given.history_json === undefined ? [] : historyOf(given.history_json),
  };
}

function laneOf(lane: string | undefined): Lane {
  if (lane === undefined || lane === "agent") return "agent";
  if (lane === "chat") return "chat";
  throw refused("lane", "has to be agent or chat");
}

function historyOf(text: string): readonly HistoryTurn[] {
  const bytes = Buffer.from(text);
  if (bytes.length > HISTORY_BYTES_MAX)
    throw refused(NAME, `has ${bytes.length} bytes, and may have ${HISTORY_BYTES_MAX}`);
  const turns = parsed(bytes);
  if (!Array.isArray(turns)) throw refused(NAME, "has to be an array of {role, content}");
  if (turns.length > HISTORY_TURNS_MAX)
    throw refused(NAME, `has ${turns.length} turns, and may have ${HISTORY_TURNS_MAX}`);
  return turns.map((turn: unknown, index) => turnOf(turn, `${NAME}[${index}]`));
}

const NAME = "history_json";

function parsed(bytes: Buffer): unknown {
  const forbiddenKeys = new Set(["__proto__"]);
  try {
    return parseStrictJson(bytes, { depthMax: HISTORY_DEPTH_MAX, forbiddenKeys, subject: NAME });
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    throw new AssistantError("invalid_request", error.message, { param: NAME });
  }
}

function turnOf(turn: unknown, at: string): HistoryTurn {
  if (typeof turn !== "object" || turn === null || Array.isArray(turn))
    throw refusedAt(at, "has to be an object {role, content}");
  const { role, content, ...others }: Readonly<Record<string, unknown>> = { ...turn };
  if (role !== "system" && role !== "user" && role !== "assistant")
    throw refusedAt(`${at}.role`, "has to be system, user or assistant");
  if (typeof content !== "string") throw refusedAt(`${at}.content`, "has to be a string");
  if (Object.keys(others).length > 0)
    throw refusedAt(at, "may have role and content, and nothing else");
  return { role, content };
}

function refusedAt(at: string, why: string): AssistantError {
  return new AssistantError("invalid_request", `${at} ${why}`, { param: NAME });
}

function refused(param: string, why: string): AssistantError {
  return new AssistantError("invalid_request", `${param} ${why}`, { param });
}
