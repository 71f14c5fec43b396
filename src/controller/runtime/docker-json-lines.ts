import { isRecord } from "./docker-json.ts";

/** The longest line of JSON in an engine's stream. */
const LINE_BYTES_MAX = 1024 * 1024;

/** Reads a stream with one JSON object per line. Skips lines that are too long or not objects. */
export async function* parseJsonLines(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const value = parse(rest.subarray(0, end).toString());
      rest = rest.subarray(end + 1);
      if (value) yield value;
    }
    if (rest.length > LINE_BYTES_MAX) rest = Buffer.alloc(0);
  }
  const last = parse(rest.toString());
  if (last) yield last;
}

function parse(text: string): Readonly<Record<string, unknown>> | undefined {
  if (text.trim() === "") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
