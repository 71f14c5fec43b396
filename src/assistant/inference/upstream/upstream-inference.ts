import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
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
import { getStringMember } from "../wire/json-members.ts";
import { readSseData } from "../wire/sse-data.ts";
import { parseUpstreamAddress } from "./upstream-address.ts";
import { UpstreamAnswerReader } from "./upstream-answer-reader.ts";
import { parseUpstreamEmbeddings } from "./upstream-embeddings.ts";
import { connectionLostError, malformedResponseError, upstreamErrors } from "./upstream-errors.ts";
import { type OpenResponse, UpstreamHttpClient } from "./upstream-http-client.ts";
import { parseUpstreamModels } from "./upstream-models.ts";
import { buildEmbedRequest, buildGenerateRequest } from "./upstream-request.ts";

/** A stream that is alive says something every 15 s, and its head comes after 10; this is four times that. */
const STREAM_SILENT_MS_MAX = 60_000;
const METADATA_SILENT_MS_MAX = 10_000;
/** How old what `health` tells of the other side may get. */
const HEALTH_AGE_MS_MAX = 5_000;

/** What the ledger has in place of a model's id where the request leaves the choice to the other side. */
const DEFAULT_MODEL = "default";

export interface UpstreamOptions {
  /** http://127.0.0.1:7777, or another loopback address; see `upstreamAddress`. */
  readonly url: string;
  /** The companion's own. */
  readonly ledger: Ledger;
  /** Whether that one can be appended to. Without it: it is taken to be well. */
  readonly ledgerOk?: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Local models by way of the system instance. Each request is in the companion's own ledger before a
 * byte of it is sent; the system instance then writes its own entry. Errors are those that the system
 * instance tells, `no_model` where it is not there, and `engine_failed` where an answer is cut off: nothing
 * is tried again once it may have been read.
 *
 * Two things differ from a service that has the models itself: `accepted` may take ten seconds, and
 * the logprobs of plain completions have no bytes but those of their text.
 */
export class UpstreamInference implements InferenceService, AsyncDisposable {
  readonly #ledger: Ledger;
  readonly #ledgerOk: () => boolean;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #http: UpstreamHttpClient;
  #engine = "upstream";
  #healthCheckedAtMs = Number.NEGATIVE_INFINITY;
  #healthCheck: Promise<void> = Promise.resolve();

  /** Throws AssistantError `invalid_request` for an address that is none of this machine. */
  constructor(options: UpstreamOptions) {
    this.#ledger = options.ledger;
    this.#ledgerOk = options.ledgerOk ?? (() => true);
    this.#clock = options.clock;
    this.#logger = options.logger;
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
    const { seq: ledgerSeq } = await this.#ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: STREAM_SILENT_MS_MAX } as const;
    const answer = await this.#http.open(call, signal);
    yield* readUpstreamAnswer(answer, new UpstreamAnswerReader(request), ledgerSeq);
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    signal.throwIfAborted();
    const { path, body } = buildEmbedRequest(request);
    const entry = createEmbedEntry(request, request.model ?? DEFAULT_MODEL);
    const { seq: ledgerSeq } = await this.#ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: undefined } as const;
    return {
      ledgerSeq,
      ...parseUpstreamEmbeddings(await this.#http.getJson(call, signal), request),
    };
  }

  /** Rejects with `no_model` where the system instance is not there. */
  async models(): Promise<readonly ModelInfo[]> {
    return parseUpstreamModels(await this.#fetchJson("/v1/models"));
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return (await this.models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  }

  /** The engine is the one that the system instance told last; `upstream` until it has told one. */
  health(): InferenceHealth {
    const now = this.#clock.now();
    if (now - this.#healthCheckedAtMs >= HEALTH_AGE_MS_MAX) {
      this.#healthCheckedAtMs = now;
      this.#healthCheck = this.#refreshHealth();
    }
    return { engine: this.#engine, ledgerOk: this.#ledgerOk() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http[Symbol.dispose]();
    await this.#healthCheck;
  }

  #fetchJson(path: string): Promise<unknown> {
    const call = { method: "GET", path, silentMsMax: METADATA_SILENT_MS_MAX } as const;
    return this.#http.getJson(call, never);
  }

  /** Never rejects. */
  async #refreshHealth(): Promise<void> {
    try {
      this.#engine = getStringMember(await this.#fetchJson("/health"), "engine") ?? this.#engine;
    } catch (error) {
      this.#logger.debug({ err: error }, "the system instance does not tell its health");
    }
  }
}

/** Of calls that are bounded by their own time, and end when this is closed. */
const never = new AbortController().signal;

/** Rejects with what the stream ends with, and `engine_failed` where it ends before its time. */
async function* readUpstreamAnswer(
  answer: OpenResponse,
  reader: UpstreamAnswerReader,
  ledgerSeq: number,
): AsyncGenerator<AnswerEvent, void, void> {
  let isAccepted = false;
  for await (const data of readSseData(readEventStream(answer), upstreamErrors)) {
    const events = reader.read(data);
    if (!isAccepted) yield { type: "accepted", model: reader.model, ledgerSeq };
    isAccepted = true;
    yield* events;
  }
  if (!reader.isDone) throw connectionLostError();
}

/** Only once the body is read, so that it is closed on the way out. */
async function* readEventStream(answer: OpenResponse): AsyncGenerator<Uint8Array, void, void> {
  const isStream = answer.response.headers["content-type"]?.startsWith("text/event-stream");
  for await (const chunk of answer.body()) {
    if (isStream !== true) throw malformedResponseError("an answer that is no stream");
    yield chunk;
  }
}
