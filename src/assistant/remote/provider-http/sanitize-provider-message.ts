import { redactKey } from "./redact-key.ts";

/** Of these the message is taken: what is behind them is never looked at. */
const TEXT_CHARACTERS_MAX = 8_192;

/** What the body of an answer says went wrong, in one line and without the key; undefined: nothing. */
export function sanitizeProviderMessage(body: string, key: string | undefined): string | undefined {
  const message = envelopeMessage(body) ?? (looksLikePage(body) ? "" : body);
  const line = oneLine(message.slice(0, TEXT_CHARACTERS_MAX));
  const said = truncate(redactKey(line, key)).trim();
  return said === "" ? undefined : said;
}

/** The convention's `{"error":{"message"}}`, and what others make of it. */
function envelopeMessage(body: string): string | undefined {
  const value = tryParseJson(body);
  if (value === undefined) return undefined;
  const error = member(value, "error");
  for (const said of [
    member(error, "message"),
    error,
    member(value, "message"),
    member(value, "detail"),
  ])
    if (typeof said === "string") return said;
  // A body that is JSON and no envelope is no sentence.
  return typeof value === "string" ? value : "";
}

function looksLikePage(body: string): boolean {
  return /^\s*<(!doctype|html|\?xml|head|body)/i.test(body);
}

/** Nothing that moves a terminal's cursor, or hides or turns round what stands beside it. */
function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}\p{Cf}\p{Co}\p{Cs}]+/gu, " ");
}

/** 300 with the mark of what is left out; the rest is for the provider's own log. */
function truncate(text: string): string {
  const first = /^.{0,299}/su.exec(text)?.[0] ?? "";
  return first.length === text.length ? text : `${first}…`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
