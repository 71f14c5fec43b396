const NAME_BYTES_MAX = 200;

/**
 * The name that a file behind a URL gets here: of the URL where that ends in .gguf, else as the server calls
 * it, else of where it redirects. Always one that is safe in any folder, and always with the ending.
 */
export function chooseServedName(
  asked: URL,
  answered: URL,
  disposition: string | undefined,
): string {
  const own = sanitizeName(getLastPathSegment(asked));
  if (own !== undefined && GGUF_SUFFIX.test(own)) return own;
  const told =
    disposition === undefined ? undefined : sanitizeName(parseDispositionName(disposition));
  const name = told ?? sanitizeName(getLastPathSegment(answered)) ?? own ?? "model";
  return GGUF_SUFFIX.test(name) ? name : `${name}.gguf`;
}

const GGUF_SUFFIX = /\.gguf$/i;

/** RFC 6266: the form that names its character set comes first, where both are there. */
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

/** The last part of what may be a path, without what no file name should hold; undefined where nothing is left. */
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
