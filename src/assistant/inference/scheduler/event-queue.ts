import type { GenerateEvent } from "../inference-engine.ts";

/** A reader that is this far behind is waited for; a megabyte for 16 of them, about. */
const EVENTS_MAX = 256;
const CHARACTERS_MAX = 65_536;

export interface EventQueueListener {
  /** Somebody wants the first event. */
  onStart(): void;
  /** It was full and has room again. */
  onDrain(): void;
  /** The reader went away. */
  onCancel(): void;
}

/**
 * The events of one generation on their way to its reader. Nothing happens before the first `next`, so
 * what nobody reads costs nothing; leaving the loop ends it.
 */
export class EventQueue implements AsyncIterableIterator<GenerateEvent> {
  readonly #listener: EventQueueListener;
  #events: GenerateEvent[] = [];
  #readCount = 0;
  #characters = 0;
  #isFull = false;
  #isStarted = false;
  #isClosed = false;
  /** Boxed, as anything can be thrown. */
  #failure: { readonly error: unknown } | undefined;
  #pendingReads: PendingRead[] = [];

  constructor(owner: EventQueueListener) {
    this.#listener = owner;
  }

  /** From the limit on, until half of it has been read. */
  get isFull(): boolean {
    return this.#isFull;
  }

  push(event: GenerateEvent): void {
    if (this.#isClosed) return;
    const reader = this.#pendingReads.shift();
    if (reader) {
      reader.resolve({ done: false, value: event });
      return;
    }
    this.#events.push(event);
    if (event.type === "text") this.#characters += event.text.length;
    this.#isFull ||= this.#unreadCount >= EVENTS_MAX || this.#characters >= CHARACTERS_MAX;
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
    if (!this.#isStarted && !this.#isClosed) {
      this.#isStarted = true;
      this.#listener.onStart();
    }
    const event = this.#take();
    if (event) return Promise.resolve({ done: false, value: event });
    if (!this.#isClosed)
      return new Promise((resolve, reject) => this.#pendingReads.push({ resolve, reject }));
    const failure = this.#failure;
    this.#failure = undefined;
    return failure ? rejectWith(failure.error) : Promise.resolve(done);
  }

  return(): Promise<IteratorResult<GenerateEvent>> {
    this.#clear();
    const open = !this.#isClosed;
    this.#close(undefined);
    this.#failure = undefined;
    if (open && this.#isStarted) this.#listener.onCancel();
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  get #unreadCount(): number {
    return this.#events.length - this.#readCount;
  }

  #take(): GenerateEvent | undefined {
    const event = this.#events[this.#readCount];
    if (!event) return undefined;
    this.#readCount += 1;
    if (event.type === "text") this.#characters -= event.text.length;
    if (this.#readCount === this.#events.length || this.#readCount >= EVENTS_MAX) {
      this.#events = this.#events.slice(this.#readCount);
      this.#readCount = 0;
    }
    if (
      this.#isFull &&
      this.#unreadCount <= EVENTS_MAX / 2 &&
      this.#characters <= CHARACTERS_MAX / 2
    ) {
      this.#isFull = false;
      if (!this.#isClosed) this.#listener.onDrain();
    }
    return event;
  }

  #clear(): void {
    this.#events = [];
    this.#readCount = 0;
    this.#characters = 0;
  }

  #close(failure: { readonly error: unknown } | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const [first, ...others] = this.#pendingReads;
    this.#pendingReads = [];
    if (!first) this.#failure = failure;
    else if (failure) first.reject(failure.error);
    else first.resolve(done);
    for (const reader of others) reader.resolve(done);
  }
}

interface PendingRead {
  resolve(result: IteratorResult<GenerateEvent>): void;
  reject(error: unknown): void;
}

const done: IteratorResult<GenerateEvent> = { done: true, value: undefined };

async function rejectWith(error: unknown): Promise<never> {
  throw error;
}
