import type { GenerateEvent } from "../../src/assistant/inference/inference-engine.ts";
import type { TokenLogprob } from "../../src/assistant/inference/runner.ts";

/** Reads the events of a generation as they arrive, and can pause. */
export class GenerationReader {
  text = "";
  readonly logprobs: TokenLogprob[] = [];
  started: Extract<GenerateEvent, { type: "started" }> | undefined;
  end: Extract<GenerateEvent, { type: "end" }> | undefined;
  error: unknown;
  /** True if the iteration has ended or failed. */
  isOver = false;
  /** Resolves when the iteration has ended or failed; never rejects. */
  readonly done: Promise<void>;
  /** Resolves at the first text, or at the end of the generation if there is none. */
  readonly firstOutput: Promise<void>;
  #onFirstOutput: () => void = () => {};
  readonly #iterator: AsyncIterator<GenerateEvent>;
  #pause: Promise<void> | undefined;

  constructor(events: AsyncIterable<GenerateEvent>) {
    this.#iterator = events[Symbol.asyncIterator]();
    this.firstOutput = new Promise((resolve) => {
      this.#onFirstOutput = resolve;
    });
    this.done = this.#read();
  }

  /** Stops reading after the pending event until the returned function is called. */
  pause(): () => void {
    let goOn: (() => void) | undefined;
    this.#pause = new Promise((resolve) => {
      goOn = resolve;
    });
    return () => goOn?.();
  }

  /** Stops reading permanently, like a caller that leaves a for-await loop. */
  async cancel(): Promise<void> {
    await this.#iterator.return?.();
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        await this.#pause;
        const { done, value } = await this.#iterator.next();
        if (done) break;
        this.#take(value);
      }
    } catch (error) {
      this.error = error;
    }
    this.isOver = true;
    this.#onFirstOutput();
  }

  #take(event: GenerateEvent): void {
    if (this.end) throw new Error("an event after the end");
    if (event.type === "started") {
      if (this.started) throw new Error("started twice");
      this.started = event;
      return;
    }
    if (!this.started) throw new Error("an event before the start");
    if (event.type === "end") this.end = event;
    else {
      this.text += event.text;
      this.logprobs.push(...(event.logprobs ?? []));
      this.#onFirstOutput();
    }
  }
}
