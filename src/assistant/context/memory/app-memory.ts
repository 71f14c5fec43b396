import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Clock, delay } from "../../../base/clock.ts";
import { type Logger, silentLogger } from "../../../base/logger.ts";
import { KeyedMutex } from "../../../base/mutex.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Caller } from "../../caller.ts";
import type { EntryValue, Ledger } from "../../ledger/port.ts";
import type { Memory } from "../port.ts";
import { AppKey, KEY_BYTES } from "./app-key.ts";
import { KeyFolder } from "./key-folder.ts";
import {
  APPS_MAX,
  checkApp,
  checkKey,
  checkUsage,
  checkValue,
  type MemoryUsage,
  tooManyApps,
} from "./memory-bounds.ts";
import { isSqliteBusy, keyMissing, toMemoryError } from "./memory-failure.ts";
import { MemoryFile } from "./memory-file.ts";

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
const CLEANUP_DELAY_MS = 1_000;
const CLEANUP_DELAY_MS_MAX = 30_000;
/** Opened between two turns of the loop: about a millisecond's work. */
const UNSEALED_PER_STEP = 256;
/** More calls of one app than these may not wait: it sends faster than a disk can write. */
const PENDING_MAX = 256;

interface OpenFiles {
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
  readonly #mutex = new KeyedMutex();
  readonly #closing = new AbortController();
  readonly #appKeys = new Map<string, AppKey>();
  #files: OpenFiles | undefined;
  #cancelCleanup: (() => void) | undefined;
  #cleanupDelayMs = CLEANUP_DELAY_MS;

  /** Finishes what an ended daemon left undone. Never throws: calls say what is wrong. */
  constructor(options: AppMemoryOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#cleanUp();
  }

