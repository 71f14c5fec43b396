import type { Clock } from "../../../base/clock.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { ModelInfo } from "../../inference/service-port.ts";
import type { Provider } from "../port.ts";
import { Revoked } from "../revocations.ts";
import type { EgressDependencies } from "./egress-dependencies.ts";
import { EgressRequest } from "./egress-request.ts";
import { LinkedAbort } from "./linked-abort.ts";
import { createProviderErrors } from "./provider-errors.ts";
import { modelsLimits } from "./provider-limits.ts";
import { parseProviderModels, toModelInfo } from "./provider-models.ts";
import { getStatusAfter } from "./provider-status.ts";
import { requireBearer } from "./require-bearer.ts";

const LIST_TTL_MS = 10 * 60_000;
/** A provider that fails is not asked again for so long. */
const FAILURE_TTL_MS = 30_000;
/** For all providers together: a list of models is asked for by people who wait. */
const WAIT_MS_MAX = 2_000;

/** Of one list, however slowly it trickles in: until then nobody asks anew. */
const LIST_MS_MAX = 30_000;

/** What is known of one provider's list. */
interface KnownList {
  readonly baseUrl: string;
  /** Undefined: it has not answered, or not the last time. */
  models: readonly ModelInfo[] | undefined;
  /** Not asked again before then, in milliseconds since the Unix epoch. */
  nextMs: number;
  refresh: Promise<void> | undefined;
}

/** The providers' own lists of models: kept for ten minutes, and then asked for anew beside what is known. */
export class ModelLists implements AsyncDisposable {
  readonly #dependencies: EgressDependencies;
  readonly #known = new Map<string, KnownList>();
  readonly #refreshes: TaskGroup;

  constructor(tools: EgressDependencies) {
    this.#dependencies = tools;
    this.#refreshes = new TaskGroup((err) =>
      tools.logger.warn({ err }, "a list of models could not be asked for"),
    );
  }

  /** Of all that can be used. A provider whose list is not known is waited for a little, others not at all. */
  async all(): Promise<readonly ModelInfo[]> {
    const providers = this.#dependencies.providers.usable();
    for (const id of this.#known.keys())
      if (!this.#dependencies.providers.find(id)) this.#known.delete(id);
    const lists = providers.map((provider) => this.#refreshIfDue(provider));
    const awaited = lists.flatMap(({ models, refresh: looking }) =>
      models ? [] : (looking ?? []),
    );
    if (awaited.length > 0)
      await waitAtMost(Promise.all(awaited), WAIT_MS_MAX, this.#dependencies.clock);
    return lists.flatMap(({ models }) => models ?? []);
  }

  /** As its list tells it; one that is in none is taken to be there. */
  model(provider: Provider, model: string): ModelInfo {
    const wanted = toModelInfo(provider.id, { id: model });
    return this.#getOrCreate(provider).models?.find(({ id }) => id === wanted.id) ?? wanted;
  }

  /** Asked for now; see RemoteInference.listModels. */
  async fetchIds(providerId: string, signal: AbortSignal): Promise<readonly string[]> {
    const provider = this.#dependencies.providers.find(providerId);
    if (!provider)
      throw new AssistantError(
        "not_found",
        `there is no provider ${providerId}: see \`berth remote\` for those that there are`,
      );
    const found = await this.#fetch(provider, signal);
    return found.map(({ id }) => id);
  }

  /** Resolves when no look is under way any more. */
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

  /** Begins to look where it is time to. */
  #refreshIfDue(provider: Provider): KnownList {
    const list = this.#getOrCreate(provider);
    const isDue = this.#dependencies.clock.now() >= list.nextMs;
    if (list.refresh || !isDue || this.#refreshes.signal.aborted) return list;
    list.refresh = new Promise((resolve) => {
      this.#refreshes.run("list of models", async (signal) => {
        try {
          await this.#fetch(provider, signal);
        } catch (error) {
          signal.throwIfAborted();
          list.models = undefined;
          list.nextMs = this.#dependencies.clock.now() + FAILURE_TTL_MS;
          const { id } = provider;
          this.#dependencies.logger.debug(
            { err: error, provider: id },
            "a provider does not list models",
          );
        } finally {
          list.refresh = undefined;
          resolve();
        }
      });
    });
    return list;
  }

  async #fetch(provider: Provider, caller: AbortSignal) {
    const { providers: directory, clock } = this.#dependencies;
    using own = new LinkedAbort(caller);
    const { signal } = own;
    const late = listTimeoutError(provider);
    const stop = clock.setTimer(LIST_MS_MAX, () => own.abort(late));
    const unsubscribe = directory.onRevoked(provider.id, (error) => own.abort(error));
    try {
      const bearer = await requireBearer(provider, directory, signal);
      // A list is asked for with nothing of anybody's in it.
      const authorization = { provider, classes: [], once: [], signal };
      const call = { kind: "models", model: null, method: "GET", path: "/models" } as const;
      const request = new EgressRequest(this.#dependencies, authorization, {
        ...call,
        bearer,
        limits: modelsLimits,
      });
      const found = await request.readDocument((text, words) =>
        parseProviderModels(text, words, bearer),
      );
      signal.throwIfAborted();
      const list = this.#getOrCreate(provider);
      list.models = found.map((model) => toModelInfo(provider.id, model));
      list.nextMs = clock.now() + LIST_TTL_MS;
      return found;
    } catch (error) {
      if (signal.reason instanceof Revoked) throw signal.reason;
      if (error === late) directory.noteStatus(provider.id, getStatusAfter(late));
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
    `the provider ${id} has not told its models within ${LIST_MS_MAX / 1000} s`,
  );
}

function noListError(provider: Provider): AssistantError {
  return createProviderErrors(provider, undefined).malformedResponse("it has no list of models");
}

async function waitAtMost(awaited: Promise<unknown>, limitMs: number, clock: Clock): Promise<void> {
  let cancel: (() => void) | undefined;
  const late = new Promise<void>((resolve) => {
    cancel = clock.setTimer(limitMs, resolve);
  });
  try {
    await Promise.race([awaited, late]);
  } finally {
    cancel?.();
  }
}
