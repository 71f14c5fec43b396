import { tryParseJson } from "../../../base/json.ts";
import { redactKey } from "./redact-key.ts";

/** The number of characters of the message that are processed. The rest is ignored. */
const TEXT_CHARACTERS_MAX = 8_192;

/**
 * Returns the error message in the body of an answer, on one line and without the key. Returns undefined if the body
 * has no message.
 */
export function sanitizeProviderMessage(body: string, key: string | undefined): string | undefined {
  const message = envelopeMessage(body) ?? (looksLikePage(body) ? "" : body);
  const line = oneLine(message.slice(0, TEXT_CHARACTERS_MAX));
  const said = truncate(redactKey(line, key)).trim();
  return said === "" ? undefined : said;
}

/** Finds the error message in the form of OpenAI's API, `{"error":{"message"}}`, or in variants of other providers. */
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
  // JSON without a known error member gives an empty message, because raw JSON would not help the user.
  return typeof value === "string" ? value : "";
}

function looksLikePage(body: string): boolean {
  return /^\s*<(!doctype|html|\?xml|head|body)/i.test(body);
}

/** Removes characters that move a terminal's cursor, or that hide or reorder text. */
function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}\p{Cf}\p{Co}\p{Cs}]+/gu, " ");
}

/** Shortens the text to 300 characters, including the ellipsis. The provider's own log has the whole message. */
function truncate(text: string): string {
  const first = /^.{0,299}/su.exec(text)?.[0] ?? "";
  return first.length === text.length ? text : `${first}…`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
