import { waitAtMost } from "../../../base/wait-at-most.ts";
import { AssistantError } from "../../assistant-error.ts";
import { formatRemoteModelName, parseRemoteModelName } from "../../inference/routing/port.ts";
import { createEmbedEntry, createGenerateEntry } from "../../inference/service/ledger-entries.ts";
import type {
  AnswerEvent,
  Asker,
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

/** The time after which the client receives `accepted`, so that it does not assume a lost connection. */
const ACCEPTED_MS_MAX = 5_000;

export interface RemoteInferenceOptions extends Omit<EgressDependencies, "random"> {
  readonly consent: ConsentRules;
  /** Returns a random number from 0 to 1. Default: Math.random. */
  readonly random?: () => number;
  /** Returns false while the ledger cannot be written. If the option is absent, the ledger is assumed to work. */
  readonly ledgerOk?: () => boolean;
}

/**
 * The models of providers, named `remote:<provider>:<model>`. Before a byte of a request is sent, the user must have
 * allowed every data class in the request, and the request must be in the ledger. Revoking consent ends requests in
 * progress.
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
    this.#lists = new ModelLists({ ...this.#dependencies, consent: this.#consent });
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const { clock } = this.#dependencies;
    const acceptedByMs = clock.now() + ACCEPTED_MS_MAX;
    const { provider, model, name } = this.#parseDestination(request.model);
    using permit = this.#createPermit(provider, request, signal);
    try {
      const wire = buildGenerateBody(request, model);
      const egressRequest = await this.#createRequest(permit, name, wire, generateLimits);
      // A request without a token limit is sent without a limit, and the ledger records none.
      const limited = { ...request, maxTokens: request.maxTokens ?? Number.POSITIVE_INFINITY };
      const ledgerSeq = await egressRequest.appendToLedger(createGenerateEntry(limited, name));
      const events = generateGuided(request, (asked) => {
        if (asked !== request)
          egressRequest.body = this.#createBody(buildGenerateBody(asked, model), name);
        return this.#answer(asked, egressRequest, permit);
      });
      try {
        const first = events.next();
        await waitAtMost(first, Math.max(0, acceptedByMs - clock.now()), clock);
        yield { type: "accepted", model: name, ledgerSeq };
        for (let next = await first; next.done !== true; next = await events.next())
          yield next.value;
      } finally {
        permit.abort();
        await events.return();
      }
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
      const embedded = await egressRequest.readDocument((text, errors) =>
        parseProviderEmbeddings(text, request, errors),
      );
      return { model: name, ledgerSeq, ...embedded };
    } catch (error) {
      throw permit.resolveError(error);
    }
  }

  /**
   * Resolves to the models of all usable providers. A provider that does not answer soon is left out until its list has
   * arrived. No provider is contacted before the user has allowed sending prompts.
   */
  models(asker?: Asker): Promise<readonly ModelInfo[]> {
    return this.#lists.all(asker);
  }

  /** Describes a model without sending a request. A model that is in no list may exist nevertheless. */
  model(name: string): Promise<ModelInfo | undefined> {
    const parsed = parseRemoteModelName(name);
    const provider = parsed && this.#dependencies.providers.find(parsed.provider);
    return Promise.resolve(provider && parsed && this.#lists.model(provider, parsed.model));
  }

  /**
   * Requests the ids of a provider's models now, which needs no consent. Rejects with `not_found` for an unknown
   * provider, and with the errors of the request.
   */
  listModels(providerId: string, signal: AbortSignal, asker?: Asker): Promise<readonly string[]> {
    return this.#lists.fetchIds(providerId, signal, asker);
  }

  async health(): Promise<InferenceHealth> {
    return { engine: "remote", ledgerOk: this.#ledgerOk() };
  }

  /** Waits until the requests for lists of models have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lists[Symbol.asyncDispose]();
  }

  /**
   * Parses the name of a remote model. Throws `model_not_found` if the name is not that of a remote model, or if the
   * provider is unknown.
   */
  #parseDestination(name: string | undefined): Destination {
    const parsed = parseRemoteModelName(name ?? "");
    if (!parsed)
      throw modelNotFoundError(
        `${name ?? "the default model"} is not a model of a provider: those are named ` +
          "remote:<provider>:<model>",
      );
    const provider = this.#dependencies.providers.find(parsed.provider);
    if (!provider)
      throw modelNotFoundError(
        `there is no provider ${parsed.provider}: \`berth remote\` lists all providers;  ` +
          "add one with `berth remote add`",
      );
    return { provider, model: parsed.model, name: formatRemoteModelName(parsed) };
  }

  #createPermit(
    provider: Provider,
    { egress, asker }: WithEgress,
    signal: AbortSignal,
  ): EgressPermit {
    const { providers: directory } = this.#dependencies;
    return new EgressPermit({
      provider,
      egress,
      asker,
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
      const { errors } = egressRequest;
      const reader = new ProviderAnswerReader(asked, errors);
      const { clock } = this.#dependencies;
      yield* readProviderAnswer(answer, { reader, errors, clock, abort: () => own.abort() });
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      // If the caller stopped reading early, the provider did answer, so no failure is reported.
      egressRequest.reportOutcome(permit.signal.aborted ? undefined : failure);
    }
  }
}

type WithEgress = Pick<GenerateRequest, "egress" | "asker">;

interface Destination {
  readonly provider: Provider;
  /** The model's name at the provider. */
  readonly model: string;
  /** The full name of the model, as clients write it in requests. */
  readonly name: string;
}

function modelNotFoundError(message: string): AssistantError {
  return new AssistantError("model_not_found", message, { param: "model" });
}
