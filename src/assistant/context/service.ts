import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { untilAborted } from "../../base/aborting.ts";
import type { Clock } from "../../base/clock.ts";
import { isAbort, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { timeLimit } from "../../base/time-limit.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { AssistantError } from "../errors.ts";
import type { EntryName, EntryValue, Ledger } from "../ledger/port.ts";
import { IndexThread } from "./index/index-thread.ts";
import type { IndexTiming, SpaceState, WorkerData } from "./index/worker-protocol.ts";
import type {
  ContextEmbedder,
  ContextService,
  IndexState,
  Memory,
  SearchHit,
  SearchRequest,
} from "./port.ts";

export interface ContextSource {
  /** Told with each hit: `notes`. */
  readonly name: string;
  /** A folder of this machine. */
  readonly path: string;
  /** Who may see it: a search in this scope, or, `app:<id>`, a sandboxed app. Default: the name. */
  readonly scope?: string | undefined;
}

export interface ContextOptions {
  /** The companion's state directory; the index is `context.db` in it. */
  readonly dir: string;
  readonly sources: readonly ContextSource[];
  /**
   * A real embedding model; undefined: what the corpus teaches has to do. `awaited`: there is to be one, which
   * `useEmbedder` brings. Until then search goes by words, and the vectors that it made before are kept.
   */
  readonly embedder: ContextEmbedder | "awaited" | undefined;
  readonly memory: Memory;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests. */
  readonly timing?: Partial<IndexTiming> | undefined;
  /** After which a search is given up, in milliseconds. */
  readonly searchLimitMs?: number | undefined;
}

const LIMIT_MAX = 50;
const QUERY_BYTES_MAX = 4_096;
const SCOPES_MAX = 100;
const SCOPE_BYTES_MAX = 256;
/** Ten times what the slowest search over 100,000 passages took. */
const SEARCH_LIMIT_MS = 10_000;
/** A query's vector that takes longer is done without. */
const EMBED_LIMIT_MS = 2_000;
const EMBED_MANY_LIMIT_MS = 60_000;
/** Searches that wait; each takes some ten milliseconds. */
const WAITING_MAX = 128;
const RESTART_MS = 1_000;

/** A burst of saves is one run; nothing waits for more than two seconds. */
const usualTiming: IndexTiming = {
  debounceMs: 200,
  debounceMaxMs: 2_000,
  rescanMs: 60 * 60_000,
  degradedRescanMs: 60_000,
};

/**
 * Search over the indexed folders, and the memory of apps. Whatever takes time is done in the index's own
 * thread, so that nothing here holds the daemon up. Starts at once; the index fills in the background.
 */
export class Context implements ContextService, AsyncDisposable {
  readonly memory: Memory;
  /**
   * What makes the vectors: the model that was given, or what the corpus taught, which rejects until it
   * has taught something. For whoever else ranks texts, however long they hold it.
   */
  readonly embedder: ContextEmbedder;
  readonly #options: ContextOptions;
  #data: WorkerData;
  #embedder: ContextEmbedder | undefined;
  #thread: IndexThread;
  #state: IndexState;
  #space: SpaceState | undefined;
  #takeBackRestart: (() => void) | undefined;
  readonly #closing = new AbortController();

  constructor(options: ContextOptions) {
    const { dir, sources, embedder } = options;
    this.#options = options;
    this.#embedder = embedder === "awaited" ? undefined : embedder;
    this.memory = options.memory;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#data = {
      dir,
      sources: checked(sources).map(({ name, path, scope }) => ({
        name,
        path: resolve(path),
        scope: scope ?? name,
      })),
      embedder: embedder === "awaited" ? embedder : spaceOf(embedder),
      timing: { ...usualTiming, ...options.timing },
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
    this.#thread = this.#start();
    this.embedder = this.#currentEmbedder();
  }

  /** The model that was awaited is there: passages get its vectors, and searches by meaning use them. */
  useEmbedder(embedder: ContextEmbedder): void {
    this.#embedder = embedder;
    const space = spaceOf(embedder);
    this.#data = { ...this.#data, embedder: space };
    this.#thread.useEmbedder(space);
  }

  indexState(): IndexState {
    return this.#state;
  }

  async search(
    request: SearchRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<readonly SearchHit[]> {
    const { query, limit, isHybrid, scopes } = request;
    checkRequest(request);
    if (this.#thread.open >= WAITING_MAX)
      throw new AssistantError("queue_full", `${WAITING_MAX} searches are waiting; try again`, {
        retryAfterSeconds: 1,
      });
    // First of all: a search that cannot be recorded does not happen.
    await this.#options.ledger.append({
      name: entryName(request),
      fields: {
        limit,
        mode: isHybrid ? "hybrid" : "lexical",
        scopes: scopes === undefined ? null : [...scopes],
        caller: callerFields(caller),
      },
      sealed: { query },
    });
    using bound = timeLimit(
      AbortSignal.any([signal, this.#closing.signal]),
      this.#options.searchLimitMs ?? SEARCH_LIMIT_MS,
    );
    try {
      const vector = isHybrid ? await this.#queryVector(query, bound.signal) : undefined;
      const visible = visibleScopes(scopes, caller);
      return await this.#thread.search(
        { query, limit, scopes: visible, isHybrid, vector },
        bound.signal,
      );
    } catch (error) {
      throw this.#asFailure(error, signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#takeBackRestart?.();
    this.#closing.abort(new AssistantError("shutting_down", "the companion is shutting down"));
    await this.#thread.close();
  }

  #currentEmbedder(): ContextEmbedder {
    const space = () => this.#embedder ?? this.#space ?? { id: "lsa:0", dimensions: 0 };
    return {
      get id() {
        return space().id;
      },
      get dimensions() {
        return space().dimensions;
      },
      embed: async (texts, signal) => {
        signal.throwIfAborted();
        if (this.#embedder) return this.#embedder.embed(texts, signal);
        const vectors = await untilAborted(this.#thread.embed(texts), signal);
        if (vectors) return vectors;
        throw new AssistantError("no_model", "the index has not learned any words yet", {
          retryAfterSeconds: 30,
        });
      },
    };
  }

  #start(): IndexThread {
    const { logger } = this.#options;
    return new IndexThread(this.#data, {
      onState: ({ state, space }) => {
        this.#state = state;
        this.#space = space;
      },
      onLog: ({ level, message, fields }) => logger[level](fields, message),
      onWanted: (texts) => void this.#embedMany(texts),
      onEnd: (detail) => this.#startAgain(detail),
    });
  }

  #startAgain(detail: string): void {
    const { logger, clock } = this.#options;
    if (this.#closing.signal.aborted) return;
    logger.error({ detail }, "the index's thread has ended; it is started again");
    this.#state = { ...this.#state, state: "degraded" };
    this.#takeBackRestart = clock.setTimer(RESTART_MS, () => {
      this.#thread = this.#start();
    });
  }

  /** Undefined where the embedder cannot be had: words have to do then, and the hits say so. */
  async #queryVector(query: string, signal: AbortSignal): Promise<Float32Array | undefined> {
    const { logger } = this.#options;
    const embedder = this.#embedder;
    if (!embedder) return undefined;
    using bound = timeLimit(signal, EMBED_LIMIT_MS);
    try {
      const asked = embedder.embed([query], bound.signal);
      const [vector] = await untilAborted(asked, bound.signal);
      return vector && Float32Array.from(vector);
    } catch (error) {
      signal.throwIfAborted();
      logger.debug({ err: messageOf(error) }, "a query was not embedded");
      return undefined;
    }
  }

  async #embedMany(texts: readonly string[]): Promise<void> {
    const { logger } = this.#options;
    using bound = timeLimit(this.#closing.signal, EMBED_MANY_LIMIT_MS);
    const thread = this.#thread;
    try {
      thread.answerWanted(this.#embedder && (await embedEach(this.#embedder, texts, bound.signal)));
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      logger.debug({ err: messageOf(error) }, "passages were not embedded; tried again later");
      thread.answerWanted(undefined);
    }
  }

  #asFailure(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    if (this.#closing.signal.aborted) return this.#closing.signal.reason;
    if (error instanceof AssistantError) return error;
    if (isAbort(error))
      return new AssistantError("timeout", "the search took too long; ask for fewer words", {
        cause: error,
      });
    this.#options.logger.error({ err: messageOf(error) }, "a search failed");
    return new AssistantError("internal", "the index cannot be searched at the moment", {
      cause: error,
    });
  }
}

