import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger } from "../../ledger/port.ts";
import { embedEntry, generateEntry } from "../service/ledger-entries.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  Health,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import { eventData } from "../wire/event-data.ts";
import { textMember } from "../wire/wire-value.ts";
import { AnswerReader } from "./answer-reader.ts";
import { upstreamEmbeddings } from "./embed-answer.ts";
import { HttpCalls, type OpenAnswer } from "./http-calls.ts";
import { modelsOf } from "./models-answer.ts";
import { upstreamAddress } from "./upstream-address.ts";
import { cutOff, notUnderstood, upstreamWords } from "./wire-error.ts";
import { embedRequest, generateRequest } from "./wire-request.ts";

/** A stream that is alive says something every 15 s, and its head comes after 10; this is four times that. */
const STREAM_SILENT_MS_MAX = 60_000;
const LOOK_SILENT_MS_MAX = 10_000;
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
  readonly #calls: HttpCalls;
  #engine = "upstream";
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> = Promise.resolve();

  /** Throws AssistantError `invalid_request` for an address that is none of this machine. */
  constructor(options: UpstreamOptions) {
    this.#ledger = options.ledger;
    this.#ledgerOk = options.ledgerOk ?? (() => true);
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#calls = new HttpCalls({ url: upstreamAddress(options.url), clock: options.clock });
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    signal.throwIfAborted();
    const { path, body } = generateRequest(request);
    const entry = generateEntry(request, request.model ?? DEFAULT_MODEL);
    const { seq: ledgerSeq } = await this.#ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: STREAM_SILENT_MS_MAX } as const;
    const answer = await this.#calls.open(call, signal);
    yield* answerEvents(answer, new AnswerReader(request), ledgerSeq);
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    signal.throwIfAborted();
    const { path, body } = embedRequest(request);
    const entry = embedEntry(request, request.model ?? DEFAULT_MODEL);
    const { seq: ledgerSeq } = await this.#ledger.append(entry);
    const call = { method: "POST", path, body, silentMsMax: undefined } as const;
    return { ledgerSeq, ...upstreamEmbeddings(await this.#calls.json(call, signal), request) };
  }

  /** Rejects with `no_model` where the system instance is not there. */
  async models(): Promise<readonly ModelInfo[]> {
    return modelsOf(await this.#look("/v1/models"));
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return (await this.models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  }

  /** The engine is the one that the system instance told last; `upstream` until it has told one. */
  health(): Health {
    const now = this.#clock.now();
    if (now - this.#lookedAtMs >= HEALTH_AGE_MS_MAX) {
      this.#lookedAtMs = now;
      this.#looking = this.#lookAtHealth();
    }
    return { engine: this.#engine, ledgerOk: this.#ledgerOk() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#calls[Symbol.dispose]();
    await this.#looking;
  }

  #look(path: string): Promise<unknown> {
    const call = { method: "GET", path, silentMsMax: LOOK_SILENT_MS_MAX } as const;
    return this.#calls.json(call, never);
  }

  /** Never rejects. */
  async #lookAtHealth(): Promise<void> {
    try {
      this.#engine = textMember(await this.#look("/health"), "engine") ?? this.#engine;
    } catch (error) {
      this.#logger.debug({ err: error }, "the system instance does not tell its health");
    }
  }
}

/** Of calls that are bounded by their own time, and end when this is closed. */
const never = new AbortController().signal;

/** Rejects with what the stream ends with, and `engine_failed` where it ends before its time. */
async function* answerEvents(
  answer: OpenAnswer,
  reader: AnswerReader,
  ledgerSeq: number,
): AsyncGenerator<AnswerEvent, void, void> {
  let isAccepted = false;
  for await (const data of eventData(streamOf(answer), upstreamWords)) {
    const events = reader.read(data);
    if (!isAccepted) yield { type: "accepted", model: reader.model, ledgerSeq };
    isAccepted = true;
    yield* events;
  }
  if (!reader.isDone) throw cutOff();
}

/** Only once the body is read, so that it is closed on the way out. */
async function* streamOf(answer: OpenAnswer): AsyncGenerator<Uint8Array, void, void> {
  const isStream = answer.response.headers["content-type"]?.startsWith("text/event-stream");
  for await (const chunk of answer.body()) {
    if (isStream !== true) throw notUnderstood("an answer that is no stream");
    yield chunk;
  }
}