  get(app: string, key: string, caller: Caller): Promise<string> {
    return this.#runExclusive(app, caller, async () => {
      checkKey(key);
      const value = await this.#withFiles(({ file, keys }) => {
        if (!file.readUsage(app)) return undefined;
        const appKey = this.#loadAppKey(app, keys);
        const name = appKey.deriveItemName(key);
        const sealed = file.get(app, name);
        return sealed && appKey.unseal(name, sealed).value;
      });
      if (value === undefined)
        throw new AssistantError("not_found", `the memory of ${app} has nothing under this key`, {
          param: "key",
        });
      return value;
    });
  }

  set(app: string, key: string, value: string, caller: Caller): Promise<void> {
    return this.#runExclusive(app, caller, async () => {
      checkKey(key);
      checkValue(value);
      const bytes = Buffer.byteLength(key) + Buffer.byteLength(value);
      const plan = await this.#withFiles((opened) => this.#planWrite(opened, app, key, bytes));
      await this.#options.ledger.append({
        name: "memory.set",
        fields: { app, caller: callerFields(caller), bytes: Buffer.byteLength(value) },
        sealed: {
          key_hmac: plan.appKey.computeLedgerHmac(key),
          value_hmac: plan.appKey.computeLedgerHmac(value),
        },
      });
      const sealed = plan.appKey.seal({ key, value });
      await this.#withFiles(({ file, keys }) => {
        if (plan.newSecret) {
          checkAppCount(file);
          // One that is there without a row has been wiped, or never used.
          keys.destroy(app);
          keys.write(app, plan.newSecret);
        }
        file.set(app, { name: plan.name, sealed, bytes }, plan.kept);
        this.#appKeys.set(app, plan.appKey);
      });
      if (plan.isOverwritten) this.#scheduleCleanup();
    });
  }

  list(app: string, caller: Caller): Promise<ReadonlyMap<string, string>> {
    return this.#runExclusive(app, caller, async () => {
      const stored = await this.#withFiles(({ file, keys }) =>
        file.readUsage(app)
          ? { items: file.list(app), appKey: this.#loadAppKey(app, keys) }
          : undefined,
      );
      const values = new Map<string, string>();
      for (const [index, { name, sealed }] of stored?.items.entries() ?? []) {
        if (index % UNSEALED_PER_STEP === UNSEALED_PER_STEP - 1) await nextTurn();
        const item = stored?.appKey.unseal(name, sealed);
        if (item) values.set(item.key, item.value);
      }
      return values;
    });
  }

  wipe(app: string, caller: Caller): Promise<void> {
    return this.#runExclusive(app, caller, async () => {
      const kept = await this.#withFiles(({ file }) => file.readUsage(app));
      await this.#options.ledger.append({
        name: "memory.wipe",
        fields: {
          app,
          caller: callerFields(caller),
          keys: kept?.keys ?? 0,
          bytes: kept?.bytes ?? 0,
        },
      });
      try {
        await this.#withFiles(({ file, keys }) => {
          file.wipe(app);
          this.#appKeys.delete(app);
          keys.destroy(app);
        });
      } finally {
        // Also where the key's file could not be overwritten: that is tried again until it can be.
        this.#cleanUp();
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    await this.#mutex.waitUntilIdle();
    this.#cleanUp();
    this.#cancelCleanup?.();
    this.#closeFiles();
  }

  async #runExclusive<T>(app: string, caller: Caller, work: () => Promise<T>): Promise<T> {
    checkApp(app, caller);
    if (this.#closing.signal.aborted)
      throw new AssistantError("shutting_down", "the assistant is ending; nothing was done");
    if (this.#mutex.pending(app) >= PENDING_MAX)
      throw new AssistantError(
        "busy",
        `${PENDING_MAX} calls for the memory of ${app} wait already; try again when some have been answered`,
        { retryAfterSeconds: 1 },
      );
    try {
      return await this.#mutex.runExclusive(app, work);
    } catch (error) {
      const failure = toMemoryError(error);
      if (failure.code === "storage_failed")
        this.#logger.error({ err: failure, cause: failure.cause }, "memory cannot be used");
      throw failure;
    }
  }

  /** Where the item goes and what the app keeps with it. Throws what keeps it from being stored. */
  #planWrite({ file, keys }: OpenFiles, app: string, key: string, bytes: number) {
    const before = file.readUsage(app);
    const newSecret = before ? undefined : randomBytes(KEY_BYTES);
    if (newSecret) checkAppCount(file);
    const appKey = newSecret ? new AppKey(app, newSecret) : this.#loadAppKey(app, keys);
    const name = appKey.deriveItemName(key);
    const old = before && file.readItemBytes(app, name);
    const had: MemoryUsage = before ?? { keys: 0, bytes: 0 };
    const kept: MemoryUsage = {
      keys: had.keys + (old === undefined ? 1 : 0),
      bytes: had.bytes + bytes - (old ?? 0),
    };
    checkUsage(app, had, kept);
    return { newSecret, appKey, name, kept, isOverwritten: old !== undefined };
  }

  #loadAppKey(app: string, keys: KeyFolder): AppKey {
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
  async #withFiles<T>(work: (opened: OpenFiles) => T): Promise<T> {
    const { clock } = this.#options;
    for (const deadline = clock.now() + BUSY_MS_MAX; ; ) {
      try {
        return work(this.#openFiles());
      } catch (error) {
        if (!isSqliteBusy(error)) {
          if (!(error instanceof AssistantError)) this.#closeFiles();
          throw error;
        }
        if (clock.now() >= deadline) throw error;
        await delay(clock, BUSY_RETRY_MS, this.#closing.signal).catch(() => {
          throw error;
        });
      }
    }
  }

  #openFiles(): OpenFiles {
    if (this.#files) return this.#files;
    mkdirSync(this.#options.dir, { recursive: true, mode: 0o700 });
    const keys = new KeyFolder(join(this.#options.dir, "memory.keys"));
    this.#files = { file: new MemoryFile(this.#options.dir), keys };
    return this.#files;
  }

  #closeFiles(): void {
    this.#appKeys.clear();
    this.#files?.file.close();
    this.#files = undefined;
  }

  /** Removes keys that nothing is sealed with any more, and cuts the log; later, where that cannot be now. */
  #cleanUp(): void {
    this.#cancelCleanup?.();
    this.#cancelCleanup = undefined;
    try {
      const { file, keys } = this.#openFiles();
      const inUse = new Set(file.listApps());
      for (const app of keys.listApps()) if (!inUse.has(app)) keys.destroy(app);
      if (file.truncateLog()) {
        this.#cleanupDelayMs = CLEANUP_DELAY_MS;
        return;
      }
    } catch (error) {
      if (!isSqliteBusy(error)) {
        const { message, cause } = toMemoryError(error);
        this.#logger.warn({ reason: message, err: cause }, "memory cannot be tidied; will retry");
        this.#closeFiles();
      }
    }
    this.#scheduleCleanup();
    this.#cleanupDelayMs = Math.min(CLEANUP_DELAY_MS_MAX, this.#cleanupDelayMs * 2);
  }

  #scheduleCleanup(): void {
    if (this.#cancelCleanup || this.#closing.signal.aborted) return;
    this.#cancelCleanup = this.#options.clock.setTimer(this.#cleanupDelayMs, () => this.#cleanUp());
  }
}

function checkAppCount(file: MemoryFile): void {
  if (file.countApps() >= APPS_MAX) throw tooManyApps();
}

function callerFields({ connection, pid, app }: Caller): EntryValue {
  return { connection, pid: pid ?? null, app: app?.id ?? null, app_kind: app?.kind ?? null };
}
