import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, vi } from "vitest";
import type { Caller } from "../../src/assistant/caller.ts";
import {
  type ContextServiceOptions,
  IndexedContextService,
} from "../../src/assistant/context/context-service.ts";
import type { Memory, SearchHit, SearchRequest } from "../../src/assistant/context/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { WAIT_OPTIONS } from "./wait-limits.ts";

/** A caller without a sandbox. The caller that other tests use is a Flatpak app. */
export const unconfinedCaller: Caller = { connection: ":1.1", pid: 100, app: undefined };
export const sandboxedCaller = (id: string): Caller => ({
  connection: ":1.2",
  pid: 101,
  app: { id, kind: "flatpak" },
});

/** Writes files below a folder and creates missing parent folders. */
export function writeFiles(
  folder: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

const noMemory: Memory = {
  get: () => Promise.reject(new Error("no memory here")),
  set: () => Promise.reject(new Error("no memory here")),
  list: () => Promise.reject(new Error("no memory here")),
  apps: () => Promise.reject(new Error("no memory here")),
  wipe: () => Promise.reject(new Error("no memory here")),
};

export interface ContextHarness {
  readonly context: IndexedContextService;
  readonly ledger: FakeLedger;
  /** The folder of the service's state. */
  readonly dir: string;
  find(
    query: string,
    options?: Partial<SearchRequest>,
    caller?: Caller,
  ): Promise<readonly SearchHit[]>;
  /** Waits until all sources have been indexed. */
  settled(): Promise<void>;
}

/** Opens a context service with real folders. The service debounces changes for 50 ms. */
export async function openContext(
  options: Partial<ContextServiceOptions> & Pick<ContextServiceOptions, "sources">,
): Promise<ContextHarness> {
  const dir = options.dir ?? temporaryFolder("context");
  const ledger = new FakeLedger();
  const context = new IndexedContextService({
    embedder: undefined,
    memory: noMemory,
    ledger,
    clock: systemClock,
    logger: silentLogger,
    timing: { debounceMs: 50 },
    ...options,
    dir,
  });
  onTestFinished(() => context[Symbol.asyncDispose]());
  const settled = () =>
    vi.waitFor(() => expect(context.indexState().state).not.toBe("indexing"), {
      timeout: 20_000,
      interval: 20,
    });
  await settled();
  return {
    context,
    ledger,
    dir,
    settled,
    find: (query, request = {}, caller = unconfinedCaller) =>
      context.search(
        { query, limit: 10, isHybrid: false, scopes: undefined, ...request },
        caller,
        new AbortController().signal,
      ),
  };
}

/** Waits until a search finds these titles, in any order. */
export async function waitUntilFound(
  harness: ContextHarness,
  query: string,
  titles: readonly string[],
): Promise<readonly SearchHit[]> {
  return vi.waitFor(
    async () => {
      const hits = await harness.find(query);
      expect(hits.map(({ title }) => title).toSorted()).toEqual(titles.toSorted());
      return hits;
    },
    { ...WAIT_OPTIONS, interval: 30 },
  );
}

/** Returns true if a file directly in the folder contains these bytes. */
export function containsBytes(folder: string, bytes: string): boolean {
  return readdirSync(folder).some((name) => readFileSync(join(folder, name)).includes(bytes));
}
