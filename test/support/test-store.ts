import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Kind } from "../../src/resources/kinds.ts";
import type { Resource } from "../../src/resources/resource.ts";
import { openStore, type StoreOptions } from "../../src/store/sqlite-store.ts";
import type { ApplyIntent, Store } from "../../src/store/store.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** A store in its own data directory, with a clock that the test advances. Its disposal removes the directory. */
export interface TestStore extends AsyncDisposable {
  /** The open store; `reopen` replaces it. */
  readonly store: Store;
  readonly dataDir: string;
  readonly clock: VirtualClock;
  /** Closes the store and opens it again, as a restart does. */
  reopen(): Promise<Store>;
}

/** Opens a store. By default, writes are not flushed to the disk (`durability: "off"`). */
export function openTestStore(
  options: Partial<Omit<StoreOptions, "clock">> & { readonly clock?: VirtualClock } = {},
): TestStore {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), "berth-store-"));
  const clock = options.clock ?? new VirtualClock();
  const open = () => openStore({ durability: "off", ...options, dataDir, clock });
  let store = open();
  return {
    get store() {
      return store;
    },
    dataDir,
    clock,
    async reopen() {
      await store[Symbol.asyncDispose]();
      store = open();
      return store;
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Writes a resource as a client of the API does. `more` overrides options of the write, such as `manager`. */
export function applyResource<K extends Kind>(
  store: Store,
  kind: K,
  name: string,
  spec: ApplyIntent<K>["spec"],
  more: Partial<ApplyIntent<K>> = {},
): Resource<K> {
  const actor = { name: "test", scope: "admin" } as const;
  const intent = { kind, name, manager: "api", actor, mode: "replace", spec } as const;
  return store.apply<K>({ ...intent, ...more }).resource;
}
