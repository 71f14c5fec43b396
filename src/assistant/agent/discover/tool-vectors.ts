import type { Clock } from "../../../base/clock.ts";
import { isAbortError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import type { ContextEmbedder } from "../../context/port.ts";
import { describeFailure, getModelName } from "./embedder-failure.ts";
import { buildEmbeddingText, type SearchableTool } from "./searchable-tool.ts";

/** The number of texts in one request to the embedder. */
const BATCH_SIZE = 32;
const BATCH_TIMEOUT_MS = 30_000;
/**
 * The time in milliseconds for which the embedder is not called after a failure. Without this pause, each keystroke of
 * a search would call an embedder that is missing.
 */
const RETRY_AFTER_MS = 30_000;

/**
 * The embeddings of tools. They are computed in the background and kept until the texts or the embedder change. While
 * some vectors are not computed yet, a caller gets no vectors at all.
 */
export class ToolVectors implements AsyncDisposable {
  readonly #embedder: ContextEmbedder;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #tasks: TaskGroup;
  #embedderId = "";
  #vectors = new Map<string, Float32Array>();
  #running: Promise<void> | undefined;
  #isSlow = false;
  #retryAt = 0;
  /** The reason why the last attempt to embed tools failed; undefined if it did not. */
  #failure: string | undefined;

  constructor(parts: { embedder: ContextEmbedder; clock: Clock; logger: Logger }) {
    this.#embedder = parts.embedder;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#tasks = new TaskGroup(() => {
      // Errors are ignored here, because `#embed` logs them itself.
    });
  }

  /**
   * Returns a vector for each tool, in the order of the tools, or undefined if one is missing. Waits for the embedder
   * until `signal` aborts. Never rejects.
   */
  async getVectors(
    tools: readonly SearchableTool[],
    signal: AbortSignal,
  ): Promise<readonly Float32Array[] | undefined> {
    const ready = this.#getReady(tools);
    if (ready) return ready;
    if (!this.#running && this.#clock.now() >= this.#retryAt) this.#startEmbedding(tools);
    try {
      if (this.#running && !this.#isSlow) await raceWithAbort(this.#running, signal);
    } catch {
      // The embedder is slow. From now on, searches do not wait for it; they get no vectors until all are computed.
      this.#isSlow = true;
    }
    return this.#getReady(tools);
  }

  /** Returns the number of these tools that have a vector. */
  count(tools: readonly SearchableTool[]): number {
    if (this.#embedderId !== this.#embedder.id) return 0;
    return tools.filter((tool) => this.#vectors.has(buildEmbeddingText(tool))).length;
  }

  /** Describes why vectors are missing, for people. */
  explainMissing(): string {
    return (
      this.#failure ??
      `the embedding model ${getModelName(this.#embedder)} has not embedded all tools yet`
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
  }

  #getReady(tools: readonly SearchableTool[]): readonly Float32Array[] | undefined {
    if (this.#embedderId !== this.#embedder.id) return undefined;
    const vectors = tools.flatMap((tool) => this.#vectors.get(buildEmbeddingText(tool)) ?? []);
    return vectors.length === tools.length ? vectors : undefined;
  }

  #startEmbedding(tools: readonly SearchableTool[]): void {
    this.#tasks.run("embed", (signal) => {
      this.#running = this.#embed(tools, signal).finally(() => {
        this.#running = undefined;
        this.#isSlow = false;
      });
      return this.#running;
    });
  }

  async #embed(tools: readonly SearchableTool[], signal: AbortSignal): Promise<void> {
    const { id } = this.#embedder;
    const sentences = [...new Set(tools.map(buildEmbeddingText))];
    const known = id === this.#embedderId ? this.#vectors : new Map<string, Float32Array>();
    const next = new Map(
      sentences.flatMap((text) => {
        const vector = known.get(text);
        return vector ? [[text, vector] as const] : [];
      }),
    );
    const missing = sentences.filter((text) => !next.has(text));
    try {
      for (let start = 0; start < missing.length; start += BATCH_SIZE) {
        const batch = missing.slice(start, start + BATCH_SIZE);
        using limit = createTimeLimit(signal, BATCH_TIMEOUT_MS);
        const vectors = await raceWithAbort(
          this.#embedder.embed(batch, limit.signal),
          limit.signal,
        );
        for (const [index, text] of batch.entries()) {
          const vector = vectors[index];
          if (vector) next.set(text, vector);
        }
      }
      // If the embedder has changed during the request, these vectors cannot be compared with those of the new
      // embedder.
      if (this.#embedder.id !== id) return;
      this.#embedderId = id;
      this.#vectors = next;
      this.#failure = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.#retryAt = this.#clock.now() + RETRY_AFTER_MS;
      this.#failure = isAbortError(error)
        ? `the embedding model ${getModelName(this.#embedder)} did not embed ${BATCH_SIZE} tools within ${BATCH_TIMEOUT_MS / 1_000} s`
        : describeFailure(this.#embedder, error);
      this.#logger.debug({ err: error }, "tools could not be embedded; their ranking is lexical");
    }
  }
}
