import { execFile } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { getErrorCode } from "../../../base/errors.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type OpenedPipe, SessionPipe } from "./session-pipe.ts";

const execFileAsync = promisify(execFile);

/**
 * The number of FIFOs that one run of mkfifo creates. The next batch is created in the background when half of them are
 * used.
 */
const BATCH = 32;
/** The time limit for one run of mkfifo, which normally takes milliseconds. */
const MKFIFO_MS_MAX = 10_000;

/**
 * A pool of FIFOs, made in advance. Node has no pipe(), but a FIFO whose name is removed as soon as it has been opened
 * is equivalent to a pipe, and every system has the program mkfifo.
 */
export class FifoPool implements AsyncDisposable {
  readonly #dir: string;
  readonly #names: string[] = [];
  #made = 0;
  #refill: Promise<void> | undefined;
  #isEnded = false;

  /** `dir` becomes the pool's own directory, and existing files in it are removed. */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Opens a FIFO from the pool. Rejects with `storage_failed` if no FIFO can be created. */
  async open(): Promise<OpenedPipe> {
    for (let tries = 2; ; tries -= 1) {
      const path = join(this.#dir, await this.#takeName());
      try {
        return SessionPipe.open(path);
      } catch (error) {
        const isGone = getErrorCode(error) === "ENOENT";
        if (!isGone || tries === 0) throw pipeUnavailableError(error);
        // Another program has removed files from the directory, so the names of the other FIFOs are no longer valid
        // either.
        this.#names.length = 0;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true;
    await this.#refill?.catch(() => {});
    await rm(this.#dir, { recursive: true, force: true });
  }

  async #takeName(): Promise<string> {
    for (;;) {
      const name = this.#names.pop();
      if (this.#names.length < BATCH / 2) {
        const refill = this.#ensureRefill();
        // The caller already has the name of a FIFO, so a failure of mkfifo is ignored here. The next caller for which
        // no FIFO is left starts mkfifo again and gets the error of that run.
        if (name !== undefined) refill.catch(() => {});
        else await refill;
      }
      if (name !== undefined) return name;
    }
  }

  #ensureRefill(): Promise<void> {
    this.#refill ??= this.#makeBatch().finally(() => {
      this.#refill = undefined;
    });
    return this.#refill;
  }

  async #makeBatch(): Promise<void> {
    if (this.#isEnded) throw new AssistantError("shutting_down", "the assistant is shutting down");
    const isFirst = this.#made === 0;
    const names = Array.from({ length: BATCH }, (_, index) => `${this.#made + index}`);
    this.#made += BATCH;
    try {
      if (isFirst) await rm(this.#dir, { recursive: true, force: true });
      await mkdir(this.#dir, { recursive: true, mode: 0o700 });
      await execFileAsync("mkfifo", ["-m", "600", ...names], {
        cwd: this.#dir,
        timeout: MKFIFO_MS_MAX,
      });
      this.#names.push(...names);
    } catch (error) {
      throw pipeUnavailableError(error);
    }
  }
}

function pipeUnavailableError(cause: unknown): AssistantError {
  return new AssistantError(
    "storage_failed",
    "no pipe can be created for a session; check that the program mkfifo is installed, that the runtime directory is writable, and that the limit of open files is not reached",
    { cause },
  );
}
