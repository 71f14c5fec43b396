import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";
import type {
  AnswerEvent,
  Asker,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../service-port.ts";
import { describeAlias, joinModels } from "./join-models.ts";
import { isRemoteModel, type ModelRoutes } from "./port.ts";

/**
 * The longest wait for the list of remote models. A client waits for the list, so slow providers are left out of it.
 */
const REMOTE_MS_MAX = 5_000;

export interface RoutedInferenceOptions {
  /** Models of this machine. */
  readonly local: InferenceService;
  /** Models of providers, which are named `remote:<provider>:<model>`. */
  readonly remote: InferenceService;
  /**
   * The user's aliases with the models to try for each, read again for every request. An alias hides a local model of
   * the same name.
   */
  readonly aliases: () => ReadonlyMap<string, readonly string[]>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Local and remote models as one service. A name is looked up as an alias first, then as a remote model, then as a
 * local model.
 *
 * The models of an alias are tried in order, each with its own request and ledger entry. The next model is tried only
 * if the last one failed before its answer began, and with an error that another model may not have
 * (`getFallbackCode`); if the last model fails too, the request fails with the error of that model. Missing consent
 * ends the request, so that the text is not sent to a second provider after the user refused the first one.
 */
export class RoutedInference implements InferenceService, ModelRoutes {
  readonly #options: RoutedInferenceOptions;

  constructor(options: RoutedInferenceOptions) {
    this.#options = options;
  }

  candidates(model: string | undefined): readonly (string | undefined)[] {
    const configured = model === undefined ? undefined : this.#options.aliases().get(model);
    return configured === undefined || configured.length === 0 ? [model] : configured;
  }

  async *generate(
    request: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent, void, void> {
    const { iterator, first } = await this.#tryCandidates(request.model, signal, async (model) => {
      const events = this.#selectService(model).generate({ ...request, model }, signal);
      const candidate = events[Symbol.asyncIterator]();
      return { iterator: candidate, first: await candidate.next() };
    });
    try {
      for (let pulled = first; pulled.done !== true; pulled = await iterator.next()) {
        yield pulled.value;
      }
    } finally {
      await iterator.return?.();
    }
  }

  embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    return this.#tryCandidates(request.model, signal, (model) =>
      this.#selectService(model).embed({ ...request, model }, signal),
    );
  }

  /** Returns local models, aliases and remote models. Rejects with the error of the local list if both lists fail. */
  async models(asker?: Asker): Promise<readonly ModelInfo[]> {
    const { local, remote } = await settleModelLists(
      { local: this.#options.local.models(), remote: this.#options.remote.models(asker) },
      this.#options.clock,
    );
    return joinModels(local, remote, this.#options.aliases());
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    const configured = this.#options.aliases().get(name);
    if (configured === undefined) return this.#selectService(name).model(name);
    for (const candidate of configured) {
      const found = await this.#selectService(candidate)
        .model(candidate)
        .catch(() => undefined);
      if (found) return describeAlias(name, found);
    }
    return describeAlias(name, undefined);
  }

  health(): Promise<InferenceHealth> {
    return this.#options.local.health();
  }

  #selectService(model: string | undefined): InferenceService {
    return isRemoteModel(model) ? this.#options.remote : this.#options.local;
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
        this.#options.logger.info({ code }, "a model cannot answer now; trying the next one");
      }
    }
    return attempt(models.at(-1));
  }
}

type Models = readonly ModelInfo[];

/**
 * Resolves to the list of local models and the list of remote models. A list that cannot be read is empty, and so is
 * the list of remote models if it takes too long. If the local list cannot be read and there is no remote model,
 * rejects with the error of the local list.
 */
async function settleModelLists(
  lists: { readonly local: Promise<Models>; readonly remote: Promise<Models> },
  clock: Clock,
): Promise<{ readonly local: Models; readonly remote: Models }> {
  const [local, remote] = await Promise.allSettled([
    lists.local,
    withTimeLimit(lists.remote, clock),
  ]);
  const remoteModels = remote.status === "fulfilled" ? remote.value : [];
  if (local.status === "fulfilled") return { local: local.value, remote: remoteModels };
  if (remoteModels.length === 0) throw local.reason;
  return { local: [], remote: remoteModels };
}

/** Resolves to the given models, or to an empty list if they are not known after REMOTE_MS_MAX. */
function withTimeLimit(models: Promise<Models>, clock: Clock): Promise<Models> {
  return new Promise((resolve, reject) => {
    const stop = clock.setTimer(REMOTE_MS_MAX, () => resolve([]));
    models.then(resolve, reject).finally(stop);
  });
}

/** Errors of one model that another model may not have. */
const fallbackCodes: ReadonlySet<AssistantErrorCode> = new Set([
  "unreachable",
  "rate_limited",
  "provider_failed",
  "timeout",
  "no_model",
  "model_not_found",
  "model_unusable",
  "insufficient_memory",
  "queue_full",
  "engine_failed",
]);

/**
 * Returns the error's code if the next model of an alias may be tried. Undefined for errors that the next model would
 * have as well: an invalid request, missing consent or settings that the user must fix, and a caller that has aborted.
 */
export function getFallbackCode(error: unknown): AssistantErrorCode | undefined {
  return error instanceof AssistantError && fallbackCodes.has(error.code) ? error.code : undefined;
}
