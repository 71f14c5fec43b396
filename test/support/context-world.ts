import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, vi } from "vitest";
import type { Caller } from "../../src/assistant/caller.ts";
import type { Memory, SearchHit, SearchRequest } from "../../src/assistant/context/port.ts";
import { Context, type ContextOptions } from "../../src/assistant/context/service.ts";
import { AssistantError } from "../../src/assistant/errors.ts";
import type { Ledger, NewEntry } from "../../src/assistant/ledger/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { PATIENT } from "./patience.ts";

/** A person's own program, and an app that the system confines. */
export const person: Caller = { connection: ":1.1", pid: 100, app: undefined };
export const sandboxed = (id: string): Caller => ({
  connection: ":1.2",
  pid: 101,
  app: { id, kind: "flatpak" },
});

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "berth-context-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes files below a folder, making what is on the way. */
export function writeFiles(
  folder: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

export class KeptLedger implements Ledger {
  readonly entries: NewEntry[] = [];
  isBroken = false;

  append(entry: NewEntry) {
    if (this.isBroken)
      return Promise.reject(new AssistantError("ledger_unavailable", "the disk is full"));
    this.entries.push(entry);
    return Promise.resolve({ seq: this.entries.length - 1, leaf: "0".repeat(64) });
  }
}

const noMemory: Memory = {
  get: () => Promise.reject(new Error("no memory here")),
  set: () => Promise.reject(new Error("no memory here")),
  list: () => Promise.reject(new Error("no memory here")),
  wipe: () => Promise.reject(new Error("no memory here")),
};

export interface ContextWorld {
  readonly context: Context;
  readonly ledger: KeptLedger;
  /** The state directory. */
  readonly dir: string;
  find(
    query: string,
    options?: Partial<SearchRequest>,
    caller?: Caller,
  ): Promise<readonly SearchHit[]>;
  /** Waits until the sources have been looked through. */
  settled(): Promise<void>;
}

/** A context over real folders, with a burst of changes waited for a twentieth of a second. */
export async function openContext(
  options: Partial<ContextOptions> & Pick<ContextOptions, "sources">,
): Promise<ContextWorld> {
  const dir = options.dir ?? temporaryFolder();
  const ledger = new KeptLedger();
  const context = new Context({
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
    find: (query, request = {}, caller = person) =>
      context.search(
        { query, limit: 10, isHybrid: false, scopes: undefined, ...request },
        caller,
        new AbortController().signal,
      ),
  };
}

/** Waits until a search finds these titles, in any order. */
export async function untilFound(
  world: ContextWorld,
  query: string,
  titles: readonly string[],
): Promise<readonly SearchHit[]> {
  return vi.waitFor(
    async () => {
      const hits = await world.find(query);
      expect(hits.map(({ title }) => title).toSorted()).toEqual(titles.toSorted());
      return hits;
    },
    { ...PATIENT, interval: 30 },
  );
}

/** Whether these bytes stand anywhere in the files of a folder. */
export function holds(folder: string, bytes: string): boolean {
  return readdirSync(folder).some((name) => readFileSync(join(folder, name)).includes(bytes));
}
