import { TaskGroup } from "../../../base/task-group.ts";
import { waitAtMost } from "../../../base/wait-at-most.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Asker, ModelInfo } from "../../inference/service-port.ts";
import type { Provider } from "../port.ts";
import { Revoked } from "../revocations.ts";
import type { EgressDependencies } from "./egress-dependencies.ts";
import { EgressRequest } from "./egress-request.ts";
import { LinkedAbort } from "./linked-abort.ts";
import type { ConsentRules } from "./port.ts";
import { createProviderErrors } from "./provider-errors.ts";
import { modelsLimits } from "./provider-limits.ts";
import { parseProviderModels, toModelInfo } from "./provider-models.ts";
import { getStatusAfter } from "./provider-status.ts";
import { requireBearer } from "./require-bearer.ts";

const LIST_TTL_MS = 10 * 60_000;
/** The time until a list is requested again from a provider that failed. */
const FAILURE_TTL_MS = 30_000;
/**
 * The longest time that a caller waits for the lists of all providers together, because a user waits for the result.
 */
const WAIT_MS_MAX = 2_000;

/**
 * The time limit for requesting one list, even if its bytes arrive slowly. The list is not requested again before this
 * request has ended.
 */
const LIST_MS_MAX = 30_000;

interface ModelListsDependencies extends EgressDependencies {
  readonly consent: Pick<ConsentRules, "missing">;
}

/** The last list of models that one provider has sent. */
interface KnownList {
  readonly baseUrl: string;
  /** The models in the list. Undefined if the provider has not answered yet, or if the last request failed. */
  models: readonly ModelInfo[] | undefined;
  /** The earliest time of the next request, in milliseconds since the Unix epoch. */
  nextMs: number;
  refresh: Promise<void> | undefined;
}

/**
 * The model lists of all providers. A list is fresh for ten minutes. After that, the old list is returned while it is
 * refreshed in the background.
 */
export class ModelLists implements AsyncDisposable {
  readonly #dependencies: ModelListsDependencies;
  readonly #known = new Map<string, KnownList>();
  readonly #refreshes: TaskGroup;

  constructor(dependencies: ModelListsDependencies) {
    this.#dependencies = dependencies;
    this.#refreshes = new TaskGroup((err) =>
      dependencies.logger.warn({ err }, "a list of models could not be requested"),
    );
  }

  /**
   * Resolves to the models of all usable providers. Waits briefly for each provider whose list is not known yet, and
   * uses the last known list of every other provider. While the user has not allowed sending prompts, no list is
   * requested: any program can ask for the models, and must not make Berth show a provider its key before that.
   */
  async all(asker: Asker | undefined): Promise<readonly ModelInfo[]> {
    const providers = this.#dependencies.providers.usable();
    const mayRequest = this.#dependencies.consent.missing(["prompt"]).length === 0;
    for (const id of this.#known.keys())
      if (!this.#dependencies.providers.find(id)) this.#known.delete(id);
    const lists = providers.map((provider) =>
      mayRequest ? this.#refreshIfDue(provider, asker) : this.#getOrCreate(provider),
    );
    const awaited = lists.flatMap(({ models, refresh }) => (models ? [] : (refresh ?? [])));
    if (awaited.length > 0)
      await waitAtMost(Promise.all(awaited), WAIT_MS_MAX, this.#dependencies.clock);
    return lists.flatMap(({ models }) => models ?? []);
  }

  /** Returns a model as its provider's list describes it. A model that is in no list is assumed to exist. */
  model(provider: Provider, model: string): ModelInfo {
    const assumed = toModelInfo(provider.id, { id: model });
    return this.#getOrCreate(provider).models?.find(({ id }) => id === assumed.id) ?? assumed;
  }

  /** Requests a provider's list of models now. Rejects like `RemoteInference.listModels`. */
  async fetchIds(
    providerId: string,
    signal: AbortSignal,
    asker: Asker | undefined,
  ): Promise<readonly string[]> {
    const provider = this.#dependencies.providers.find(providerId);
    if (!provider)
      throw new AssistantError(
        "not_found",
        `there is no provider ${providerId}: \`berth remote\` lists all providers`,
      );
    const found = await this.#fetch(provider, signal, asker);
    return found.map(({ id }) => id);
  }

  /** Resolves when no request for a list is in progress any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#refreshes[Symbol.asyncDispose]();
  }

  #getOrCreate(provider: Provider): KnownList {
    const known = this.#known.get(provider.id);
    if (known?.baseUrl === provider.baseUrl) return known;
    const { baseUrl } = provider;
    const none: KnownList = { baseUrl, models: undefined, nextMs: 0, refresh: undefined };
    this.#known.set(provider.id, none);
    return none;
  }

  /** Starts to fetch the provider's list of models again if the stored list is old enough. */
  #refreshIfDue(provider: Provider, asker: Asker | undefined): KnownList {
    const list = this.#getOrCreate(provider);
    const isDue = this.#dependencies.clock.now() >= list.nextMs;
    if (list.refresh || !isDue || this.#refreshes.signal.aborted) return list;
    list.refresh = new Promise((resolve) => {
      this.#refreshes.run("list of models", async (signal) => {
        try {
          await this.#fetch(provider, signal, asker);
        } catch (error) {
          signal.throwIfAborted();
          list.models = undefined;
          list.nextMs = this.#dependencies.clock.now() + FAILURE_TTL_MS;
          const { id } = provider;
          this.#dependencies.logger.debug(
            { err: error, provider: id },
            "a provider did not return its list of models",
          );
        } finally {
          list.refresh = undefined;
          resolve();
        }
      });
    });
    return list;
  }

  async #fetch(provider: Provider, caller: AbortSignal, asker: Asker | undefined) {
    const { providers: directory, clock } = this.#dependencies;
    using own = new LinkedAbort(caller);
    const { signal } = own;
    const timeout = listTimeoutError(provider);
    const stop = clock.setTimer(LIST_MS_MAX, () => own.abort(timeout));
    const unsubscribe = directory.onRevoked(provider.id, (error) => own.abort(error));
    try {
      const bearer = await requireBearer(provider, directory, signal);
      // A request for a list contains no data of the user, so it needs no consent.
      const authorization = { provider, classes: [], once: [], asker, signal };
      const call = { kind: "models", model: null, method: "GET", path: "/models" } as const;
      const request = new EgressRequest(this.#dependencies, authorization, {
        ...call,
        bearer,
        limits: modelsLimits,
      });
      const found = await request.readDocument((text, errors) =>
        parseProviderModels(text, errors, bearer),
      );
      signal.throwIfAborted();
      const list = this.#getOrCreate(provider);
      list.models = found.map((model) => toModelInfo(provider.id, model));
      list.nextMs = clock.now() + LIST_TTL_MS;
      return found;
    } catch (error) {
      if (signal.reason instanceof Revoked) throw signal.reason;
      if (error === timeout) directory.noteStatus(provider.id, getStatusAfter(timeout));
      const isMissing = error instanceof AssistantError && error.code === "model_not_found";
      throw isMissing ? noListError(provider) : error;
    } finally {
      stop();
      unsubscribe();
    }
  }
}

function listTimeoutError({ id }: Provider): AssistantError {
  return new AssistantError(
    "timeout",
    `the provider ${id} has not sent its list of models within ${LIST_MS_MAX / 1000} s`,
  );
}

function noListError(provider: Provider): Error {
  return createProviderErrors(provider, undefined).malformedResponse(
    "the answer contains no list of models",
  );
}
