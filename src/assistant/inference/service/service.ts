import { announced } from "../../../base/announced.ts";
import type { Clock } from "../../../base/clock.ts";
import { timeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../errors.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { Engine, ModelFacts } from "../engine.ts";
import type { KnownModel } from "../models/known-models.ts";
import { asLoadError } from "../models/load-failures.ts";
import type { ModelFactsCache } from "../models/model-facts.ts";
import type { ModelState, Residency } from "../models/residency.ts";
import type { Embedded } from "../runner.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  Health,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import type { Admission } from "./admission.ts";
import { type AnswerPlan, AnswerPlanner } from "./answer-plan.ts";
import { choiceEvents } from "./choice.ts";
import { embedEntry, generateEntry } from "./ledger-entries.ts";
import { sideBySide } from "./side-by-side.ts";

/** By then a client hears that its request was taken, so that it does not think the line is dead. */
const ACCEPTED_MS_MAX = 5_000;

export interface ServiceOptions {
  readonly engine: Engine;
  readonly residency: Residency;
  readonly facts: ModelFactsCache;
  readonly planner: AnswerPlanner;
  readonly admission: Admission;
  readonly ledger: Ledger;
  readonly ledgerOk: () => boolean;
  /** Requests that a model answers side by side before its own number is known. */
  readonly sequences: number;
  readonly requestTimeoutMs: number;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Takes a request from its arrival to its answer: who answers, may it come in, can it be done as asked,
 * is it in the ledger; and only then the engine sees it.
 */
export class Inference implements InferenceService {
  readonly #options: ServiceOptions;

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    using limit = timeLimit(signal, this.#options.requestTimeoutMs);
    const leaving = new AbortController();
    const onEnd = () => leaving.abort(limit.signal.reason);
    limit.signal.addEventListener("abort", onEnd, { once: true });
    try {
      limit.signal.throwIfAborted();
      yield* this.#generate(request, leaving);
    } catch (error) {
      throw this.#explained(error, signal, limit.signal);
    } finally {
      leaving.abort();
      limit.signal.removeEventListener("abort", onEnd);
    }
  }

  async *#generate(
    request: GenerateRequest,
    leaving: AbortController,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const startedAt = this.#options.clock.now();
    const { signal } = leaving;
    const known = await this.#options.residency.resolve(request.model, "generate");
    const facts = await this.#options.residency.facts(known);
    if (facts.kind === "embedding")
      throw new AssistantError(
        "model_unsuitable",
        `model ${known.id} embeds texts and does not generate; use it with /v1/embeddings`,
        { param: "model" },
      );
    const leave = this.#enter(known);
    try {
      const plan = await this.#options.planner.plan(request, facts, signal);
      const receipt = await this.#options.ledger.append(generateEntry(request, known.id));
      const accepted = { type: "accepted", model: known.id, ledgerSeq: receipt.seq } as const;
      const answer = this.#answer(request, plan, known, leaving);
      const soonest = Math.max(0, ACCEPTED_MS_MAX - (this.#options.clock.now() - startedAt));
      yield* announced(accepted, answer, this.#options.clock, soonest, leaving);
    } finally {
      leave();
    }
  }

  async *#answer(
    request: GenerateRequest,
    plan: AnswerPlan,
    known: KnownModel,
    leaving: AbortController,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const lease = await this.#options.residency.acquire(
      known,
      { keepAliveMs: request.keepAliveMs },
      leaving.signal,
    );
    try {
      const { model } = lease;
      yield* sideBySide(
        request.prompts.length * request.n,
        Math.max(1, model.sequences),
        (choice) =>
          choiceEvents({
            request,
            plan,
            model,
            choice,
            random: this.#options.random,
            signal: leaving.signal,
          }),
        () => leaving.abort(),
      );
    } finally {
      lease.release();
    }
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    using limit = timeLimit(signal, this.#options.requestTimeoutMs);
    try {
      const known = await this.#options.residency.resolve(request.model, "embed");
      const leave = this.#enter(known);
      try {
        const receipt = await this.#options.ledger.append(embedEntry(request, known.id));
        const embedded = await this.#embed(known, request, limit.signal);
        return { model: known.id, ledgerSeq: receipt.seq, ...embedded };
      } finally {
        leave();
      }
    } catch (error) {
      throw this.#explained(error, signal, limit.signal);
    }
  }

  async #embed(known: KnownModel, request: EmbedRequest, signal: AbortSignal): Promise<Embedded> {
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
      .resolve(undefined, "generate")
      .catch(() => undefined);
    const infos = await Promise.all(states.map((state) => this.#info(state)));
    return infos.toSorted(
      (one, other) => Number(other.id === standard?.id) - Number(one.id === standard?.id),
    );
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return (await this.models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  }

  health(): Health {
    return { engine: this.#options.engine.name, ledgerOk: this.#options.ledgerOk() };
  }

  #enter(known: KnownModel): () => void {
    const resident = this.#options.residency.residentModels.find(({ id }) => id === known.id);
    const places = resident?.sequences ?? known.sequences ?? this.#options.sequences;
    return this.#options.admission.enter(known.id, places);
  }

  async #info(state: ModelState & { readonly known: KnownModel }): Promise<ModelInfo> {
    const facts: ModelFacts | AssistantError =
      state.model?.facts ??
      (await this.#options.facts
        .of(state.known)
        .catch((error: unknown) => asLoadError(error, state.id)));
    const isReadable = !(facts instanceof AssistantError);
    return {
      id: state.id,
      aliases: state.known.aliases,
      createdSeconds: Math.floor(state.known.modifiedMs / 1000),
      // A file that cannot be read is listed as failed: somebody put it there, and looks for it.
      kind: isReadable ? facts.kind : "completion",
      state: isReadable ? stateNames[state.state] : "failed",
      failure: isReadable ? state.error?.message : facts.message,
      contextTokens: state.model?.contextTokens,
      embeddingLength: isReadable ? facts.embeddingLength : undefined,
    };
  }

  /** A time that ran out, said as such; everything else as it is. */
  #explained(error: unknown, callers: AbortSignal, limited: AbortSignal): unknown {
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
} as const satisfies Record<ModelState["state"], ModelInfo["state"]>;
