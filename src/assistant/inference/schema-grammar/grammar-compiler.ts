import { createHash } from "node:crypto";
import { type Clock, systemClock } from "../../../base/clock.ts";
import { isObject } from "../../../base/json.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import { compileSchema, type GrammarLayout, type GrammarText } from "./compile-schema.ts";
import { GrammarThread } from "./grammar-thread.ts";
import type { GrammarRequest } from "./grammar-worker-protocol.ts";
import { scalarGrammar } from "./scalar-grammar.ts";
import { assertSchemaSize } from "./schema-document.ts";
import { schemaLimits } from "./schema-limits.ts";

/** The default limit of the cache: the approximate size in memory of all cached grammars with their example texts. */
const CACHE_BYTES_MAX = 16 * 1024 * 1024;

/**
 * The default limit of CPU time for one validation. It is longer than the limit for a compilation, because Ajv
 * generates code when it first uses a schema.
 */
const VALIDATE_MAX_MS = 2_000;

export interface CompiledGrammar extends GrammarText {
  /**
   * Resolves to the problems of a parsed document, one line each; an empty list if it is valid. A document
   * that cannot be validated in time counts as invalid. Never rejects.
   */
  validate(document: unknown): Promise<readonly string[]>;
}

interface GrammarCompilerOptions {
  readonly logger: Logger;
  readonly clock?: Clock;
  /** The limit of CPU time for one compilation. */
  readonly limitMs?: number;
  /** The limit of CPU time for one validation. */
  readonly validateMs?: number;
  readonly cacheBytesMax?: number;
}

/**
 * Compiles JSON Schemas to grammars for llama.cpp in one warm thread. Caches the results, and lets
 * concurrent requests for the same schema share one compilation.
 */
export class GrammarCompiler implements AsyncDisposable {
  readonly #logger: Logger;
  readonly #limitMs: number;
  readonly #validateMs: number;
  readonly #cacheBytesMax: number;
  readonly #thread: GrammarThread;
  readonly #cache = new Map<string, CachedGrammar>();
  readonly #pending = new Map<string, Promise<GrammarText>>();
  #cachedBytes = 0;
  #compilations = 0;

  constructor(options: GrammarCompilerOptions) {
    this.#logger = options.logger;
    this.#limitMs = options.limitMs ?? schemaLimits.compileMs;
    this.#validateMs = options.validateMs ?? VALIDATE_MAX_MS;
    this.#cacheBytesMax = options.cacheBytesMax ?? CACHE_BYTES_MAX;
    this.#thread = new GrammarThread({ clock: options.clock ?? systemClock });
    this.#thread.warm();
  }

  /** The number of grammars that were compiled because they were not in the cache, for metrics. */
  get compilations(): number {
    return this.#compilations;
  }

  /**
   * Returns the grammar of a schema. Rejects with `unsupported_schema`, whose message has the unsupported keyword and
   * the keyword's JSON Pointer, or with the signal's reason. If the signal aborts, the compilation still goes on, and
   * the next request for the same schema gets its result.
   */
  async compile(schema: unknown, signal: AbortSignal): Promise<CompiledGrammar> {
    const text = serializeSchema(schema);
    const grammar = await this.#getOrCompile({ type: "compile", schema: text }, text, signal);
    return { ...grammar, validate: (document) => this.#validate(text, document) };
  }

  /** Compiles a grammar with several schemas, for tool calls. Rejects like `compile`. */
  async compileLayout(layout: GrammarLayout, signal: AbortSignal): Promise<GrammarText> {
    for (const schema of Object.values(layout.schemas)) serializeSchema(schema);
    const key = `layout ${JSON.stringify(layout)}`;
    return await this.#getOrCompile({ type: "layout", layout }, key, signal);
  }

  /** Validates a document against a schema and returns the errors, as `CompiledGrammar.validate` does. */
  validate(schema: unknown, document: unknown): Promise<readonly string[]> {
    return this.#validate(serializeSchema(schema), document);
  }

  /** Returns the grammar of any JSON object, for response_format `json_object`. */
  jsonObject(): CompiledGrammar {
    anyObjectGrammar ??= compileSchema({ type: "object" }, scalarGrammar);
    return {
      ...anyObjectGrammar,
      validate: (document) =>
        Promise.resolve(isObject(document) ? [] : ["the document must be object"]),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
  }

  async #getOrCompile(
    request: GrammarRequest,
    text: string,
    signal: AbortSignal,
  ): Promise<GrammarText> {
    signal.throwIfAborted();
    // The cache key is a hash of the schema's text, because the grammar depends on the order of properties.
    const key = createHash("sha256").update(text).digest("base64url");
    const cached = this.#cache.get(key);
    if (cached) {
      this.#cache.delete(key);
      this.#cache.set(key, cached);
      return cached.grammar;
    }
    let compiling = this.#pending.get(key);
    if (!compiling) {
      compiling = this.#compile(request, key).finally(() => this.#pending.delete(key));
      this.#pending.set(key, compiling);
    }
    return await raceWithAbort(compiling, signal);
  }

  async #compile(request: GrammarRequest, key: string): Promise<GrammarText> {
    this.#compilations += 1;
    const answer = await this.#thread.submit(request, this.#limitMs);
    switch (answer.type) {
      case "grammar":
        this.#store(key, answer.text);
        return answer.text;
      case "refused":
        throw new AssistantError("unsupported_schema", answer.message, { param: answer.param });
      case "exhausted":
        throw new AssistantError(
          "unsupported_schema",
          `Compiling the schema took more than ${this.#limitMs} ms; make it simpler: fewer alternatives, shorter patterns, smaller bounds`,
        );
      default:
        this.#logger.error(
          { reason: answer.type === "failed" ? answer.message : answer.type },
          "a schema was not compiled",
        );
        throw new AssistantError("internal", "The schema could not be compiled");
    }
  }

  #store(key: string, grammar: GrammarText): void {
    const bytes = 2 * (grammar.gbnf.length + grammar.example.length) + 200;
    if (bytes > this.#cacheBytesMax) return;
    this.#cache.set(key, { grammar, bytes });
    this.#cachedBytes += bytes;
    for (const [oldest, { bytes: freed }] of this.#cache) {
      if (this.#cachedBytes <= this.#cacheBytesMax) break;
      this.#cache.delete(oldest);
      this.#cachedBytes -= freed;
    }
  }

  async #validate(schema: string, document: unknown): Promise<readonly string[]> {
    const answer = await this.#thread.submit(
      { type: "validate", schema, document },
      this.#validateMs,
    );
    if (answer.type === "problems") return answer.problems;
    this.#logger.warn(
      { reason: answer.type },
      "a model's answer could not be validated against its schema",
    );
    return ["the document could not be validated against the schema in time"];
  }
}

/**
 * The grammar of any JSON object, compiled at its first use. The main thread compiles it, because Berth's own schema
 * needs no time limit.
 */
let anyObjectGrammar: GrammarText | undefined;

interface CachedGrammar {
  readonly grammar: GrammarText;
  readonly bytes: number;
}

/** Returns a schema as JSON text. Checks its depth and size first, because serialization and cloning are recursive. */
function serializeSchema(schema: unknown): string {
  assertSchemaSize(schema);
  return JSON.stringify(schema) ?? "null";
}
