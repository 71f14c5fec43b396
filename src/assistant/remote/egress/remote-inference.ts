import { announced } from "../../../base/announced.ts";
import { AssistantError } from "../../errors.ts";
import { remoteModelId, remoteModelName } from "../../inference/routing/port.ts";
import { embedEntry, generateEntry } from "../../inference/service/ledger-entries.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  Health,
  InferenceService,
  ModelInfo,
} from "../../inference/service-port.ts";
import type { WireRequest } from "../../inference/wire/request-fields.ts";
import type { Provider } from "../port.ts";
import type { ProviderLimits } from "../provider-http/port.ts";
import { AdaptedBody, LearnedAdaptations } from "./adaptations.ts";
import { answerEvents } from "./answer-events.ts";
import { ProviderAnswerReader } from "./answer-reader.ts";
import { bearerFor } from "./bearer.ts";
import { embedAnswer } from "./embed-answer.ts";
import { guidedAnswer } from "./guided-answer.ts";
import { embedLimits, generateLimits } from "./limits.ts";
import { ModelLists } from "./model-lists.ts";
import { Outgoing } from "./outgoing.ts";
import { OwnAbort } from "./own-abort.ts";
import { Passage } from "./passage.ts";
import type { ConsentRules } from "./port.ts";
import { embedBody, generateBody } from "./request-body.ts";
import type { EgressTools } from "./tools.ts";

/** By then a client hears that its request was taken, so that it does not think the line is dead. */
const ACCEPTED_MS_MAX = 5_000;

export interface RemoteInferenceOptions extends Omit<EgressTools, "random"> {
  readonly consent: ConsentRules;
  /** From 0 to 1; Math.random unless a test says otherwise. */
  readonly random?: () => number;
  /** Whether the ledger can be appended to. Without it: it is taken to be well. */
  readonly ledgerOk?: () => boolean;
}

/**
 * Models of providers, called `remote:<provider>:<model>`. Of each request: may everything that is in it leave,
 * is it in the ledger, and only then a byte of it does. Consent that is taken back ends what is under way.
 */
export class RemoteInference implements InferenceService, AsyncDisposable {
  readonly #tools: EgressTools;
  readonly #consent: ConsentRules;
  readonly #ledgerOk: () => boolean;
  readonly #learned = new LearnedAdaptations();
  readonly #lists: ModelLists;

  constructor(options: RemoteInferenceOptions) {
    this.#tools = { ...options, random: options.random ?? Math.random };
    this.#consent = options.consent;
    this.#ledgerOk = options.ledgerOk ?? (() => true);
    this.#lists = new ModelLists(this.#tools);
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const startedAt = this.#tools.clock.now();
    const { provider, model, name } = this.#destination(request.model);
    using passage = this.#passage(provider, request, signal);
    try {
      const wire = generateBody(request, model);
      const outgoing = await this.#outgoing(passage, name, wire, generateLimits);
      // Where the request has no limit, none is sent.
      const limited = { ...request, maxTokens: request.maxTokens ?? Number.POSITIVE_INFINITY };
      const ledgerSeq = await outgoing.write(generateEntry(limited, name));
      const events = guidedAnswer(request, (asked) => {
        if (asked !== request) outgoing.body = this.#adapted(generateBody(asked, model), name);
        return this.#answer(asked, outgoing, passage);
      });
      const accepted = { type: "accepted", model: name, ledgerSeq } as const;
      const soonest = Math.max(0, ACCEPTED_MS_MAX - (this.#tools.clock.now() - startedAt));
      yield* announced(accepted, events, this.#tools.clock, soonest, passage);
    } catch (error) {
      throw passage.explained(error);
    }
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    const { provider, model, name } = this.#destination(request.model);
    using passage = this.#passage(provider, request, signal);
    try {
      const wire = embedBody(request, model);
      const limits = embedLimits(request.texts.length);
      const outgoing = await this.#outgoing(passage, name, wire, limits);
      const ledgerSeq = await outgoing.write(embedEntry(request, name));
      const embedded = await outgoing.whole((text, words) => embedAnswer(text, request, words));
      return { model: name, ledgerSeq, ...embedded };
    } catch (error) {
      throw passage.explained(error);
    }
  }

  /** Of every provider that can be asked; one that does not answer soon is left out until it has. */
  models(): Promise<readonly ModelInfo[]> {
    return this.#lists.all();
  }

  /** Asks nobody: a model that is in no list yet may be there all the same. */
  model(name: string): Promise<ModelInfo | undefined> {
    const parsed = remoteModelName(name);
    const provider = parsed && this.#tools.book.find(parsed.provider);
    return Promise.resolve(provider && parsed && this.#lists.model(provider, parsed.model));
  }

  /**
   * The ids of a provider's own list, asked for now. `not_found` where there is no such provider; else as a
   * request to it.
   */
  listModels(providerId: string, signal: AbortSignal): Promise<readonly string[]> {
    return this.#lists.live(providerId, signal);
  }

  health(): Health {
    return { engine: "remote", ledgerOk: this.#ledgerOk() };
  }

  /** Looks at lists of models that are under way end. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lists[Symbol.asyncDispose]();
  }

  /** Throws `model_not_found`. */
  #destination(wanted: string | undefined): Destination {
    const parsed = remoteModelName(wanted ?? "");
    if (!parsed)
      throw notFound(
        `${wanted ?? "the default model"} is no model of a provider: those are called ` +
          "remote:<provider>:<model>",
      );
    const provider = this.#tools.book.find(parsed.provider);
    if (!provider)
      throw notFound(
        `there is no provider ${parsed.provider}: see \`berth remote\` for those that there are, ` +
          "or add it with `berth remote add`",
      );
    return { provider, model: parsed.model, name: remoteModelId(parsed) };
  }

  #passage(provider: Provider, { egress }: Requested, signal: AbortSignal): Passage {
    const { book } = this.#tools;
    return new Passage({ provider, egress, consent: this.#consent, book, signal });
  }

  async #outgoing(passage: Passage, name: string, wire: WireRequest, limits: ProviderLimits) {
    const { provider, signal } = passage;
    const bearer = await bearerFor(provider, this.#tools.book, signal);
    const kind = wire.path === "/embeddings" ? "embed" : "generate";
    const call = { kind, model: name, method: "POST", path: wire.path, bearer } as const;
    const body = this.#adapted(wire, name);
    return new Outgoing(this.#tools, passage, { ...call, limits }, body);
  }

  #adapted({ body }: WireRequest, name: string): AdaptedBody {
    return new AdaptedBody(body, this.#learned, name);
  }

  async *#answer(
    asked: GenerateRequest,
    outgoing: Outgoing,
    passage: Passage,
  ): AsyncGenerator<AnswerEvent, void, void> {
    using own = new OwnAbort(passage.signal);
    const answer = await outgoing.open(own.signal);
    let failure: unknown;
    try {
      const { words } = outgoing;
      const reader = new ProviderAnswerReader(asked, words);
      const { clock } = this.#tools;
      yield* answerEvents(answer, { reader, words, clock, leave: () => own.abort() });
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      // Whoever leaves before the end has had an answer.
      outgoing.over(passage.signal.aborted ? undefined : failure);
    }
  }
}

type Requested = Pick<GenerateRequest, "egress">;

interface Destination {
  readonly provider: Provider;
  /** As the provider calls it. */
  readonly model: string;
  /** As a request calls it. */
  readonly name: string;
}

function notFound(message: string): AssistantError {
  return new AssistantError("model_not_found", message, { param: "model" });
}
