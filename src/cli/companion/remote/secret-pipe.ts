import { execFile } from "node:child_process";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { BerthError } from "../../../base/errors.ts";
import type { Environment } from "../../../base/process-environment.ts";

const run = promisify(execFile);
/** The longest time for mkfifo, which normally takes milliseconds. */
const MKFIFO_MS_MAX = 10_000;

/**
 * Returns the read end of a pipe with the secret, so that the secret is in no file, argument or message. Node has no
 * pipe(), so this uses a FIFO whose name is deleted. Rejects with BerthError `internal`. The caller must close the
 * descriptor.
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
    throw new BerthError("internal", "no pipe can be created for the key", {
      hint: "check that the program mkfifo is installed and that XDG_RUNTIME_DIR is writable",
      cause: error,
    });
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  }
}

/** Writes the secret, which fits into the buffer of a pipe, so that no reader is needed yet. */
function fillPipe(path: string, bytes: Buffer): number {
  // The FIFO is opened for reading and writing, because opening only one end would block until the other one is opened.
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
