import { ServerSentEventDecoder } from "../server-sent-events.ts";
import type { ResponseErrors } from "./response-errors.ts";

/**
 * The maximum number of characters of an event. A streamed event has a few hundred bytes, but an event with a whole
 * answer can be as long as a model's context.
 */
const EVENT_CHARACTERS_MAX = 4 * 2 ** 20;

/** Returns a decoder for a streamed answer. It throws `malformedResponse` for an event that is too long. */
export function createEventDecoder(errors: ResponseErrors): ServerSentEventDecoder {
  return new ServerSentEventDecoder({
    charactersMax: EVENT_CHARACTERS_MAX,
    tooLong: () => errors.malformedResponse("the stream has an event that is too long"),
  });
}
