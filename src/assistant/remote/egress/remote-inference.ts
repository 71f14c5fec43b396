import { withAcceptedFirst } from "../../../base/accepted-first.ts";
import { AssistantError } from "../../assistant-error.ts";
import { formatRemoteModelName, parseRemoteModelName } from "../../inference/routing/port.ts";
import { createEmbedEntry, createGenerateEntry } from "../../inference/service/ledger-entries.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../../inference/service-port.ts";
import type { WireRequest } from "../../inference/wire/request-fields.ts";
import type { Provider } from "../port.ts";
import type { ProviderLimits } from "../provider-http/port.ts";
import { AdaptedBody, LearnedAdaptations } from "./adaptations.ts";
import type { EgressDependencies } from "./egress-dependencies.ts";
import { EgressPermit } from "./egress-permit.ts";
import { EgressRequest } from "./egress-request.ts";
import { generateGuided } from "./guided-answer.ts";
import { LinkedAbort } from "./linked-abort.ts";
import { ModelLists } from "./model-lists.ts";
import type { ConsentRules } from "./port.ts";
import { ProviderAnswerReader } from "./provider-answer-reader.ts";
import { parseProviderEmbeddings } from "./provider-embeddings.ts";
import { generateLimits, getEmbedLimits } from "./provider-limits.ts";
import { readProviderAnswer } from "./read-provider-answer.ts";
import { buildEmbedBody, buildGenerateBody } from "./request-body.ts";
import { requireBearer } from "./require-bearer.ts";

/** By then a client hears that its request was taken, so that it does not think the line is dead. */
const ACCEPTED_MS_MAX = 5_000;

export interface RemoteInferenceOptions extends Omit<EgressDependencies, "random"> {
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
  readonly #dependencies: EgressDependencies;
  readonly #consent: ConsentRules;
  readonly #ledgerOk: () => boolean;
  readonly #learned = new LearnedAdaptations();
  readonly #lists: ModelLists;

