import type { AppItem, AppList } from "../resources/wire/apps.ts";
import type { Store } from "../store/store.ts";
import { appItem } from "./views/app.ts";

export interface AppListQuery {
  readonly limit?: number;
  readonly offset?: number;
  readonly status?: AppItem["status"];
  readonly stack?: string;
}

/**
 * The maximum number of cached responses for one state of the store. Each query has its own response, and dashboards
 * repeat a few queries.
 */
const CACHED_RESPONSES_MAX = 64;

/**
 * Caches the serialized app list for each state of the store, so that a poll only compares a sequence number. Every
 * field of an item comes from the store, so the store's sequence number identifies the list. While the store holds
 * a status that it could not write to the disk, the sequence number does not cover that status, so the list is
 * built for each request.
 */
export class AppListCache {
  readonly #store: Pick<Store, "list" | "lastSequence" | "hasUnsavedStatus">;
  readonly #baseDomain: string;
  readonly #responses = new Map<string, Buffer>();
  #items: readonly AppItem[] = [];
  #sequence = -1;

  constructor(
    store: Pick<Store, "list" | "lastSequence" | "hasUnsavedStatus">,
    baseDomain: string,
  ) {
    this.#store = store;
    this.#baseDomain = baseDomain;
  }

  getResponse(query: AppListQuery, serialize: (list: AppList) => string): Buffer {
    const sequence = this.#store.lastSequence;
    if (sequence !== this.#sequence || this.#store.hasUnsavedStatus) {
      this.#items = this.#store.list("App").map((app) => appItem(app, this.#baseDomain));
      this.#responses.clear();
      this.#sequence = sequence;
    }
    const { limit = "", offset = "", status = "", stack = "" } = query;
    const key = `${limit} ${offset} ${status} ${stack}`;
    const known = this.#responses.get(key);
    if (known !== undefined) return known;
    const answer = Buffer.from(serialize(createPage(this.#items, query)));
    if (this.#responses.size >= CACHED_RESPONSES_MAX) this.#responses.clear();
    this.#responses.set(key, answer);
    return answer;
  }
}

function createPage(items: readonly AppItem[], query: AppListQuery): AppList {
  const { limit, offset = 0, status, stack } = query;
  const matching = items.filter(
    (item) =>
      (status === undefined || item.status === status) &&
      (stack === undefined || item.stack === stack),
  );
  const end = limit === undefined ? undefined : offset + limit;
  return { apps: matching.slice(offset, end), total: matching.length };
}
