import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { getErrorMessage } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import { parseManifests } from "../../resources/parse-manifests.ts";
import {
  createFinding,
  type DoctorContext,
  type DoctorFinding,
  systemErrorCode,
} from "./finding.ts";

/**
 * With less free space than FREE_BYTES_FAIL, SQLite and the engine soon fail to write; with less than FREE_BYTES_WARN,
 * the next pull may fail.
 */
const FREE_BYTES_FAIL = 100 * 1024 * 1024;
const FREE_BYTES_WARN = 1024 * 1024 * 1024;
const PROBLEMS_SHOWN_MAX = 5;

export function checkDataDir({ config }: DoctorContext): DoctorFinding[] {
  const name = "data directory";
  const { dataDir } = config;
  if (!existsSync(dataDir)) {
    const parent = nearestExisting(dataDir);
    return isWritable(parent)
      ? [createFinding(name, "ok", `${dataDir} is created at the first start`), checkDisk(parent)]
      : [
          createFinding(
            name,
            "fail",
            `${dataDir} does not exist, and this user may not create it in ${parent}`,
            `sudo install -d -m 700 -o "$USER" ${dataDir}, or choose another with --data-dir`,
          ),
        ];
  }
  const status = statSync(dataDir);
  if (!status.isDirectory())
    return [
      createFinding(name, "fail", `${dataDir} is not a folder`, "choose another with --data-dir"),
    ];
  if (!isWritable(dataDir))
    return [
      createFinding(
        name,
        "fail",
        `this user may not write to ${dataDir}`,
        `run Berth as its owner, or sudo chown -R "$USER" ${dataDir}`,
      ),
    ];
  const mode = status.mode & 0o777;
  const isOpen = (mode & 0o077) !== 0;
  return [
    createFinding(
      name,
      isOpen ? "warn" : "ok",
      `${dataDir}, mode ${mode.toString(8)}${isOpen ? ": other users of this machine can access it" : ""}`,
      isOpen ? `chmod 700 ${dataDir}` : undefined,
    ),
    checkDisk(dataDir),
  ];
}

function checkDisk(path: string): DoctorFinding {
  const disk = statfsSync(path);
  const freeBytes = disk.bavail * disk.bsize;
  const totalBytes = disk.blocks * disk.bsize;
  const text = `${formatBytes(freeBytes)} free of ${formatBytes(totalBytes)} on the disk of ${path}`;
  const fix = "free space: docker image prune, docker builder prune; or move the data directory";
  if (freeBytes < FREE_BYTES_FAIL) return createFinding("disk", "fail", text, fix);
  return freeBytes < FREE_BYTES_WARN
    ? createFinding("disk", "warn", text, fix)
    : createFinding("disk", "ok", text);
}

export function checkSpecs({ config }: DoctorContext): DoctorFinding[] {
  const name = "specs folder";
  const { specsDir } = config;
  let files: string[];
  try {
    files = readdirSync(specsDir, { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(ya?ml|json)$/.test(file))
      .filter((file) => !file.split("/").some((part) => part.startsWith(".")))
      .map((file) => join(specsDir, file))
      .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true);
  } catch (error) {
    return [
      systemErrorCode(error) === "ENOENT"
        ? createFinding(
            name,
            "warn",
            `${specsDir} does not exist`,
            `mkdir -p ${specsDir}, or choose another with --specs-dir`,
          )
        : createFinding(
            name,
            "fail",
            `${specsDir} cannot be read: ${getErrorMessage(error)}`,
            "make it readable for this user",
          ),
    ];
  }
  const problems: string[] = [];
  let count = 0;
  for (const file of files) {
    const shown = relative(specsDir, file);
    try {
      const parsed = parseManifests(readFileSync(file));
      count += parsed.documents.length;
      problems.push(
        ...parsed.errors.map(
          ({ line, column, message }) => `${shown}:${line}:${column}: ${message}`,
        ),
      );
    } catch (error) {
      problems.push(`${shown}: ${getErrorMessage(error)}`);
    }
  }
  const summary = `${specsDir}: ${count} ${count === 1 ? "resource" : "resources"} in ${files.length} ${files.length === 1 ? "file" : "files"}`;
  if (problems.length === 0) return [createFinding(name, "ok", summary)];
  const shown = problems.slice(0, PROBLEMS_SHOWN_MAX);
  if (problems.length > shown.length) shown.push(`and ${problems.length - shown.length} more`);
  return [
    createFinding(
      name,
      "fail",
      [`${summary}, with problems:`, ...shown].join("\n"),
      `fix the files, then run: berth validate -q -f ${specsDir}`,
    ),
  ];
}

function nearestExisting(path: string): string {
  let current = path;
  while (!existsSync(current)) current = dirname(current);
  return current;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
