import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Clock, delay } from "../../../base/clock.ts";
import { type Logger, silentLogger } from "../../../base/logger.ts";
import type { Caller } from "../../caller.ts";
import { AssistantError } from "../../errors.ts";
import type { EntryValue, Ledger } from "../../ledger/port.ts";
import type { Memory } from "../port.ts";
import { AppKey, KEY_BYTES } from "./app-key.ts";
import { KeyFolder } from "./key-folder.ts";
import {
  APPS_MAX,
  checkApp,
  checkKept,
  checkKey,
  checkValue,
  type Kept,
  tooManyApps,
} from "./memory-bounds.ts";
import { isBusy, keyMissing, memoryFailure } from "./memory-failure.ts";
import { MemoryFile } from "./memory-file.ts";
import { Turns } from "./turns.ts";

export interface AppMemoryOptions {
  /** The companion's state directory, absolute; gets `memory.db` and `memory.keys/`. */
  readonly dir: string;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
}

/** How long a call waits for another program that writes to the database. */
const BUSY_MS_MAX = 5_000;
const BUSY_RETRY_MS = 25;
/** How soon what an overwritten value has left behind is removed, and how often that is tried again. */
const TIDY_MS = 1_000;
const TIDY_MS_MAX = 30_000;
/** Opened between two turns of the loop: about a millisecond's work. */
const OPENED_AT_ONCE = 256;

interface Opened {
  readonly file: MemoryFile;
  readonly keys: KeyFolder;
}

/**
 * What apps keep, sealed with a key for each app. A wipe removes the rows in one transaction, overwrites
 * and removes the key, and cuts the write-ahead log. Where another program reads the database at that
 * time, SQLite has to keep the pages that this reader sees: what is left in them cannot be opened by
 * anything any more, and goes too when the reader ends.
 *
 * An overwritten value is gone from all files a second later, or when the last outside reader of that time
 * ends; at the latest when the daemon ends or starts.
 *
 * Database and keys are opened when first needed, and anew after a failure: a disk that comes back needs no
 * restart. Writes block the loop for as long as SQLite takes: some milliseconds for a value, and a
 * fifth of a second for the wipe of 16 MiB.
 */
export class AppMemory implements Memory, AsyncDisposable {
  readonly #options: AppMemoryOptions;
  readonly #logger: Logger;
  readonly #turns = new Turns();
  readonly #ending = new AbortController();
  readonly #appKeys = new Map<string, AppKey>();
  #opened: Opened | undefined;
  #cancelTidy: (() => void) | undefined;
  #tidyMs = TIDY_MS;

  /** Finishes what an ended daemon left undone. Never throws: calls say what is wrong. */
  constructor(options: AppMemoryOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#tidy();
  }

