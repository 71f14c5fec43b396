import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import { AssistantError } from "../assistant-error.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import type { EntryName, EntryValue, Ledger } from "../ledger/port.ts";
import { describeEmbedderFailure, embedEach, getEmbedderName } from "./embed-texts.ts";
import type { IndexTiming, IndexWorkerData, VectorSpaceState } from "./index/index-protocol.ts";
import { IndexThread } from "./index/index-thread.ts";
import type {
  ContextEmbedder,
  ContextService,
  ContextVectorState,
  IndexState,
  Memory,
  SearchHit,
  SearchRequest,
} from "./port.ts";

export interface ContextSource {
  /** The name of the source, such as `notes`. Each search hit from this source contains the name. */
  readonly name: string;
  readonly path: string;
  /**
   * The scope in which a search finds the source. A sandboxed app searches the scope `app:<id>`. Defaults to the
   * source's name.
   */
  readonly scope?: string | undefined;
}

export interface ContextServiceOptions {
  /** The companion's state directory, which contains the index, `context.db`. */
  readonly dir: string;
  readonly sources: readonly ContextSource[];
  /**
   * The embedding model. Undefined if there is none; hybrid searches are then answered lexically. The value `awaited`
   * means that `setEmbedder` will be called later; until then hybrid searches are answered lexically too, and the
   * stored vectors are kept.
   */
  readonly embedder: ContextEmbedder | "awaited" | undefined;
  readonly memory: Memory;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Delays and intervals, which tests shorten. */
  readonly timing?: Partial<IndexTiming> | undefined;
  /** The longest time that the embedding of a query may take, in milliseconds. */
  readonly queryEmbedTimeoutMs?: number | undefined;
  /** The longest time that a search may take, in milliseconds. */
  readonly searchTimeoutMs?: number | undefined;
}

const LIMIT_MAX = 50;
const QUERY_BYTES_MAX = 4_096;
const SCOPES_MAX = 100;
const SCOPE_BYTES_MAX = 256;
/** Time limit of a search: ten times the duration of the slowest search over 100,000 passages. */
const SEARCH_TIMEOUT_MS = 10_000;
/** The time limit for the embedding of a query. If the embedding takes longer, the search is lexical. */
const QUERY_EMBED_TIMEOUT_MS = 2_000;
const PASSAGE_EMBED_TIMEOUT_MS = 60_000;
/** The number of searches that may wait; each takes about ten milliseconds. */
const WAITING_MAX = 128;
/** The number of searches of sandboxed apps that may wait. The others are reserved for the user's own programs. */
const SANDBOXED_WAITING_MAX = 96;
const RESTART_DELAY_MS = 1_000;

/**
 * The default times. A burst of file changes is indexed in one run, which begins at most two seconds after the first
 * change.
 */
const defaultTiming: IndexTiming = {
  debounceMs: 200,
  debounceMaxMs: 2_000,
  rescanMs: 60 * 60_000,
  degradedRescanMs: 60_000,
};

/**
 * Search over the indexed folders, and the memory of apps. The index runs in a worker thread, so that it does not
 * block the daemon. Searches work at once, while the folders are indexed in the background.
 */
export class IndexedContextService implements ContextService, AsyncDisposable {
  readonly memory: Memory;
  /**
   * Embeds texts with the current embedding model, for searches here and for the discovery of tools. Its methods reject
   * with `no_model` while no embedding model is available.
   */
  readonly embedder: ContextEmbedder;
  readonly #options: ContextServiceOptions;
  #data: IndexWorkerData;
  #embedder: ContextEmbedder | undefined;
  #thread: IndexThread;
  #state: Omit<IndexState, "vectors">;
  #embeddedPassages = 0;
  /** The reason why the embedding model did not answer its last request; null if it did. */
  #embedderProblem: string | null = null;
  #cancelRestart: (() => void) | undefined;
  readonly #waiting = { all: 0, sandboxed: 0 };
  readonly #closing = new AbortController();

