import { execFile } from "node:child_process";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { BerthError } from "../../../base/errors.ts";
import type { Environment } from "../../../base/process-environment.ts";

const run = promisify(execFile);
/** A process that makes one name takes milliseconds. */
const MKFIFO_MS_MAX = 10_000;

/**
 * The read end of a pipe that holds the secret and its end, so that it is in no file, argument or message: only in
 * the kernel, until somebody has read it. Node has no pipe(): a FIFO whose name is removed is the same. Rejects with
 * BerthError `internal`. Whoever gets the descriptor closes it.
 */
export async function createSecretPipe(secret: string, environment: Environment): Promise<number> {
  const parent = environment["XDG_RUNTIME_DIR"] || tmpdir();
  let dir: string | undefined;
  try {
    dir = await mkdtemp(join(parent, "berth-key-"));
    const path = join(dir, "key");
    await run("mkfifo", ["-m", "600", path], { timeout: MKFIFO_MS_MAX });
    return fillPipe(path, Buffer.from(secret));
  } catch (error) {
    throw new BerthError("internal", "no pipe can be made to hand the key over", {
      hint: "check that the program mkfifo is there, and that XDG_RUNTIME_DIR can be written",
      cause: error,
    });
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  }
}

/** What is written fits into a pipe, so that nobody has to read it before its end is there. */
function fillPipe(path: string, bytes: Buffer): number {
  // For both: to open one end alone would wait for the other.
  const writeEnd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  let readEnd: number | undefined;
  try {
    readEnd = openSync(path, constants.O_RDONLY);
    if (writeSync(writeEnd, bytes) !== bytes.length) throw new Error("the pipe is too small");
    return readEnd;
  } catch (error) {
    if (readEnd !== undefined) closeSync(readEnd);
    throw error;
  } finally {
    closeSync(writeEnd);
  }
}