  get(app: string, key: string, caller: Caller): Promise<string> {
    return this.#turn(app, caller, async () => {
      checkKey(key);
      const value = await this.#use(({ file, keys }) => {
        if (!file.kept(app)) return undefined;
        const appKey = this.#keyOf(app, keys);
        const name = appKey.nameOf(key);
        const sealed = file.get(app, name);
        return sealed && appKey.open(name, sealed).value;
      });
      if (value === undefined)
        throw new AssistantError("not_found", `the memory of ${app} has nothing under this key`, {
          param: "key",
        });
      return value;
    });
  }

  set(app: string, key: string, value: string, caller: Caller): Promise<void> {
    return this.#turn(app, caller, async () => {
      checkKey(key);
      checkValue(value);
      const bytes = Buffer.byteLength(key) + Buffer.byteLength(value);
      const plan = await this.#use((opened) => this.#planned(opened, app, key, bytes));
      await this.#options.ledger.append({
        name: "memory.set",
        fields: { app, caller: entryCaller(caller), bytes: Buffer.byteLength(value) },
        sealed: { key_hmac: plan.appKey.proofOf(key), value_hmac: plan.appKey.proofOf(value) },
      });
      const sealed = plan.appKey.seal({ key, value });
      await this.#use(({ file, keys }) => {
        if (plan.newSecret) {
          checkAppCount(file);
          // One that is there without a row has been wiped, or never used.
          keys.destroy(app);
          keys.write(app, plan.newSecret);
        }
        file.set(app, { name: plan.name, sealed, bytes }, plan.kept);
        this.#appKeys.set(app, plan.appKey);
      });
      if (plan.isOverwritten) this.#tidySoon();
    });
  }

  list(app: string, caller: Caller): Promise<ReadonlyMap<string, string>> {
    return this.#turn(app, caller, async () => {
      const stored = await this.#use(({ file, keys }) =>
        file.kept(app) ? { items: file.list(app), appKey: this.#keyOf(app, keys) } : undefined,
      );
      const values = new Map<string, string>();
      for (const [index, { name, sealed }] of stored?.items.entries() ?? []) {
        if (index % OPENED_AT_ONCE === OPENED_AT_ONCE - 1) await nextTurn();
        const item = stored?.appKey.open(name, sealed);
        if (item) values.set(item.key, item.value);
      }
      return values;
    });
  }

  wipe(app: string, caller: Caller): Promise<void> {
    return this.#turn(app, caller, async () => {
      const kept = await this.#use(({ file }) => file.kept(app));
      await this.#options.ledger.append({
        name: "memory.wipe",
        fields: {
          app,
          caller: entryCaller(caller),
          keys: kept?.keys ?? 0,
          bytes: kept?.bytes ?? 0,
        },
      });
      try {
        await this.#use(({ file, keys }) => {
          file.wipe(app);
          this.#appKeys.delete(app);
          keys.destroy(app);
        });
      } finally {
        // Also where the key's file could not be overwritten: that is tried again until it can be.
        this.#tidy();
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    await this.#turns.settled();
    this.#tidy();
    this.#cancelTidy?.();
    this.#close();
  }

  async #turn<T>(app: string, caller: Caller, work: () => Promise<T>): Promise<T> {
    checkApp(app, caller);
    if (this.#ending.signal.aborted)
      throw new AssistantError("shutting_down", "the assistant is ending; nothing was done");
    try {
      return await this.#turns.take(app, work);
    } catch (error) {
      const failure = memoryFailure(error);
      if (failure.code === "storage_failed")
        this.#logger.error({ err: failure, cause: failure.cause }, "memory cannot be used");
      throw failure;
    }
  }

  /** Where the item goes and what the app keeps with it. Throws what keeps it from being stored. */
  #planned({ file, keys }: Opened, app: string, key: string, bytes: number) {
    const before = file.kept(app);
    const newSecret = before ? undefined : randomBytes(KEY_BYTES);
    if (newSecret) checkAppCount(file);
    const appKey = newSecret ? new AppKey(app, newSecret) : this.#keyOf(app, keys);
    const name = appKey.nameOf(key);
    const old = before && file.bytesOf(app, name);
    const had: Kept = before ?? { keys: 0, bytes: 0 };
    const kept: Kept = {
      keys: had.keys + (old === undefined ? 1 : 0),
      bytes: had.bytes + bytes - (old ?? 0),
    };
    checkKept(app, had, kept);
    return { newSecret, appKey, name, kept, isOverwritten: old !== undefined };
  }

  #keyOf(app: string, keys: KeyFolder): AppKey {
    const known = this.#appKeys.get(app);
    if (known) return known;
    const secret = keys.read(app);
    if (!secret) throw keyMissing(app);
    const appKey = new AppKey(app, secret);
    this.#appKeys.set(app, appKey);
    return appKey;
  }

  /**
   * Does `work`, which has to be safe to do again from its start: while another program writes to the database,
   * it is tried again. After any other failure the files are opened anew.
   */
  async #use<T>(work: (opened: Opened) => T): Promise<T> {
    const { clock } = this.#options;
    for (const deadline = clock.now() + BUSY_MS_MAX; ; ) {
      try {
        return work(this.#open());
      } catch (error) {
        if (!isBusy(error)) {
          if (!(error instanceof AssistantError)) this.#close();
          throw error;
        }
        if (clock.now() >= deadline) throw error;
        await delay(clock, BUSY_RETRY_MS, this.#ending.signal).catch(() => {
          throw error;
        });
      }
    }
  }

  #open(): Opened {
    if (this.#opened) return this.#opened;
    mkdirSync(this.#options.dir, { recursive: true, mode: 0o700 });
    const keys = new KeyFolder(join(this.#options.dir, "memory.keys"));
    this.#opened = { file: new MemoryFile(this.#options.dir), keys };
    return this.#opened;
  }

  #close(): void {
    this.#appKeys.clear();
    this.#opened?.file.close();
    this.#opened = undefined;
  }

  /** Removes keys that nothing is sealed with any more, and cuts the log; later, where that cannot be now. */
  #tidy(): void {
    this.#cancelTidy?.();
    this.#cancelTidy = undefined;
    try {
      const { file, keys } = this.#open();
      const inUse = new Set(file.apps());
      for (const app of keys.apps()) if (!inUse.has(app)) keys.destroy(app);
      if (file.truncateLog()) {
        this.#tidyMs = TIDY_MS;
        return;
      }
    } catch (error) {
      if (!isBusy(error)) {
        const { message, cause } = memoryFailure(error);
        this.#logger.warn({ reason: message, err: cause }, "memory cannot be tidied; will retry");
        this.#close();
      }
    }
    this.#tidySoon();
    this.#tidyMs = Math.min(TIDY_MS_MAX, this.#tidyMs * 2);
  }

  #tidySoon(): void {
    if (this.#cancelTidy || this.#ending.signal.aborted) return;
    this.#cancelTidy = this.#options.clock.setTimer(this.#tidyMs, () => this.#tidy());
  }
}

function checkAppCount(file: MemoryFile): void {
  if (file.appCount() >= APPS_MAX) throw tooManyApps();
}

function entryCaller({ connection, pid, app }: Caller): EntryValue {
  return { connection, pid: pid ?? null, app: app?.id ?? null, app_kind: app?.kind ?? null };
}
