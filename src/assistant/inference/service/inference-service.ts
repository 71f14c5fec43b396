import type { Clock } from "../../../base/clock.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { waitAtMost } from "../../../base/wait-at-most.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { InferenceEngine, ModelFacts } from "../inference-engine.ts";
import type { KnownModel } from "../models/known-models.ts";
import { toLoadError } from "../models/load-failures.ts";
import type { ModelFactsCache } from "../models/model-facts-cache.ts";
import type { Residency, ResidencyState } from "../models/residency.ts";
import type { EmbeddingResult } from "../runner.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import { type AnswerPlan, AnswerPlanner } from "./answer-plan.ts";
import { generateChoice } from "./generate-choice.ts";
import { createEmbedEntry, createGenerateEntry } from "./ledger-entries.ts";
import { mergeConcurrently } from "./merge-concurrently.ts";
import type { ModelCapacity } from "./model-capacity.ts";

/** After this time the client receives `accepted`, so that it does not assume a lost connection. */
const ACCEPTED_MS_MAX = 5_000;

export interface LocalInferenceServiceOptions {
  readonly engine: InferenceEngine;
  readonly residency: Residency;
  readonly facts: ModelFactsCache;
  readonly planner: AnswerPlanner;
  readonly capacity: ModelCapacity;
  readonly ledger: Ledger;
  readonly ledgerOk: () => boolean;
  /** The number of requests that a model answers concurrently. It applies until the model reports its own number. */
  readonly sequences: number;
  readonly requestTimeoutMs: number;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Runs requests: it selects the model, reserves a place in its queue, plans the answer and writes the ledger entry
 * before the engine receives anything.
 */
export class LocalInferenceService implements InferenceService {
  readonly #options: LocalInferenceServiceOptions;

  constructor(options: LocalInferenceServiceOptions) {
    this.#options = options;
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const { clock, ledger, planner, requestTimeoutMs } = this.#options;
    const acceptedByMs = clock.now() + ACCEPTED_MS_MAX;
    using limit = createTimeLimit(signal, requestTimeoutMs);
    const controller = new AbortController();
    const onEnd = () => controller.abort(limit.signal.reason);
    limit.signal.addEventListener("abort", onEnd, { once: true });
    let releaseSlot: (() => void) | undefined;
    try {
      limit.signal.throwIfAborted();
      const { known, facts } = await this.#resolveGenerator(request);
      releaseSlot = this.#acquireSlot(known);
      const plan = await planner.plan(request, facts, controller.signal);
      const { seq: ledgerSeq } = await ledger.append(createGenerateEntry(request, known.id));
      const events = this.#answer(request, plan, known, controller);
      try {
        const first = events.next();
        await waitAtMost(first, Math.max(0, acceptedByMs - clock.now()), clock);
        yield { type: "accepted", model: known.id, ledgerSeq };
        for (let next = await first; next.done !== true; next = await events.next())
          yield next.value;
      } finally {
        controller.abort();
        await events.return();
      }
    } catch (error) {
      throw this.#explainError(error, signal, limit.signal);
    } finally {
      releaseSlot?.();
      controller.abort();
      limit.signal.removeEventListener("abort", onEnd);
    }
  }

  async #resolveGenerator({ model, prompts }: GenerateRequest) {
    const isChat = prompts.some(({ kind }) => kind === "chat");
    const known = await this.#options.residency.resolve(model, isChat ? "chat" : "generate");
    const facts = await this.#options.residency.facts(known);
    if (facts.kind === "embedding")
      throw new AssistantError(
        "model_unsuitable",
        `model ${known.id} only creates embeddings and cannot generate text; use it with /v1/embeddings`,
        { param: "model" },
      );
    if (facts.kind === "completion" && isChat)
      throw new AssistantError(
        "model_unsuitable",
        `model ${known.id} is not a chat model: its file has no chat template; use /v1/completions, another model, or give it a template (--chat-template, chatTemplate)`,
        { param: "model" },
      );
    return { known, facts };
  }

