import { type Clock, delay } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ContextEmbedder } from "../context/port.ts";
import type { InferenceService } from "../inference/service-port.ts";

/** The time limit of the request that tests the model. It is long enough for a model that must be loaded first. */
const PROBE_MS_MAX = 60_000;
/**
 * The time between two attempts to reach the embedding model. The system instance (`berth assistant --system`), which
 * runs the model, may start later than the companion or lack the model for a while.
 */
const RETRY_MS = 30_000;

interface EmbedderOptions {
  readonly service: InferenceService;
  /** The id or an alias of the embedding model. */
  readonly model: string;
  readonly logger: Logger;
}

/**
 * Polls until the embedding model is available and then calls `onFound` once. The companion starts without waiting for
 * the model. Disposal does not wait for a request in progress.
 */
export class AwaitedEmbedder implements Disposable {
  readonly #ending = new AbortController();

  constructor(
    options: EmbedderOptions & {
      readonly clock: Clock;
      readonly onFound: (found: ContextEmbedder) => void;
    },
  ) {
    void this.#poll(options);
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }

  /** Retries until the model is found or this object is disposed. Never rejects. */
  async #poll({
    clock,
    onFound,
    ...wanted
  }: EmbedderOptions & {
    readonly clock: Clock;
    readonly onFound: (found: ContextEmbedder) => void;
  }): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const found = await connectModelEmbedder({ ...wanted, signal });
      if (signal.aborted) return;
      if (found) return onFound(found);
      await delay(clock, RETRY_MS, signal).catch(() => {});
    }
  }
}

/**
 * Connects to the configured embedding model. Requests to the model have background priority, and are recorded in the
 * ledger like all other requests. Returns undefined if the model is not available, and logs why.
 */
export async function connectModelEmbedder(
  options: EmbedderOptions & { readonly signal?: AbortSignal | undefined },
): Promise<ContextEmbedder | undefined> {
  const { service, model, logger } = options;
  const embed = async (texts: readonly string[], signal: AbortSignal) => {
    const request = { model, texts, priority: "background", keepAliveMs: undefined } as const;
    return (await service.embed(request, signal)).vectors;
  };
  try {
    const known = await service.model(model);
    const dimensions = known?.embeddingLength ?? (await embedProbe(embed, options.signal))?.length;
    if (dimensions === undefined) throw new Error("the model returned no vector");
    const name = known?.id ?? model;
    return { id: `model:${name}:${dimensions}`, name, dimensions, embed };
  } catch (error) {
    if (options.signal?.aborted !== true)
      logger.warn(
        { model, err: error },
        "the embedding model is not available; search works without it",
      );
    return undefined;
  }
}

async function embedProbe(
  embed: ContextEmbedder["embed"],
  signal: AbortSignal | undefined,
): Promise<Float32Array | undefined> {
  const limit = AbortSignal.timeout(PROBE_MS_MAX);
  const [vector] = await embed(["dimensions"], signal ? AbortSignal.any([signal, limit]) : limit);
  return vector;
}
