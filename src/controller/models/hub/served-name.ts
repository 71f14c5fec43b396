const NAME_BYTES_MAX = 200;

/**
 * Chooses the file name for a URL: the last part of the URL if it ends in .gguf, otherwise the server's name, otherwise
 * the last part of the redirect's target. The name is safe in any folder and ends in .gguf.
 */
export function chooseServedName(
  asked: URL,
  answered: URL,
  disposition: string | undefined,
): string {
  const own = sanitizeName(getLastPathSegment(asked));
  if (own !== undefined && GGUF_SUFFIX.test(own)) return own;
  const sent =
    disposition === undefined ? undefined : sanitizeName(parseDispositionName(disposition));
  const name = sent ?? sanitizeName(getLastPathSegment(answered)) ?? own ?? "model";
  return GGUF_SUFFIX.test(name) ? name : `${name}.gguf`;
}

const GGUF_SUFFIX = /\.gguf$/i;

/** Parses the file name in a Content-Disposition header. The form with a character set takes precedence (RFC 6266). */
function parseDispositionName(header: string): string {
  const extended = /(?:^|;)\s*filename\*\s*=\s*utf-8'[^']*'([^;\s]+)/i.exec(header)?.[1];
  if (extended !== undefined) return decodeSafely(extended);
  const [, quoted, token] =
    /(?:^|;)\s*filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/i.exec(header) ?? [];
  return quoted?.replace(/\\(.)/g, "$1") ?? token ?? "";
}

function getLastPathSegment(url: URL): string {
  return decodeSafely(url.pathname.split("/").at(-1) ?? "");
}

/** Returns the last part of a path with its unsafe characters removed; undefined if no usable name is left. */
function sanitizeName(text: string): string | undefined {
  const name = (text.split(/[/\\]/).at(-1) ?? "").replace(/[\p{Cc}\p{Cf}:*?"<>|]/gu, "").trim();
  if (/^\.*$/.test(name) || Buffer.byteLength(name) > NAME_BYTES_MAX) return undefined;
  return name;
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
