/** Returns the JSON Pointer (RFC 6901) of these segments; no segments give "", the whole document. */
export function formatPointer(segments: readonly string[]): string {
  return segments
    .map((segment) => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}

export function parsePointer(path: string): string[] {
  if (path === "") return [];
  return path
    .slice(1)
    .split("/")
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The maximum length of a key in a message. A caller chooses the keys of its request, which may be very long. */
const KEY_SHOWN_MAX = 100;

export function shortenKey(key: string): string {
  return key.length > KEY_SHOWN_MAX ? `${key.slice(0, KEY_SHOWN_MAX)}...` : key;
}

/** Formats a pointer for users: `/spec/env/A~1B/0` as `spec.env["A/B"][0]`. */
export function formatDottedPath(path: string): string {
  let text = "";
  for (const segment of parsePointer(path).map(shortenKey)) {
    if (/^[0-9]+$/.test(segment)) text += `[${segment}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(segment))
      text += text === "" ? segment : `.${segment}`;
    else text += `[${JSON.stringify(segment)}]`;
  }
  return text;
}
