import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type BackoffOptions, backoffMs } from "../../../base/backoff.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import { type Logger, silentLogger } from "../../../base/logger.ts";
import { KeyedMutex } from "../../../base/mutex.ts";
import { SECRET_BYTES } from "../../../base/sealing-key.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { EntryValue, Ledger } from "../../ledger/port.ts";
import type { AppMemoryUsage, Memory } from "../port.ts";
import { AppKey } from "./app-key.ts";
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
  /** The absolute path of the companion's state directory, which contains `memory.db` and `memory.keys/`. */
  readonly dir: string;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
}

/** The longest time that a call waits for another program that writes to the database. */
const BUSY_MS_MAX = 5_000;
const BUSY_RETRY_MS = 25;
/** The delay before the remains of an overwritten value are removed from the files, and the back-off if that fails. */
const cleanupBackoff: BackoffOptions = { firstMs: 1_000, maxMs: 30_000 };
/** The number of values that are decrypted between two turns of the event loop, in about a millisecond. */
const UNSEALED_PER_STEP = 256;
/** The maximum number of waiting calls of one app. */
const PENDING_MAX = 256;

interface OpenFiles {
  readonly file: MemoryFile;
  readonly keys: KeyFolder;
}

/**
 * The memory of apps, encrypted with one key for each app. A wipe deletes the rows in one transaction, overwrites and
 * deletes the key, and truncates the write-ahead log. If another program reads the database at that time, SQLite
 * keeps the pages that this reader sees; they cannot be decrypted any more, and are removed when the reader ends.
 *
 * An overwritten value is removed from all files one second later, or when the last outside program that reads at
 * that time has ended; at the latest when the daemon ends or starts.
 *
 * The files are opened on first use, and again after a failure, so that no restart is needed. Writes block the event
 * loop: a few milliseconds for a value, and 0.2 s for the wipe of 16 MiB.
 */
export class AppMemory implements Memory, AsyncDisposable {
  readonly #options: AppMemoryOptions;
  readonly #logger: Logger;
  readonly #mutex = new KeyedMutex();
  readonly #closing = new AbortController();
  readonly #appKeys = new Map<string, AppKey>();
  #files: OpenFiles | undefined;
  #cancelCleanup: (() => void) | undefined;
  /** The number of consecutive cleanups that failed. */
  #cleanupFailures = 0;

  /**
   * Opens the memory, and removes what an earlier daemon has left behind. Never throws, because each call reports its
   * own errors.
   */
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
        throw new AssistantError("not_found", `the memory of ${app} has no such key`, {
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
          // A key of an app without items was left over from a wipe or never used, so a new key replaces it.
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

  apps(caller: Caller): Promise<readonly AppMemoryUsage[]> {
    return this.#withMemoryErrors(async () => {
      const own = sandboxedApp(caller);
      const apps = await this.#withFiles(({ file }) => file.listUsage());
      return own === undefined ? apps : apps.filter(({ app }) => app === own);
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
        // The cleanup also runs after a failure to overwrite the key's file, and is retried until it succeeds.
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
    return this.#withMemoryErrors(() => {
      if (this.#mutex.pending(app) >= PENDING_MAX)
        throw new AssistantError(
          "busy",
          `${PENDING_MAX} calls for the memory of ${app} are waiting; try again later`,
          { retryAfterSeconds: 1 },
        );
      return this.#mutex.runExclusive(app, work);
    });
  }

  /** Runs `work` unless the memory is closing. Turns errors of the files into errors for callers, and logs them. */
  async #withMemoryErrors<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing.signal.aborted)
      throw new AssistantError("shutting_down", "the assistant is shutting down; nothing was done");
    try {
      return await work();
    } catch (error) {
      const failure = toMemoryError(error);
      if (failure.code === "storage_failed")
        this.#logger.error({ err: failure, cause: failure.cause }, "memory cannot be used");
      throw failure;
    }
  }

  /**
   * Computes the name of the item in the database and the new usage of the app. Throws if the item cannot be stored.
   */
  #planWrite({ file, keys }: OpenFiles, app: string, key: string, bytes: number) {
    const before = file.readUsage(app);
    const newSecret = before ? undefined : randomBytes(SECRET_BYTES);
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
   * Runs `work` with the open files, and repeats it while another program writes to the database. So `work` must be
   * safe to repeat. After any other failure the files are opened again.
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

  /** Deletes unused keys and truncates the write-ahead log. After a failure, the cleanup is retried later. */
  #cleanUp(): void {
    this.#cancelCleanup?.();
    this.#cancelCleanup = undefined;
    try {
      const { file, keys } = this.#openFiles();
      const inUse = new Set(file.listApps());
      for (const app of keys.listApps()) if (!inUse.has(app)) keys.destroy(app);
      if (file.truncateLog()) {
        this.#cleanupFailures = 0;
        return;
      }
    } catch (error) {
      if (!isSqliteBusy(error)) {
        const { message, cause } = toMemoryError(error);
        this.#logger.warn(
          { reason: message, err: cause },
          "traces of overwritten memory cannot be removed; will retry",
        );
        this.#closeFiles();
      }
    }
    this.#scheduleCleanup();
    this.#cleanupFailures += 1;
  }

  #scheduleCleanup(): void {
    if (this.#cancelCleanup || this.#closing.signal.aborted) return;
    const delayMs = backoffMs(this.#cleanupFailures, cleanupBackoff);
    this.#cancelCleanup = this.#options.clock.setTimer(delayMs, () => this.#cleanUp());
  }
}

function checkAppCount(file: MemoryFile): void {
  if (file.countApps() >= APPS_MAX) throw tooManyApps();
}

function callerFields({ connection, pid, app }: Caller): EntryValue {
  return { connection, pid, app: app?.id ?? null, app_kind: app?.kind ?? null };
}
