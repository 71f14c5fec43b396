import { ConfigError } from "./config-error.ts";

/**
 * Matches a value of the Origin header as browsers and desktop apps send it: a scheme and a host, such as
 * `app://obsidian.md` or `http://localhost:3000`; some apps send a scheme alone, such as `app://`. There are no
 * wildcards, and `null`, which any page can send, is not allowed.
 */
export const ORIGIN_PATTERN = "^[a-z][a-z0-9+.-]*://[^\\s/,*?#@]*$";

export function parseConfiguredOrigin(text: string): string {
  if (new RegExp(ORIGIN_PATTERN, "u").test(text)) return text;
  throw new ConfigError(
    `"${text}" is not an origin`,
    "write --allowed-origin SCHEME://HOST[:PORT] as the app sends it, such as --allowed-origin app://obsidian.md",
  );
}
