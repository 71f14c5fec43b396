/**
 * Shares one read among all callers that ask before it begins. A caller gets a read that began after its request, so that it
 * sees everything that had happened by then. At most one read runs at a time, however many callers there are.
 */
export class SharedRead<T> {
  readonly #read: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  /** Resolves or rejects with the result of the shared read. */
  get(): Promise<T> {
    if (!this.#running) return this.#start();
    // The next read begins when the running one has ended, whatever its result.
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  #start(): Promise<T> {
    this.#next = undefined;
    const running = this.#read().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
