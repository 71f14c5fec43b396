import { createParser, type EventSourceMessage } from "eventsource-parser";
import { BerthError } from "../../base/errors.ts";

/** The longest event that is taken in, in characters: a server that never ends a line is cut off. */
const EVENT_LENGTH_MAX = 8 * 1024 * 1024;

/** The events of a response, until the server ends it or the signal of its request aborts. */
export async function* readEvents(response: Response): AsyncGenerator<EventSourceMessage> {
  if (response.body === null) return;
  const ready: EventSourceMessage[] = [];
  let pendingLength = 0;
  const parser = createParser({ onEvent: (event) => ready.push(event) });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const text = decoder.decode(value, { stream: true });
      pendingLength += text.length;
      parser.feed(text);
      if (ready.length > 0) pendingLength = 0;
      if (pendingLength > EVENT_LENGTH_MAX) {
        throw new BerthError("payload_too_large", "the server sent an event of more than 8 MiB");
      }
      yield* ready.splice(0);
    }
  } finally {
    // Leaving the loop early closes the connection; the abort that this causes is nobody's error.
    await reader.cancel().catch(() => {});
  }
}
