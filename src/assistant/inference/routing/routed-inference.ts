import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import { getFallbackCode } from "./fallback-codes.ts";
import { describeAlias, joinModels } from "./join-models.ts";
import { isRemoteModel, type ModelRoutes } from "./port.ts";
import { settleModelLists } from "./settle-model-lists.ts";

export interface RoutedInferenceOptions {
  /** Models of this machine. */
  readonly local: InferenceService;
  /** Models of providers: those that are called `remote:<provider>:<model>`. */
  readonly remote: InferenceService;
  /**
   * What a person wrote down, asked anew for each request: a name, and the models that are tried for it. Such a
   * name hides a local model's that is the same.
   */
  readonly aliases: () => ReadonlyMap<string, readonly string[]>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Local and remote models as one service. A name is an alias, else a remote model, else a local one.
 *
 * The models of an alias are tried in their order, each with a request of its own that has its own entry in the
 * ledger. The next one is tried only where the one before has not begun to answer and says that it
 * cannot now (`notNowCode`); the last one's error is the request's. Whatever asks for consent ends the request,
 * so that a text never leaves by another way than the one that was refused.
 */
export class RoutedInference implements InferenceService, ModelRoutes {
  readonly #local: InferenceService;
  readonly #remote: InferenceService;
  readonly #aliases: RoutedInferenceOptions["aliases"];
  readonly #logger: Logger;
  readonly #clock: Clock;

  constructor(options: RoutedInferenceOptions) {
    this.#local = options.local;
    this.#remote = options.remote;
    this.#aliases = options.aliases;
    this.#logger = options.logger;
    this.#clock = options.clock;
  }

  candidates(model: string | undefined): readonly (string | undefined)[] {
    const configured = model === undefined ? undefined : this.#aliases().get(model);
    return configured === undefined || configured.length === 0 ? [model] : configured;
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const { events, first } = await this.#tryCandidates(request.model, signal, async (model) => {
      const all = this.#selectService(model).generate({ ...request, model }, signal);
      const begun = all[Symbol.asyncIterator]();
      return { events: begun, first: await begun.next() };
    });
    try {
      for (let pulled = first; pulled.done !== true; pulled = await events.next()) {
        yield pulled.value;
      }
    } finally {
      await events.return?.();
    }
  }

  embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    return this.#tryCandidates(request.model, signal, (model) =>
      this.#selectService(model).embed({ ...request, model }, signal),
    );
  }

  /** The local ones, the aliases, the remote ones. Rejects with the local side's error where neither answers. */
  async models(): Promise<readonly ModelInfo[]> {
    const { local, remote } = await settleModelLists(
      { local: this.#local.models(), remote: this.#remote.models() },
      this.#clock,
    );
    return joinModels(local, remote, this.#aliases());
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    const configured = this.#aliases().get(name);
    if (configured === undefined) return this.#selectService(name).model(name);
    for (const candidate of configured) {
      const found = await this.#selectService(candidate)
        .model(candidate)
        .catch(() => undefined);
      if (found) return describeAlias(name, found);
    }
    return describeAlias(name, undefined);
  }

  health(): InferenceHealth {
    return this.#local.health();
  }

  #selectService(model: string | undefined): InferenceService {
    return isRemoteModel(model) ? this.#remote : this.#local;
  }

  async #tryCandidates<T>(
    name: string | undefined,
    signal: AbortSignal,
    attempt: (model: string | undefined) => Promise<T>,
  ): Promise<T> {
    const models = this.candidates(name);
    for (const model of models.slice(0, -1)) {
      try {
        return await attempt(model);
      } catch (error) {
        const code = getFallbackCode(error);
        if (code === undefined || signal.aborted) throw error;
        this.#logger.info({ code }, "a model cannot answer now, and the next one is asked");
      }
    }
    return attempt(models.at(-1));
  }
}
