import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { BerthError } from "../../../base/errors.ts";
import { GENERATED_MARK } from "./unit-and-service-files.ts";

export type WriteOutcome = "made" | "changed" | "same";

/** The text of a file; undefined where there is none. */
export async function readFileIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Throws `conflict` for a file that is there and is somebody else's. */
export async function assertNotForeign(file: string): Promise<void> {
  const found = await readFileIfExists(file);
  if (found === undefined || found.startsWith(GENERATED_MARK)) return;
  throw new BerthError("conflict", `${file} is there already, and Berth has not written it`, {
    hint: "look at it, move it out of the way, and try again",
  });
}

/** Whole or not at all, so that nobody reads half of it. */
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

/** False: there was none, or it is somebody else's. */
export async function removeOwnedFile(file: string): Promise<boolean> {
  const found = await readFileIfExists(file);
  if (found === undefined || !found.startsWith(GENERATED_MARK)) return false;
  await rm(file, { force: true });
  return true;
}
