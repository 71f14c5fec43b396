import type { GenerateEvent } from "../../src/assistant/inference/inference-engine.ts";
import type { TokenLogprob } from "../../src/assistant/inference/runner.ts";

/** One generation as somebody sees it who takes every event at once, or stops doing so for a while. */
export class GenerationReader {
  text = "";
  readonly logprobs: TokenLogprob[] = [];
  started: Extract<GenerateEvent, { type: "started" }> | undefined;
  end: Extract<GenerateEvent, { type: "end" }> | undefined;
  error: unknown;
  /** The iteration is over, one way or the other. */
  isOver = false;
  /** Resolves with `over`; never rejects. */
  readonly done: Promise<void>;
  /** Resolves when it has said something, or is over. */
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

  /** Takes no more events, after the one that is being waited for, until the result is called. */
  pause(): () => void {
    let goOn: (() => void) | undefined;
    this.#pause = new Promise((resolve) => {
      goOn = resolve;
    });
    return () => goOn?.();
  }

  /** Goes away, as leaving a for-await loop does. */
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
