import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { createEventDecoder } from "../../../base/openai-wire/event-decoder.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../../base/openai-wire/json-members.ts";
import { parseModelList, parseWireModel } from "../../../base/openai-wire/model-list.ts";
import { parseEmbeddings, type WireEmbedding } from "../../../base/openai-wire/parse-embeddings.ts";
import type { Ledger } from "../../ledger/port.ts";
import { createEmbedEntry, createGenerateEntry } from "../service/ledger-entries.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import { parseUpstreamAddress } from "./upstream-address.ts";
import { UpstreamAnswerReader } from "./upstream-answer-reader.ts";
import { connectionLostError, malformedResponseError, upstreamErrors } from "./upstream-errors.ts";
import { UpstreamHttpClient } from "./upstream-http-client.ts";
import { buildEmbedRequest, buildGenerateRequest } from "./upstream-request.ts";

/**
 * The longest time without data in a stream before the request fails. `berth assistant --system` sends the head of an
 * answer within 10 s, and then some data at least every 15 s.
 */
const STREAM_SILENT_MS_MAX = 60_000;
const METADATA_SILENT_MS_MAX = 10_000;
/** `health` gives up and reports `unreachable` if the system instance sends nothing for this time. */
const HEALTH_SILENT_MS_MAX = 1_000;
/** If the last health report of the system instance is older than this, `health` requests a new one. */
const HEALTH_AGE_MS_MAX = 1_000;

/**
 * The model name in the ledger entry of a request that names no model, because `berth assistant --system` then chooses
 * the model.
 */
const DEFAULT_MODEL = "default";

export interface UpstreamOptions {
  /**
   * The URL of `berth assistant --system` on this machine, such as http://127.0.0.1:7777; see `parseUpstreamAddress`.
   */
  readonly url: string;
  /** The companion's own ledger. */
  readonly ledger: Ledger;
  /** Returns false while the ledger cannot be written. If this function is absent, the ledger is assumed to work. */
  readonly ledgerOk?: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Local models through the system instance. Each request is in the companion's own ledger before a byte of it is sent;
 * the system instance then writes its own entry. Errors are those of the system instance, `no_model` if it cannot be
 * reached, and `engine_failed` if an answer is cut off: a request is never sent again once the system instance may have
 * read it.
 *
 * Two things differ from LocalInferenceService: `accepted` may take ten seconds, and the bytes in the logprobs of plain
 * completions are derived from each token's text, because the API of plain completions does not send a token's bytes.
 */
export class UpstreamInference implements InferenceService, AsyncDisposable {
  readonly #options: UpstreamOptions;
  readonly #http: UpstreamHttpClient;
  #engine = "upstream";
  #healthCheckedAtMs = Number.NEGATIVE_INFINITY;
  #healthCheck: Promise<UpstreamHealth> = Promise.resolve(unreachable);

