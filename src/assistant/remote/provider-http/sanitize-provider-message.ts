import { redactKey } from "./redact-key.ts";

/** Only this many characters of the message are processed. */
const TEXT_CHARACTERS_MAX = 8_192;

/** Returns the error message of an answer's body, on one line and without the key; undefined if it has none. */
export function sanitizeProviderMessage(body: string, key: string | undefined): string | undefined {
  const message = envelopeMessage(body) ?? (looksLikePage(body) ? "" : body);
  const line = oneLine(message.slice(0, TEXT_CHARACTERS_MAX));
  const said = truncate(redactKey(line, key)).trim();
  return said === "" ? undefined : said;
}

/** The convention's `{"error":{"message"}}`, and variants of other providers. */
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
  // JSON without a known error member is not a readable message.
  return typeof value === "string" ? value : "";
}

function looksLikePage(body: string): boolean {
  return /^\s*<(!doctype|html|\?xml|head|body)/i.test(body);
}

/** Removes characters that move a terminal's cursor, or that hide or reorder text. */
function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}\p{Cf}\p{Co}\p{Cs}]+/gu, " ");
}

/** 300 characters, including the ellipsis; the provider's own log has the rest. */
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
