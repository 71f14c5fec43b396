import { stripControlCharacters } from "../base/strip-control-characters.ts";

/** The maximum length of one text in a result. */
const TEXT_CHARS_MAX = 4_000;
const ITEMS_MAX = 500;
const DEPTH_MAX = 16;

/** Matches names of variables whose values are probably confidential, even if they are not in a Secret. */
const secretNamePattern =
  /pass|secret|token|credential|private|api_?key|access_?key|auth|cookie|salt|dsn/i;
const urlCredentialsPattern = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi;

/**
 * Sanitises a value from the server for an assistant: removes control characters, terminal escapes, and user and
 * password in URLs, and limits lengths and depth.
 */
export function sanitizeValue(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return sanitizeText(value, TEXT_CHARS_MAX);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= DEPTH_MAX) return "…";
  if (Array.isArray(value)) {
    const items = value.slice(0, ITEMS_MAX).map((item) => sanitizeValue(item, depth + 1));
    return value.length > ITEMS_MAX ? [...items, `… ${value.length - ITEMS_MAX} more`] : items;
  }
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries
      .slice(0, ITEMS_MAX)
      .map(([key, item]) => [sanitizeText(key, 200), sanitizeValue(item, depth + 1)]),
  );
}

export function sanitizeText(text: string, charsMax: number): string {
  // A terminal escape is removed as a whole. If only its first character were removed, the rest would be shown as text.
  const plain = stripControlCharacters(text.replace(terminalEscapePattern, "")).replace(
    urlCredentialsPattern,
    "$1(hidden)@",
  );
  return plain.length > charsMax ? `${trimHalfSurrogate(plain.slice(0, charsMax))}…` : plain;
}

/** Hides the values of variables whose names indicate a secret. */
export function maskSecretVariables(
  env: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      typeof value === "string" && secretNamePattern.test(name)
        ? `(hidden: ${value.length} characters)`
        : value,
    ]),
  );
}

// Matches CSI sequences, OSC sequences up to their end, and two-character escapes.
const terminalEscapePattern =
  // oxlint-disable-next-line no-control-regex -- the pattern matches control characters
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|\u001B[ -~]/g;

/** Removes a high surrogate at the end of a text, whose low surrogate has been cut off. */
function trimHalfSurrogate(text: string): string {
  return text.replace(/[\uD800-\uDBFF]$/, "");
}