  /** Throws AssistantError `invalid_request` for an address that is not on this machine. */
  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#http = new UpstreamHttpClient({
      url: parseUpstreamAddress(options.url),
      clock: options.clock,
    });
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    signal.throwIfAborted();
    const { path, body } = buildGenerateRequest(request);
    const entry = createGenerateEntry(request, request.model ?? DEFAULT_MODEL);
    const { seq: ledgerSeq } = await this.#options.ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: STREAM_SILENT_MS_MAX } as const;
    const answer = await this.#http.open(call, signal);
    const isStream = answer.response.headers["content-type"]?.startsWith("text/event-stream");
    const reader = new UpstreamAnswerReader(request);
    const decoder = createEventDecoder(upstreamErrors);
    let isAccepted = false;
    for await (const chunk of answer.body()) {
      // The content type is checked only when the body is being read, so that throwing the error also closes the body.
      if (isStream !== true) throw malformedResponseError("the answer is not a stream");
      for (const { data } of decoder.push(chunk)) {
        const events = reader.read(data);
        if (!isAccepted) yield { type: "accepted", model: reader.model, ledgerSeq };
        isAccepted = true;
        yield* events;
      }
    }
    if (!reader.isDone) throw connectionLostError();
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    signal.throwIfAborted();
    const { path, body } = buildEmbedRequest(request);
    const entry = createEmbedEntry(request, request.model ?? DEFAULT_MODEL);
    const { seq: ledgerSeq } = await this.#options.ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: undefined } as const;
    return {
      ledgerSeq,
      ...parseUpstreamEmbeddings(await this.#http.getJson(call, signal), request),
    };
  }

  /** Returns the models of `berth assistant --system`. Rejects with `no_model` if that daemon cannot be reached. */
  async models(): Promise<readonly ModelInfo[]> {
    return parseUpstreamModels(await this.#fetchJson("/v1/models"));
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return (await this.models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  }

  /**
   * Resolves to the health of the system instance within about a second. `engine` is the last engine that it reported,
   * or `upstream` before its first report.
   */
  async health(): Promise<InferenceHealth> {
    const now = this.#options.clock.now();
    if (now - this.#healthCheckedAtMs >= HEALTH_AGE_MS_MAX) {
      this.#healthCheckedAtMs = now;
      this.#healthCheck = this.#checkHealth();
    }
    const { upstream, failedModels } = await this.#healthCheck;
    return {
      engine: this.#engine,
      ledgerOk: this.#options.ledgerOk?.() ?? true,
      ...(failedModels.length > 0 && { failedModels }),
      upstream,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http[Symbol.dispose]();
    await this.#healthCheck;
  }

  #fetchJson(path: string, silentMsMax = METADATA_SILENT_MS_MAX): Promise<unknown> {
    const call = { method: "GET", path, silentMsMax } as const;
    return this.#http.getJson(call, never);
  }

  /**
   * Requests the health of the system instance. Never rejects: an error means that the system instance is unreachable.
   */
  async #checkHealth(): Promise<UpstreamHealth> {
    try {
      const report = await this.#fetchJson("/health", HEALTH_SILENT_MS_MAX);
      const engine = getStringMember(report, "engine");
      if (engine === undefined) throw malformedResponseError("the answer does not name the engine");
      this.#engine = engine;
      const upstream = getStringMember(report, "status") === "ok" ? "ok" : "degraded";
      const failedModels = (getArrayMember(report, "failed_models") ?? []).map((failed) => ({
        id: getStringMember(failed, "id") ?? "",
        message: getStringMember(failed, "message") ?? "",
      }));
      return { upstream, failedModels };
    } catch (error) {
      this.#options.logger.debug({ err: error }, "the system instance does not report its health");
      return unreachable;
    }
  }
}

interface UpstreamHealth {
  readonly upstream: NonNullable<InferenceHealth["upstream"]>;
  readonly failedModels: NonNullable<InferenceHealth["failedModels"]>;
}

const unreachable: UpstreamHealth = { upstream: "unreachable", failedModels: [] };

/** A signal that never aborts, for calls that have a time limit and end when this client is disposed. */
const never = new AbortController().signal;

interface UpstreamEmbeddings {
  readonly model: string;
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}

/**
 * Reads the answer of POST /v1/embeddings. Throws AssistantError `engine_failed` if the answer contains no embeddings.
 */
function parseUpstreamEmbeddings(body: unknown, request: EmbedRequest): UpstreamEmbeddings {
  const model = getStringMember(body, "model");
  if (model === undefined) throw malformedResponseError("the answer does not name the model");
  const all = parseEmbeddings(body, request.texts.length, upstreamErrors);
  return { model, vectors: all.map(({ vector }) => vector), tokens: getTokenCounts(body, all) };
}

/** An older system instance only sends the sum of all counts, which is assigned to the first text. */
function getTokenCounts(body: unknown, all: readonly WireEmbedding[]): number[] {
  const total = getCountMember(getMember(body, "usage"), "prompt_tokens") ?? 0;
  return all.map(
    ({ item }, index) => getCountMember(item, "svc_tokens") ?? (index === 0 ? total : 0),
  );
}

const kinds = ["chat", "completion", "embedding"] as const;
const states = ["resident", "loading", "idle", "failed"] as const;

/** Reads the answer of GET /v1/models. Throws AssistantError `engine_failed` if it is not a list of models. */
function parseUpstreamModels(body: unknown): ModelInfo[] {
  const list = parseModelList(body);
  if (!list) throw malformedResponseError("the answer contains no list of models");
  return list.map((item) => parseUpstreamModel(item));
}

function parseUpstreamModel(item: unknown): ModelInfo {
  const { id, aliases, createdSeconds, contextTokens, embeddingLength, ...rest } =
    parseWireModel(item);
  if (id === undefined || id === "")
    throw malformedResponseError("the list contains a model without an id");
  return {
    id,
    aliases,
    createdSeconds: createdSeconds ?? 0,
    kind: kinds.find((kind) => kind === rest.kind) ?? "chat",
    state: states.find((state) => state === rest.state) ?? "idle",
    failure: rest.error,
    contextTokens,
    embeddingLength,
  };
}