  constructor(options: ContextServiceOptions) {
    const { dir, sources, embedder } = options;
    this.#options = options;
    this.#embedder = embedder === "awaited" ? undefined : embedder;
    this.memory = options.memory;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#data = {
      dir,
      sources: validateSources(sources).map(({ name, path, scope }) => ({
        name,
        path: resolve(path),
        scope: scope ?? name,
      })),
      embedder: embedder === "awaited" ? embedder : toSpaceState(embedder),
      timing: { ...defaultTiming, ...options.timing },
    };
    this.#state = {
      v: 1,
      state: sources.length === 0 ? "empty" : "indexing",
      documents: 0,
      chunks: 0,
      sources: sources.map(({ name }) => ({
        name,
        documents: 0,
        skipped: 0,
        state: "indexing",
        message: null,
      })),
    };
    this.#thread = this.#startThread();
    this.embedder = this.#createCurrentEmbedder();
  }

  /** Sets the embedding model, and embeds all passages with it in the background. */
  setEmbedder(embedder: ContextEmbedder): void {
    this.#embedder = embedder;
    const space = toSpaceState(embedder);
    this.#data = { ...this.#data, embedder: space };
    this.#thread.setEmbedder(space);
  }

  indexState(): IndexState {
    return { ...this.#state, vectors: this.#describeVectors() };
  }

  #describeVectors(): ContextVectorState | null {
    if (this.#data.embedder === undefined) return null;
    const { chunks: passages } = this.#state;
    const embedded = Math.min(this.#embeddedPassages, passages);
    const model = this.#embedder ? getEmbedderName(this.#embedder) : null;
    const message =
      model === null ? "the embedding model is not available yet" : this.#embedderProblem;
    return { model, embedded, passages, message };
  }

  async search(
    request: SearchRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<readonly SearchHit[]> {
    const { query, limit, isHybrid, scopes } = request;
    validateRequest(request);
    using _ = this.#startSearch(caller);
    // The ledger entry is written first, because a search that cannot be recorded must not happen.
    await this.#options.ledger.append({
      name: getEntryName(request),
      fields: {
        limit,
        mode: isHybrid ? "hybrid" : "lexical",
        scopes: scopes === undefined ? null : [...scopes],
        caller: callerFields(caller),
      },
      sealed: { query },
    });
    using bound = createTimeLimit(
      AbortSignal.any([signal, this.#closing.signal]),
      this.#options.searchTimeoutMs ?? SEARCH_TIMEOUT_MS,
    );
    try {
      const vector = isHybrid ? await this.#embedQuery(query, bound.signal) : undefined;
      const visible = visibleScopes(scopes, caller);
      return await this.#thread.search(
        { query, limit, scopes: visible, isHybrid, vector },
        bound.signal,
      );
    } catch (error) {
      throw this.#toAssistantError(error, signal);
    }
  }

  /** Counts a search until the returned object is disposed. Throws `queue_full` if too many searches wait. */
  #startSearch(caller: Caller): Disposable {
    const isSandboxed = sandboxedApp(caller) !== undefined;
    const counts = this.#waiting;
    if (counts.all >= WAITING_MAX || (isSandboxed && counts.sandboxed >= SANDBOXED_WAITING_MAX))
      throw new AssistantError("queue_full", `${counts.all} searches are waiting; try again`, {
        retryAfterSeconds: 1,
      });
    const add = (count: 1 | -1) => {
      counts.all += count;
      if (isSandboxed) counts.sandboxed += count;
    };
    add(1);
    return { [Symbol.dispose]: () => add(-1) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#cancelRestart?.();
    this.#closing.abort(new AssistantError("shutting_down", "the companion is shutting down"));
    await this.#thread.close();
  }

  #createCurrentEmbedder(): ContextEmbedder {
    const space = (): Omit<ContextEmbedder, "embed"> =>
      this.#embedder ?? { id: "none", dimensions: 0 };
    return {
      get id() {
        return space().id;
      },
      get name() {
        return getEmbedderName(space());
      },
      get dimensions() {
        return space().dimensions;
      },
      embed: async (texts, signal) => {
        signal.throwIfAborted();
        if (this.#embedder) return this.#embedder.embed(texts, signal);
        throw new AssistantError("no_model", "no embedding model is loaded", {
          retryAfterSeconds: 30,
        });
      },
    };
  }

  #startThread(): IndexThread {
    const { logger } = this.#options;
    return new IndexThread(this.#data, {
      onState: ({ state, embedded }) => {
        this.#state = state;
        this.#embeddedPassages = embedded;
      },
      onLog: ({ level, message, fields }) => logger[level](fields, message),
      onVectorsWanted: (texts) => void this.#embedPassages(texts),
      onEnd: (detail) => this.#scheduleRestart(detail),
    });
  }

  #scheduleRestart(detail: string): void {
    const { logger, clock } = this.#options;
    if (this.#closing.signal.aborted) return;
    logger.error({ detail }, "the index's thread has ended and is started again");
    this.#state = { ...this.#state, state: "degraded" };
    this.#cancelRestart = clock.setTimer(RESTART_DELAY_MS, () => {
      this.#thread = this.#startThread();
    });
  }

  /** Returns the query's embedding; undefined if there is no embedder or it fails, and the search is then lexical. */
  async #embedQuery(query: string, signal: AbortSignal): Promise<Float32Array | undefined> {
    const embedder = this.#embedder;
    if (!embedder) return undefined;
    const limitMs = this.#options.queryEmbedTimeoutMs ?? QUERY_EMBED_TIMEOUT_MS;
    using bound = createTimeLimit(signal, limitMs);
    try {
      const asked = embedder.embed([query], bound.signal);
      const [vector] = await raceWithAbort(asked, bound.signal);
      this.#embedderProblem = null;
      return vector && Float32Array.from(vector);
    } catch (error) {
      signal.throwIfAborted();
      const isLate = bound.signal.aborted;
      this.#reportEmbedderProblem(
        isLate
          ? `the embedding model ${getEmbedderName(embedder)} did not embed a query within ${limitMs} ms; searches compare words only`
          : describeEmbedderFailure(embedder, error),
      );
      return undefined;
    }
  }

  /** Stores the reason why a text was not embedded, which `indexState` returns. Logs the reason when it changes. */
  #reportEmbedderProblem(problem: string): void {
    const { logger } = this.#options;
    if (this.#embedderProblem !== problem) logger.warn({ problem }, "a text was not embedded");
    this.#embedderProblem = problem;
  }

  async #embedPassages(texts: readonly string[]): Promise<void> {
    using bound = createTimeLimit(this.#closing.signal, PASSAGE_EMBED_TIMEOUT_MS);
    const thread = this.#thread;
    const embedder = this.#embedder;
    try {
      thread.sendVectors(embedder && (await embedEach(embedder, texts, bound.signal)));
      this.#embedderProblem = null;
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      if (embedder) this.#reportEmbedderProblem(describeEmbedderFailure(embedder, error));
      thread.sendVectors(undefined);
    }
  }

  #toAssistantError(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    if (this.#closing.signal.aborted) return this.#closing.signal.reason;
    if (error instanceof AssistantError) return error;
    if (isAbortError(error))
      return new AssistantError("timeout", "the search took too long; use fewer words", {
        cause: error,
      });
    this.#options.logger.error({ err: getErrorMessage(error) }, "a search failed");
    return new AssistantError("internal", "the index cannot be searched at the moment", {
      cause: error,
    });
  }
}

