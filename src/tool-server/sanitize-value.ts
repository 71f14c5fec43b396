import { stripControlCharacters } from "../base/strip-control-characters.ts";

/** Of one text in a result. */
const TEXT_CHARS_MAX = 4_000;
const ITEMS_MAX = 500;
const DEPTH_MAX = 16;

/** A variable of such a name has a value that nobody should read, also where it is no Secret's. */
const secretNamePattern =
  /pass|secret|token|credential|private|api_?key|access_?key|auth|cookie|salt|dsn/i;
const urlCredentialsPattern = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi;

/**
 * A value of the server as an assistant may have it: no control characters, no end of a terminal's escape,
 * no user and password in a URL, and of bearable length.
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
  // Escapes of terminals go whole: without their first character their rest would be rubbish.
  const plain = stripControlCharacters(text.replace(terminalEscapePattern, "")).replace(
    urlCredentialsPattern,
    "$1(hidden)@",
  );
  return plain.length > charsMax ? `${trimHalfSurrogate(plain.slice(0, charsMax))}…` : plain;
}

/** Values that a person has put where everybody can read them are hidden where their name says what they are. */
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

// CSI, OSC up to its end, and the two-character ones.
const terminalEscapePattern =
  // oxlint-disable-next-line no-control-regex -- it is control characters that have to go
  /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|\u001B[ -~]/g;

/** Without half of a surrogate pair at its end. */
function trimHalfSurrogate(text: string): string {
  return text.replace(/[\uD800-\uDBFF]$/, "");
}