  constructor(options: RemoteInferenceOptions) {
    this.#dependencies = { ...options, random: options.random ?? Math.random };
    this.#consent = options.consent;
    this.#ledgerOk = options.ledgerOk ?? (() => true);
    this.#lists = new ModelLists(this.#dependencies);
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const startedAt = this.#dependencies.clock.now();
    const { provider, model, name } = this.#parseDestination(request.model);
    using permit = this.#createPermit(provider, request, signal);
    try {
      const wire = buildGenerateBody(request, model);
      const egressRequest = await this.#createRequest(permit, name, wire, generateLimits);
      // Where the request has no limit, none is sent.
      const limited = { ...request, maxTokens: request.maxTokens ?? Number.POSITIVE_INFINITY };
      const ledgerSeq = await egressRequest.appendToLedger(createGenerateEntry(limited, name));
      const events = generateGuided(request, (asked) => {
        if (asked !== request)
          egressRequest.body = this.#createBody(buildGenerateBody(asked, model), name);
        return this.#answer(asked, egressRequest, permit);
      });
      const accepted = { type: "accepted", model: name, ledgerSeq } as const;
      const soonest = Math.max(0, ACCEPTED_MS_MAX - (this.#dependencies.clock.now() - startedAt));
      yield* withAcceptedFirst(accepted, events, this.#dependencies.clock, soonest, permit);
    } catch (error) {
      throw permit.resolveError(error);
    }
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    const { provider, model, name } = this.#parseDestination(request.model);
    using permit = this.#createPermit(provider, request, signal);
    try {
      const wire = buildEmbedBody(request, model);
      const limits = getEmbedLimits(request.texts.length);
      const egressRequest = await this.#createRequest(permit, name, wire, limits);
      const ledgerSeq = await egressRequest.appendToLedger(createEmbedEntry(request, name));
      const embedded = await egressRequest.readDocument((text, words) =>
        parseProviderEmbeddings(text, request, words),
      );
      return { model: name, ledgerSeq, ...embedded };
    } catch (error) {
      throw permit.resolveError(error);
    }
  }

  /** Of every provider that can be asked; one that does not answer soon is left out until it has. */
  models(): Promise<readonly ModelInfo[]> {
    return this.#lists.all();
  }

  /** Asks nobody: a model that is in no list yet may be there all the same. */
  model(name: string): Promise<ModelInfo | undefined> {
    const parsed = parseRemoteModelName(name);
    const provider = parsed && this.#dependencies.providers.find(parsed.provider);
    return Promise.resolve(provider && parsed && this.#lists.model(provider, parsed.model));
  }

  /**
   * The ids of a provider's own list, asked for now. `not_found` where there is no such provider; else as a
   * request to it.
   */
  listModels(providerId: string, signal: AbortSignal): Promise<readonly string[]> {
    return this.#lists.fetchIds(providerId, signal);
  }

  health(): InferenceHealth {
    return { engine: "remote", ledgerOk: this.#ledgerOk() };
  }

  /** Looks at lists of models that are under way end. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lists[Symbol.asyncDispose]();
  }

  /** Throws `model_not_found`. */
  #parseDestination(wanted: string | undefined): Destination {
    const parsed = parseRemoteModelName(wanted ?? "");
    if (!parsed)
      throw modelNotFoundError(
        `${wanted ?? "the default model"} is no model of a provider: those are called ` +
          "remote:<provider>:<model>",
      );
    const provider = this.#dependencies.providers.find(parsed.provider);
    if (!provider)
      throw modelNotFoundError(
        `there is no provider ${parsed.provider}: see \`berth remote\` for those that there are, ` +
          "or add it with `berth remote add`",
      );
    return { provider, model: parsed.model, name: formatRemoteModelName(parsed) };
  }

  #createPermit(provider: Provider, { egress }: WithEgress, signal: AbortSignal): EgressPermit {
    const { providers: directory } = this.#dependencies;
    return new EgressPermit({
      provider,
      egress,
      consent: this.#consent,
      providers: directory,
      signal,
    });
  }

  async #createRequest(
    permit: EgressPermit,
    name: string,
    wire: WireRequest,
    limits: ProviderLimits,
  ) {
    const { provider, signal } = permit;
    const bearer = await requireBearer(provider, this.#dependencies.providers, signal);
    const kind = wire.path === "/embeddings" ? "embed" : "generate";
    const call = { kind, model: name, method: "POST", path: wire.path, bearer } as const;
    const body = this.#createBody(wire, name);
    return new EgressRequest(this.#dependencies, permit, { ...call, limits }, body);
  }

  #createBody({ body }: WireRequest, name: string): AdaptedBody {
    return new AdaptedBody(body, this.#learned, name);
  }

  async *#answer(
    asked: GenerateRequest,
    egressRequest: EgressRequest,
    permit: EgressPermit,
  ): AsyncGenerator<AnswerEvent, void, void> {
    using own = new LinkedAbort(permit.signal);
    const answer = await egressRequest.open(own.signal);
    let failure: unknown;
    try {
      const { errors: errors } = egressRequest;
      const reader = new ProviderAnswerReader(asked, errors);
      const { clock } = this.#dependencies;
      yield* readProviderAnswer(answer, {
        reader,
        errors: errors,
        clock,
        abort: () => own.abort(),
      });
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      // Whoever leaves before the end has had an answer.
      egressRequest.reportOutcome(permit.signal.aborted ? undefined : failure);
    }
  }
}

type WithEgress = Pick<GenerateRequest, "egress">;

interface Destination {
  readonly provider: Provider;
  /** As the provider calls it. */
  readonly model: string;
  /** As a request calls it. */
  readonly name: string;
}

function modelNotFoundError(message: string): AssistantError {
  return new AssistantError("model_not_found", message, { param: "model" });
}
