import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";

/**
 * The maximum number of characters of a response. Ten thousand lines are usually a few MB, but lines of the maximum
 * length would be hundreds of MB.
 */
const RESPONSE_CHARACTERS_MAX = 32 * 1024 * 1024;

/** Responds with raw text. Waits for the first line, so that an earlier failure gets an error status. */
export async function sendText(
  reply: FastifyReply,
  lines: AsyncIterable<string>,
): Promise<FastifyReply> {
  const iterator = lines[Symbol.asyncIterator]();
  const first = await iterator.next();
  async function* text(): AsyncGenerator<string> {
    try {
      for (let next = first; next.done !== true; next = await iterator.next()) {
        yield `${next.value}\n`;
      }
    } finally {
      await iterator.return?.();
    }
  }
  return reply.type("text/plain; charset=utf-8").send(Readable.from(text()));
}

/** Returns all lines, or only the newest ones if they exceed the limit. */
export async function collectLines<T>(
  lines: AsyncIterable<T>,
  getText: (line: T) => string,
): Promise<{ kept: T[]; isCut: boolean }> {
  const kept: T[] = [];
  let characters = 0;
  let first = 0;
  for await (const line of lines) {
    kept.push(line);
    characters += getText(line).length;
    while (characters > RESPONSE_CHARACTERS_MAX && first < kept.length - 1) {
      const oldest = kept[first];
      characters -= oldest === undefined ? 0 : getText(oldest).length;
      first += 1;
    }
  }
  return { kept: kept.slice(first), isCut: first > 0 };
}
