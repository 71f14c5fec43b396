import { createParser, type EventSourceMessage } from "eventsource-parser";

/** Decodes a stream of server-sent events chunk by chunk; it holds back incomplete events and code points. */
export class ServerSentEventDecoder {
  readonly #limits: { readonly charactersMax: number; readonly tooLong: () => Error };
  readonly #events: EventSourceMessage[] = [];
  readonly #parser = createParser({ onEvent: (event) => this.#events.push(event) });
  /** Decodes UTF-8 and removes a byte order mark. */
  readonly #decoder = new TextDecoder();
  #pendingCharacters = 0;

  /** `tooLong` creates the error for an event of more than `charactersMax` UTF-16 code units. */
  constructor(limits: { readonly charactersMax: number; readonly tooLong: () => Error }) {
    this.#limits = limits;
  }

  /** Returns the events that are complete with this chunk. Throws the error of `tooLong` if an event is too long. */
  push(chunk: Uint8Array): EventSourceMessage[] {
    const text = this.#decoder.decode(chunk, { stream: true });
    this.#pendingCharacters += text.length;
    this.#parser.feed(text);
    if (this.#events.length > 0) this.#pendingCharacters = 0;
    if (this.#pendingCharacters > this.#limits.charactersMax) throw this.#limits.tooLong();
    return this.#events.splice(0);
  }
}