function spaceOf(embedder: ContextEmbedder): SpaceState;
function spaceOf(embedder: ContextEmbedder | undefined): SpaceState | undefined;
function spaceOf(embedder: ContextEmbedder | undefined): SpaceState | undefined {
  return embedder && { id: embedder.id, dimensions: embedder.dimensions };
}

/**
 * A vector for each text; an empty one for a text that is longer than the model's context: one passage must not keep all others from theirs. Rejects where the model cannot be had.
 */
async function embedEach(
  embedder: ContextEmbedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  try {
    const vectors = await untilAborted(embedder.embed(texts, signal), signal);
    return vectors.map((vector) => Float32Array.from(vector));
  } catch (error) {
    if (!isTooLong(error)) throw error;
    if (texts.length === 1) return [new Float32Array(0)];
    const vectors: Float32Array[] = [];
    for (const text of texts) vectors.push(...(await embedEach(embedder, [text], signal)));
    return vectors;
  }
}

function isTooLong(error: unknown): boolean {
  return error instanceof AssistantError && error.code === "context_length_exceeded";
}

function checked(sources: readonly ContextSource[]): readonly ContextSource[] {
  const names = new Set<string>();
  for (const { name } of sources) {
    if (!/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name))
      throw new AssistantError(
        "invalid_request",
        `"${name}" is no name for a source: small letters, digits, dots and hyphens, 64 at most`,
      );
    if (names.has(name))
      throw new AssistantError("invalid_request", `two sources are called "${name}"`);
    names.add(name);
  }
  return sources;
}