  async *#answer(
    request: GenerateRequest,
    plan: AnswerPlan,
    known: KnownModel,
    controller: AbortController,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const lease = await this.#options.residency.acquire(
      known,
      { keepAliveMs: request.keepAliveMs },
      controller.signal,
    );
    try {
      const { model } = lease;
      yield* mergeConcurrently(
        request.prompts.length * request.n,
        Math.max(1, model.sequences),
        (choice) =>
          generateChoice({
            request,
            plan,
            model,
            choice,
            random: this.#options.random,
            signal: controller.signal,
          }),
        () => controller.abort(),
      );
    } finally {
      lease.release();
    }
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    using limit = createTimeLimit(signal, this.#options.requestTimeoutMs);
    try {
      const known = await this.#options.residency.resolve(request.model, "embed");
      const releaseSlot = this.#acquireSlot(known);
      try {
        const receipt = await this.#options.ledger.append(createEmbedEntry(request, known.id));
        const embedded = await this.#embed(known, request, limit.signal);
        return { model: known.id, ledgerSeq: receipt.seq, ...embedded };
      } finally {
        releaseSlot();
      }
    } catch (error) {
      throw this.#explainError(error, signal, limit.signal);
    }
  }

  async #embed(
    known: KnownModel,
    request: EmbedRequest,
    signal: AbortSignal,
  ): Promise<EmbeddingResult> {
    const { keepAliveMs, texts, priority } = request;
    const lease = await this.#options.residency.acquire(known, { keepAliveMs }, signal);
    try {
      return await lease.model.embed(texts, { priority }, signal);
    } finally {
      lease.release();
    }
  }

  async models(): Promise<readonly ModelInfo[]> {
    const states = await this.#options.residency.states();
    const standard = await this.#options.residency
      .resolve(undefined, "chat")
      .catch(() => undefined);
    const infos = await Promise.all(states.map((state) => this.#describeModel(state)));
    return infos.toSorted(
      (one, other) => Number(other.id === standard?.id) - Number(one.id === standard?.id),
    );
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return (await this.models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  }

  async health(): Promise<InferenceHealth> {
    const states = await this.#options.residency.states();
    const failedModels = states.flatMap(({ id, state, error, known }) =>
      known.isPinned && state === "failed" && error ? [{ id, message: error.message }] : [],
    );
    return {
      engine: this.#options.engine.name,
      ledgerOk: this.#options.ledgerOk(),
      ...(failedModels.length > 0 && { failedModels }),
    };
  }

  #acquireSlot(known: KnownModel): () => void {
    const resident = this.#options.residency.residentModels.find(({ id }) => id === known.id);
    const places = resident?.sequences ?? known.sequences ?? this.#options.sequences;
    return this.#options.capacity.acquire(known.id, places);
  }

  async #describeModel(state: ResidencyState & { readonly known: KnownModel }): Promise<ModelInfo> {
    const facts: ModelFacts | AssistantError =
      state.model?.facts ??
      (await this.#options.facts
        .get(state.known)
        .catch((error: unknown) => toLoadError(error, state.id)));
    const isReadable = !(facts instanceof AssistantError);
    return {
      id: state.id,
      aliases: state.known.aliases,
      createdSeconds: Math.floor(state.known.modifiedMs / 1000),
      // A file that cannot be read is listed as failed, because the user who put it there will look for it.
      kind: isReadable ? facts.kind : "completion",
      state: isReadable ? stateNames[state.state] : "failed",
      failure: isReadable ? state.error?.message : facts.message,
      contextTokens: state.model?.contextTokens,
      embeddingLength: isReadable ? facts.embeddingLength : undefined,
    };
  }

  /** Turns the abort of the time limit into a `timeout` error; other errors are returned unchanged. */
  #explainError(error: unknown, callers: AbortSignal, limited: AbortSignal): unknown {
    if (!limited.aborted || callers.aborted) return error;
    const seconds = Math.round(this.#options.requestTimeoutMs / 1000);
    return new AssistantError("timeout", `the request took longer than ${seconds} s`, {
      cause: error,
    });
  }
}

const stateNames = {
  unloaded: "idle",
  loading: "loading",
  resident: "resident",
  unloading: "idle",
  failed: "failed",
} as const satisfies Record<ResidencyState["state"], ModelInfo["state"]>;
