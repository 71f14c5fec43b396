import type { GenerateEvent } from "../engine.ts";

/** A reader that is this far behind is waited for; a megabyte for 16 of them, about. */
const EVENTS_MAX = 256;
const CHARACTERS_MAX = 65_536;

export interface OutboxOwner {
  /** Somebody wants the first event. */
  onBegin(): void;
  /** It was full and has room again. */
  onRoom(): void;
  /** The reader went away. */
  onLeave(): void;
}

/**
 * The events of one generation on their way to its reader. Nothing happens before the first `next`, so
 * what nobody reads costs nothing; leaving the loop ends it.
 */
export class Outbox implements AsyncIterableIterator<GenerateEvent> {
  readonly #owner: OutboxOwner;
  #events: GenerateEvent[] = [];
  #read = 0;
  #characters = 0;
  #full = false;
  #begun = false;
  #closed = false;
  /** Boxed, as anything can be thrown. */
  #failure: { readonly error: unknown } | undefined;
  #readers: Reader[] = [];

  constructor(owner: OutboxOwner) {
    this.#owner = owner;
  }

  /** From the limit on, until half of it has been read. */
  get full(): boolean {
    return this.#full;
  }

  push(event: GenerateEvent): void {
    if (this.#closed) return;
    const reader = this.#readers.shift();
    if (reader) {
      reader.resolve({ done: false, value: event });
      return;
    }
    this.#events.push(event);
    if (event.type === "text") this.#characters += event.text.length;
    this.#full ||= this.#waiting >= EVENTS_MAX || this.#characters >= CHARACTERS_MAX;
  }

  /** What was pushed is still read, then comes the end. */
  end(): void {
    this.#close(undefined);
  }

  /** What was pushed is still read, then the error is thrown. */
  fail(error: unknown): void {
    this.#close({ error });
  }

  /** As `fail`, and what was not read is dropped. */
  abort(error: unknown): void {
    this.#clear();
    this.#close({ error });
  }

  next(): Promise<IteratorResult<GenerateEvent>> {
    if (!this.#begun && !this.#closed) {
      this.#begun = true;
      this.#owner.onBegin();
    }
    const event = this.#take();
    if (event) return Promise.resolve({ done: false, value: event });
    if (!this.#closed)
      return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
    const failure = this.#failure;
    this.#failure = undefined;
    return failure ? rejected(failure.error) : Promise.resolve(done);
  }

  return(): Promise<IteratorResult<GenerateEvent>> {
    this.#clear();
    const open = !this.#closed;
    this.#close(undefined);
    this.#failure = undefined;
    if (open && this.#begun) this.#owner.onLeave();
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  get #waiting(): number {
    return this.#events.length - this.#read;
  }

  #take(): GenerateEvent | undefined {
    const event = this.#events[this.#read];
    if (!event) return undefined;
    this.#read += 1;
    if (event.type === "text") this.#characters -= event.text.length;
    if (this.#read === this.#events.length || this.#read >= EVENTS_MAX) {
      this.#events = this.#events.slice(this.#read);
      this.#read = 0;
    }
    if (this.#full && this.#waiting <= EVENTS_MAX / 2 && this.#characters <= CHARACTERS_MAX / 2) {
      this.#full = false;
      if (!this.#closed) this.#owner.onRoom();
    }
    return event;
  }

  #clear(): void {
    this.#events = [];
    this.#read = 0;
    this.#characters = 0;
  }

  #close(failure: { readonly error: unknown } | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    const [first, ...others] = this.#readers;
    this.#readers = [];
    if (!first) this.#failure = failure;
    else if (failure) first.reject(failure.error);
    else first.resolve(done);
    for (const reader of others) reader.resolve(done);
  }
}

interface Reader {
  resolve(result: IteratorResult<GenerateEvent>): void;
  reject(error: unknown): void;
}

const done: IteratorResult<GenerateEvent> = { done: true, value: undefined };

async function rejected(error: unknown): Promise<never> {
  throw error;
}
