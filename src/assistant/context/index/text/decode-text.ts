/** Control characters that occur in texts: backspace, tab, line feed, vertical tab, form feed, return, escape. */
const textControls = new Set([8, 9, 10, 11, 12, 13, 27]);
/** A file counts as text only if at most one byte in 200 is a control character that does not occur in texts. */
const CONTROL_SHARE = 200;
/** The number of bytes at the start of a file that are examined to detect if it is text. */
const SNIFFED_BYTES = 64 * 1024;
/**
 * A file without a byte order mark is read as UTF-16 if, at every second position, at least this share of the bytes is
 * 0, as in Latin scripts, and no byte at the other positions is 0.
 */
const UTF16_ZERO_SHARE = 0.7;

/** Decodes a file to text and removes its byte order mark. Returns undefined if the file is not text. */
export function decodeText(bytes: Uint8Array): string | undefined {
  if (startsWith(bytes, [0xff, 0xfe])) return decodeUtf16("utf-16le", bytes);
  if (startsWith(bytes, [0xfe, 0xff])) return decodeUtf16("utf-16be", bytes);
  // A PDF can begin with nothing but text, so the checks below would accept it. Its signature is `%PDF-`.
  if (startsWith(bytes, [0x25, 0x50, 0x44, 0x46, 0x2d])) return undefined;
  const sample = bytes.subarray(0, SNIFFED_BYTES);
  if (sample.includes(0)) {
    const encoding = detectUtf16(sample);
    return encoding && decodeUtf16(encoding, bytes);
  }
  if (hasTooManyControls(sample)) return undefined;
  try {
    return normalizeText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return normalizeText(decodeWindows1252(bytes));
  }
}

/** The characters of Windows-1252 from 0x80 to 0x9f. */
const windows1252Characters = Array.from("€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ");

/** Replaces TextDecoder, which decodes Windows-1252 as Latin-1 on Node 22.14. */
function decodeWindows1252(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString("latin1")
    .replaceAll(/[\x80-\x9f]/g, (it) => windows1252Characters[it.charCodeAt(0) - 0x80] ?? it);
}

function decodeUtf16(encoding: "utf-16le" | "utf-16be", bytes: Uint8Array): string | undefined {
  const text = new TextDecoder(encoding).decode(bytes);
  return text.includes("\0") ? undefined : normalizeText(text);
}

function detectUtf16(sample: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  let [even, odd] = [0, 0];
  for (const [at, byte] of sample.entries()) {
    if (byte !== 0) continue;
    if (at % 2 === 0) even += 1;
    else odd += 1;
  }
  const half = sample.length / 2;
  if (even === 0 && odd / half > UTF16_ZERO_SHARE) return "utf-16le";
  if (odd === 0 && even / half > UTF16_ZERO_SHARE) return "utf-16be";
  return undefined;
}

function hasTooManyControls(sample: Uint8Array): boolean {
  let count = 0;
  for (const byte of sample) if (byte < 32 && !textControls.has(byte)) count += 1;
  return count * CONTROL_SHARE > sample.length;
}

/**
 * Converts line ends to LF, removes NUL characters, and replaces lone surrogates with U+FFFD. A truncated file may end
 * with a lone surrogate, which UTF-8 cannot encode.
 */
function normalizeText(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replaceAll("\0", "")
    .replaceAll(/\p{Surrogate}/gu, "\ufffd");
}

function startsWith(bytes: Uint8Array, mark: readonly number[]): boolean {
  return mark.every((byte, at) => bytes[at] === byte);
}
