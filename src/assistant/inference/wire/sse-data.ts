import { createParser } from "eventsource-parser";
import type { ResponseErrors } from "./response-errors.ts";

/** A single event is a few hundred bytes; with a held answer in it, as much as a context holds. */
const EVENT_CHARACTERS_MAX = 4 * 2 ** 20;

/** The data of each server-sent event, read as they are pulled; comments and what is no data are passed over. */
export async function* readSseData(
  body: AsyncIterable<Uint8Array>,
  errors: ResponseErrors,
): AsyncGenerator<string, void, void> {
  const ready: string[] = [];
  // Takes a byte order mark away, and holds back part of a code point.
  const decoder = new TextDecoder();
  let pending = 0;
  const parser = createParser({ onEvent: ({ data }) => ready.push(data) });
  for await (const chunk of body) {
    const text = decoder.decode(chunk, { stream: true });
    pending += text.length;
    parser.feed(text);
    if (ready.length > 0) pending = 0;
    if (pending > EVENT_CHARACTERS_MAX) throw errors.malformedResponse("an event without an end");
    yield* ready.splice(0);
  }
}
