import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { BerthError, getErrorCode } from "../../../base/errors.ts";
import { GENERATED_MARK } from "./unit-and-service-files.ts";

export type WriteOutcome = "made" | "changed" | "same";

/** Returns the text of a file, or undefined if it does not exist. */
export async function readFileIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Throws `conflict` if the file exists and was not written by Berth. */
export async function assertNotForeign(file: string): Promise<void> {
  const found = await readFileIfExists(file);
  if (found === undefined || found.startsWith(GENERATED_MARK)) return;
  throw new BerthError("conflict", `${file} already exists and was not written by Berth`, {
    hint: "check the file, move it elsewhere, and try again",
  });
}

/** Writes a file atomically, unless the file has this text already. */
export async function writeOwnedFile(file: string, text: string): Promise<WriteOutcome> {
  const found = await readFileIfExists(file);
  if (found === text) return "same";
  await mkdir(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}.new`;
  await writeFile(draft, text);
  await chmod(draft, 0o644);
  await rename(draft, file);
  return found === undefined ? "made" : "changed";
}

/**
 * Deletes a file that Berth has written. Returns false if there is no such file, or if something else has written it.
 */
export async function removeOwnedFile(file: string): Promise<boolean> {
  const found = await readFileIfExists(file);
  if (found === undefined || !found.startsWith(GENERATED_MARK)) return false;
  await rm(file, { force: true });
  return true;
}
