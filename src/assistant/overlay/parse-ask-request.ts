import { InvalidJsonError, parseStrictJson } from "../../base/strict-json.ts";
import type { BusValue } from "../../dbus/port.ts";
import { AssistantError, invalidParameterError } from "../assistant-error.ts";
import { readOptions } from "../bus/read-options.ts";
import type { AskRequest, HistoryTurn, Lane } from "./port.ts";

const askOptions = {
  my_stuff: "b",
  scopes: "as",
  window: "b",
  selection: "b",
  model_hint: "s",
  lane: "s",
  history_json: "s",
} as const;

const HISTORY_BYTES_MAX = 1_024 * 1_024;
const HISTORY_TURNS_MAX = 256;
/** Depth of a valid history: an array of objects whose members are strings. */
const HISTORY_DEPTH_MAX = 2;

/** Parses the arguments of Ask. Throws `invalid_request` with the option's name both in `param` and in the message. */
export function parseAskRequest(prompt: string, options: BusValue | undefined): AskRequest {
  const given = readOptions(askOptions, options);
  const lane = parseLane(given.lane);
  if (lane === "agent" && given.history_json !== undefined)
    throw invalidParameterError(
      "history_json",
      "belongs to the chat lane: set lane to chat, or leave this option out",
    );
  return {
    prompt,
    lane,
    myStuff: given.my_stuff ?? false,
    scopes: given.scopes,
    window: given.window ?? false,
    selection: given.selection ?? false,
    modelHint: given.model_hint === "" ? undefined : given.model_hint,
    history: given.history_json === undefined ? [] : parseHistory(given.history_json),
  };
}

function parseLane(lane: string | undefined): Lane {
  if (lane === undefined || lane === "agent") return "agent";
  if (lane === "chat") return "chat";
  throw invalidParameterError("lane", "must be agent or chat");
}

function parseHistory(text: string): readonly HistoryTurn[] {
  const bytes = Buffer.from(text);
  if (bytes.length > HISTORY_BYTES_MAX)
    throw invalidParameterError(
      HISTORY_OPTION,
      `has ${bytes.length} bytes; at most ${HISTORY_BYTES_MAX} are allowed`,
    );
  const turns = parseHistoryJson(bytes);
  if (!Array.isArray(turns))
    throw invalidParameterError(HISTORY_OPTION, "must be an array of {role, content}");
  if (turns.length > HISTORY_TURNS_MAX)
    throw invalidParameterError(
      HISTORY_OPTION,
      `has ${turns.length} turns; at most ${HISTORY_TURNS_MAX} are allowed`,
    );
  return turns.map((turn: unknown, index) => parseHistoryTurn(turn, `${HISTORY_OPTION}[${index}]`));
}

const HISTORY_OPTION = "history_json";

function parseHistoryJson(bytes: Buffer): unknown {
  const forbiddenKeys = new Set(["__proto__"]);
  try {
    return parseStrictJson(bytes, {
      depthMax: HISTORY_DEPTH_MAX,
      forbiddenKeys,
      subject: HISTORY_OPTION,
    });
  } catch (error) {
    if (!(error instanceof InvalidJsonError)) throw error;
    throw new AssistantError("invalid_request", error.message, { param: HISTORY_OPTION });
  }
}

function parseHistoryTurn(turn: unknown, at: string): HistoryTurn {
  if (typeof turn !== "object" || turn === null || Array.isArray(turn))
    throw invalidHistory(at, "must be an object {role, content}");
  const { role, content, ...others }: Readonly<Record<string, unknown>> = { ...turn };
  if (role !== "system" && role !== "user" && role !== "assistant")
    throw invalidHistory(`${at}.role`, "must be system, user or assistant");
  if (typeof content !== "string") throw invalidHistory(`${at}.content`, "must be a string");
  if (Object.keys(others).length > 0) throw invalidHistory(at, "must have only role and content");
  return { role, content };
}

function invalidHistory(at: string, why: string): AssistantError {
  return new AssistantError("invalid_request", `${at} ${why}`, { param: HISTORY_OPTION });
}
