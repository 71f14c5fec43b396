import type { Clock } from "../../../base/clock.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../errors.ts";
import type { ModelInfo } from "../../inference/service-port.ts";
import type { Provider } from "../port.ts";
import { Withdrawn } from "../withdrawals.ts";
import { bearerFor } from "./bearer.ts";
import { modelsLimits } from "./limits.ts";
import { listedModels, modelInfo } from "./models-answer.ts";
import { Outgoing } from "./outgoing.ts";
import { OwnAbort } from "./own-abort.ts";
import { providerWords } from "./provider-words.ts";
import { statusAfter } from "./status-after.ts";
import type { EgressTools } from "./tools.ts";

const FRESH_MS = 10 * 60_000;
/** A provider that fails is not asked again for so long. */
const FAILED_MS = 30_000;
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
  looking: Promise<void> | undefined;
}

/** The providers' own lists of models: kept for ten minutes, and then asked for anew beside what is known. */
export class ModelLists implements AsyncDisposable {
  readonly #tools: EgressTools;
  readonly #known = new Map<string, KnownList>();
  readonly #looks: TaskGroup;

  constructor(tools: EgressTools) {
    this.#tools = tools;
    this.#looks = new TaskGroup((err) =>
      tools.logger.warn({ err }, "a list of models could not be asked for"),
    );
  }

  /** Of all that can be used. A provider whose list is not known is waited for a little, others not at all. */
  async all(): Promise<readonly ModelInfo[]> {
    const providers = this.#tools.book.usable();
    for (const id of this.#known.keys()) if (!this.#tools.book.find(id)) this.#known.delete(id);
    const lists = providers.map((provider) => this.#freshened(provider));
    const awaited = lists.flatMap(({ models, looking }) => (models ? [] : (looking ?? [])));
    if (awaited.length > 0) await within(Promise.all(awaited), WAIT_MS_MAX, this.#tools.clock);
    return lists.flatMap(({ models }) => models ?? []);
  }

  /** As its list tells it; one that is in none is taken to be there. */
  model(provider: Provider, model: string): ModelInfo {
    const wanted = modelInfo(provider.id, { id: model });
    return this.#of(provider).models?.find(({ id }) => id === wanted.id) ?? wanted;
  }

  /** Asked for now; see RemoteInference.listModels. */
  async live(providerId: string, signal: AbortSignal): Promise<readonly string[]> {
    const provider = this.#tools.book.find(providerId);
    if (!provider)
      throw new AssistantError(
        "not_found",
        `there is no provider ${providerId}: see \`berth remote\` for those that there are`,
      );
    const found = await this.#ask(provider, signal);
    return found.map(({ id }) => id);
  }

  /** Resolves when no look is under way any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#looks[Symbol.asyncDispose]();
  }

  #of(provider: Provider): KnownList {
    const known = this.#known.get(provider.id);
    if (known?.baseUrl === provider.baseUrl) return known;
    const { baseUrl } = provider;
    const none: KnownList = { baseUrl, models: undefined, nextMs: 0, looking: undefined };
    this.#known.set(provider.id, none);
    return none;
  }

  /** Begins to look where it is time to. */
  #freshened(provider: Provider): KnownList {
    const list = this.#of(provider);
    const isDue = this.#tools.clock.now() >= list.nextMs;
    if (list.looking || !isDue || this.#looks.signal.aborted) return list;
    list.looking = new Promise((resolve) => {
      this.#looks.run("list of models", async (signal) => {
        try {
          await this.#ask(provider, signal);
        } catch (error) {
          signal.throwIfAborted();
          list.models = undefined;
          list.nextMs = this.#tools.clock.now() + FAILED_MS;
          const { id } = provider;
          this.#tools.logger.debug({ err: error, provider: id }, "a provider does not list models");
        } finally {
          list.looking = undefined;
          resolve();
        }
      });
    });
    return list;
  }

  async #ask(provider: Provider, caller: AbortSignal) {
    const { book, clock } = this.#tools;
    using own = new OwnAbort(caller);
    const { signal } = own;
    const late = tooLong(provider);
    const stop = clock.setTimer(LIST_MS_MAX, () => own.abort(late));
    const stay = book.onWithdrawn(provider.id, (error) => own.abort(error));
    try {
      const bearer = await bearerFor(provider, book, signal);
      // A list is asked for with nothing of anybody's in it.
      const leave = { provider, classes: [], once: [], signal };
      const call = { kind: "models", model: null, method: "GET", path: "/models" } as const;
      const outgoing = new Outgoing(this.#tools, leave, { ...call, bearer, limits: modelsLimits });
      const found = await outgoing.whole((text, words) => listedModels(text, words, bearer));
      signal.throwIfAborted();
      const list = this.#of(provider);
      list.models = found.map((model) => modelInfo(provider.id, model));
      list.nextMs = clock.now() + FRESH_MS;
      return found;
    } catch (error) {
      if (signal.reason instanceof Withdrawn) throw signal.reason;
      if (error === late) book.noteStatus(provider.id, statusAfter(late));
      const isMissing = error instanceof AssistantError && error.code === "model_not_found";
      throw isMissing ? withoutList(provider) : error;
    } finally {
      stop();
      stay();
    }
  }
}

function tooLong({ id }: Provider): AssistantError {
  return new AssistantError(
    "timeout",
    `the provider ${id} has not told its models within ${LIST_MS_MAX / 1000} s`,
  );
}

function withoutList(provider: Provider): AssistantError {
  return providerWords(provider, undefined).notUnderstood("it has no list of models");
}

async function within(awaited: Promise<unknown>, limitMs: number, clock: Clock): Promise<void> {
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