function toSpaceState(embedder: ContextEmbedder): VectorSpaceState;
function toSpaceState(embedder: ContextEmbedder | undefined): VectorSpaceState | undefined;
function toSpaceState(embedder: ContextEmbedder | undefined): VectorSpaceState | undefined {
  return embedder && { id: embedder.id, dimensions: embedder.dimensions };
}

function validateSources(sources: readonly ContextSource[]): readonly ContextSource[] {
  const names = new Set<string>();
  for (const { name } of sources) {
    if (!/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name))
      throw new AssistantError(
        "invalid_request",
        `"${name}" is not a valid name for a source: use at most 64 lower-case letters, digits, dots, hyphens and underscores`,
      );
    if (names.has(name))
      throw new AssistantError("invalid_request", `two sources have the name "${name}"`);
    names.add(name);
  }
  return sources;
}

function validateRequest({ query, limit, scopes }: SearchRequest): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
    throw new AssistantError("invalid_request", `limit must be a number from 1 to ${LIMIT_MAX}`, {
      param: "limit",
    });
  if (query.trim() === "")
    throw new AssistantError("invalid_request", "the query is empty; enter words to search for", {
      param: "query",
    });
  const bytes = Buffer.byteLength(query);
  if (bytes > QUERY_BYTES_MAX)
    throw new AssistantError(
      "invalid_request",
      `the query has ${bytes} bytes; the limit is ${QUERY_BYTES_MAX}`,
      { param: "query" },
    );
  if (scopes && scopes.length > SCOPES_MAX)
    throw new AssistantError("invalid_request", `a search has at most ${SCOPES_MAX} scopes`, {
      param: "scopes",
    });
  if (scopes?.some((scope) => Buffer.byteLength(scope) > SCOPE_BYTES_MAX))
    throw new AssistantError("invalid_request", `a scope has at most ${SCOPE_BYTES_MAX} bytes`, {
      param: "scopes",
    });
}

function getEntryName({ scopes, isHybrid }: SearchRequest): EntryName {
  if (scopes !== undefined) return "context.search.scoped";
  return isHybrid ? "context.search.hybrid" : "context.search";
}

function callerFields({ app, connection }: Caller): EntryValue {
  return { app: app?.id ?? null, connection, kind: app?.kind ?? null };
}

/** Returns those of the requested scopes that the caller may search. A sandboxed app can only search its own scope. */
function visibleScopes(
  scopes: readonly string[] | undefined,
  caller: Caller,
): readonly string[] | undefined {
  const app = sandboxedApp(caller);
  if (app === undefined) return scopes;
  const own = `app:${app}`;
  return scopes === undefined || scopes.includes(own) ? [own] : [];
}
