/** Control characters that texts have: tab, line feed, vertical tab, form feed, return, escape, backspace. */
const textControls = new Set([8, 9, 10, 11, 12, 13, 27]);
/** Beyond one in so many, the control characters are those of a program or a picture. */
const CONTROL_SHARE = 200;
/** How much is looked at to tell a text from what is none. */
const SNIFFED_BYTES = 64 * 1024;
/** Of UTF-16 without a mark, in Latin scripts, every second byte is 0; in none of the others one is. */
const UTF16_ZERO_SHARE = 0.7;

/** The text of a file, without its byte order mark; undefined where it is no text. */
export function decodeText(bytes: Uint8Array): string | undefined {
  if (startsWith(bytes, [0xff, 0xfe])) return decodeUtf16("utf-16le", bytes);
  if (startsWith(bytes, [0xfe, 0xff])) return decodeUtf16("utf-16be", bytes);
  // A PDF begins like a text, and what comes then is none.
  if (startsWith(bytes, [0x25, 0x50, 0x44, 0x46, 0x2d])) return undefined;
  const look = bytes.subarray(0, SNIFFED_BYTES);
  if (look.includes(0)) {
    const encoding = detectUtf16(look);
    return encoding && decodeUtf16(encoding, bytes);
  }
  if (hasTooManyControls(look)) return undefined;
  try {
    return normalizeText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return normalizeText(decodeWindows1252(bytes));
  }
}

/** What Latin-1 leaves open from 0x80 on: quotes and dashes of old Windows files. */
const windows1252Characters = Array.from("€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ");

/** By hand: the decoder of that name takes it for plain Latin-1 on Node 22.14. */
function decodeWindows1252(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString("latin1")
    .replaceAll(/[\x80-\x9f]/g, (it) => windows1252Characters[it.charCodeAt(0) - 0x80] ?? it);
}

function decodeUtf16(encoding: "utf-16le" | "utf-16be", bytes: Uint8Array): string | undefined {
  const text = new TextDecoder(encoding).decode(bytes);
  return text.includes("\0") ? undefined : normalizeText(text);
}

function detectUtf16(look: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  let [even, odd] = [0, 0];
  for (const [at, byte] of look.entries()) {
    if (byte !== 0) continue;
    if (at % 2 === 0) even += 1;
    else odd += 1;
  }
  const half = look.length / 2;
  if (even === 0 && odd / half > UTF16_ZERO_SHARE) return "utf-16le";
  if (odd === 0 && even / half > UTF16_ZERO_SHARE) return "utf-16be";
  return undefined;
}

function hasTooManyControls(look: Uint8Array): boolean {
  let count = 0;
  for (const byte of look) if (byte < 32 && !textControls.has(byte)) count += 1;
  return count * CONTROL_SHARE > look.length;
}

/** Half a character, at the end of a file that was cut, cannot be stored as UTF-8. */
function normalizeText(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replaceAll("\0", "")
    .replaceAll(/\p{Surrogate}/gu, "\ufffd");
}

function startsWith(bytes: Uint8Array, mark: readonly number[]): boolean {
  return mark.every((byte, at) => bytes[at] === byte);
}