function checkRequest({ query, limit, scopes }: SearchRequest): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX)
    throw new AssistantError("invalid_request", `limit must be a number from 1 to ${LIMIT_MAX}`, {
      param: "limit",
    });
  if (query.trim() === "")
    throw new AssistantError("invalid_request", "the query is empty; say what to look for", {
      param: "query",
    });
  const bytes = Buffer.byteLength(query);
  if (bytes > QUERY_BYTES_MAX)
    throw new AssistantError(
      "invalid_request",
      `the query has ${bytes} bytes; ${QUERY_BYTES_MAX} is the most`,
      { param: "query" },
    );
  if (scopes && scopes.length > SCOPES_MAX)
    throw new AssistantError("invalid_request", `at most ${SCOPES_MAX} scopes may be named`, {
      param: "scopes",
    });
  if (scopes?.some((scope) => Buffer.byteLength(scope) > SCOPE_BYTES_MAX))
    throw new AssistantError("invalid_request", `a scope has at most ${SCOPE_BYTES_MAX} bytes`, {
      param: "scopes",
    });
}

function entryName({ scopes, isHybrid }: SearchRequest): EntryName {
  if (scopes !== undefined) return "context.search.scoped";
  return isHybrid ? "context.search.hybrid" : "context.search";
}

function callerFields({ app, connection }: Caller): EntryValue {
  return { app: app?.id ?? null, connection, kind: app?.kind ?? null };
}

/** A sandboxed app sees what is its own and nothing else, whatever it names. */
function visibleScopes(
  scopes: readonly string[] | undefined,
  caller: Caller,
): readonly string[] | undefined {
  const app = sandboxedApp(caller);
  if (app === undefined) return scopes;
  const own = `app:${app}`;
  return scopes === undefined || scopes.includes(own) ? [own] : [];
}
