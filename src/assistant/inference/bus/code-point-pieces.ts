/** Splits a text into UTF-8 pieces of at most `bytesMax` bytes (4 or more), never within a code point. */
export function* codePointPieces(text: string, bytesMax: number): Generator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(start + bytesMax, bytes.length);
    while (end < bytes.length && isContinuation(bytes[end])) end -= 1;
    yield bytes.subarray(start, end);
    start = end;
  }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}
