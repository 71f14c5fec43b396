import { ServerSentEventDecoder } from "../server-sent-events.ts";
import type { ResponseErrors } from "./response-errors.ts";

/** A single event has a few hundred bytes; one with a whole answer in it, as many as a context holds. */
const EVENT_CHARACTERS_MAX = 4 * 2 ** 20;

/** Returns a decoder for a streamed answer. It throws `malformedResponse` for an event that is too long. */
export function createEventDecoder(errors: ResponseErrors): ServerSentEventDecoder {
  return new ServerSentEventDecoder({
    charactersMax: EVENT_CHARACTERS_MAX,
    tooLong: () => errors.malformedResponse("an event without an end"),
  });
}
