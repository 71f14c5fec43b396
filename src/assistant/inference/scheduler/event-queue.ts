import type { GenerateEvent } from "../inference-engine.ts";

/** A generation pauses when its reader is this number of events behind; 16 full queues hold about a megabyte. */
const EVENTS_MAX = 256;
const CHARACTERS_MAX = 65_536;

export interface EventQueueListener {
  /** Called when the reader requests the first event. */
  onStart(): void;
  /** Called when the queue was full and is half empty again. */
  onDrain(): void;
  /** Called when the reader stops reading before the generation has ended. */
  onCancel(): void;
}

/**
 * Queues the events of one generation for its reader. The generation starts with the first `next`, so an answer that is
 * never read costs nothing; leaving the loop cancels the generation.
 */
export class EventQueue implements AsyncIterableIterator<GenerateEvent> {
  readonly #listener: EventQueueListener;
  #events: GenerateEvent[] = [];
  #readCount = 0;
  #characters = 0;
  #isFull = false;
  #isStarted = false;
  #isClosed = false;
  /** The failure is wrapped in an object, because any value can be thrown, even undefined. */
  #failure: { readonly error: unknown } | undefined;
  #pendingReads: PendingRead[] = [];

  constructor(owner: EventQueueListener) {
    this.#listener = owner;
  }

  /** True once the queue has reached its limit, until half of the events have been read. */
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

  /** Ends the queue after the events that were pushed. */
  end(): void {
    this.#close(undefined);
  }

  /** Ends the queue with an error, which the reader gets after the events that were pushed. */
  fail(error: unknown): void {
    this.#close({ error });
  }

  /** Drops unread events and ends the queue with an error, which the reader gets at its next read. */
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
