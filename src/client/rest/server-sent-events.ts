import type { EventSourceMessage } from "eventsource-parser";
import { BerthError } from "../../base/errors.ts";
import { ServerSentEventDecoder } from "../../base/server-sent-events.ts";

/** The maximum size of one event. It limits the memory that a server can use up with an event that never ends. */
const EVENT_CHARACTERS_MAX = 8 * 2 ** 20;

/** Yields the events of a response until the server ends it or the signal of its request aborts. */
export async function* readEvents(response: Response): AsyncGenerator<EventSourceMessage> {
  if (response.body === null) return;
  const decoder = new ServerSentEventDecoder({
    charactersMax: EVENT_CHARACTERS_MAX,
    tooLong: () =>
      new BerthError("payload_too_large", "the server sent an event of more than 8 MiB"),
  });
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* decoder.push(value);
    }
  } finally {
    // A caller that leaves the loop early closes the connection. The abort error that follows must not be thrown.
    await reader.cancel().catch(() => {});
  }
}
