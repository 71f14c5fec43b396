// Prepares a checkout for running: installs packages and builds sources.
// Plain Node without dependencies: it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import pinnedNode from "./pinned-node.cjs";

export const root = path.resolve(import.meta.dirname, "..");
const modules = path.join(root, "node_modules");
const installStamp = path.join(modules, ".berth-installed");
const buildStamp = path.join(root, "dist", ".built");

/**
 * Installs the packages of the lock file if node_modules is missing or outdated. Throws an error that tells the user
 * how to fix a failure.
 */
export function ensureInstalled() {
  const wanted = lockDigest();
  if (readText(installStamp) === wanted) return;
  if (!upToDateWithoutStamp()) {
    console.error("berth: installing packages (about 240 MB); this takes a minute");
    install();
  }
  writeFileSync(installStamp, wanted);
}

function install() {
  // The build needs the development packages, so this overrides NODE_ENV. Nothing is compiled, so no scripts of
  // packages have to run; npm before version 11 would run all of them.
  const result = npm(
    ["ci", "--include=dev", "--include=optional", "--ignore-scripts", "--no-audit", "--no-fund"],
    { quiet: true },
  );
  if (result.status !== 0)
    throw new Error(`npm could not install the packages:\n${lastLines(result)}`);
}

/** Builds Berth if dist is missing or older than any source. Throws if the build fails. */
export function ensureBuilt() {
  const sources = [
    "src",
    "templates",
    "tsconfig.json",
    "package.json",
    "scripts/build.mjs",
    "scripts/editor-schemas.ts",
  ];
  // The stamp is the time of the newest source before the build. A file that changes during the build is newer, so the
  // next call builds again.
  const newest = Math.max(...sources.map((name) => newestTime(path.join(root, name))));
  const built = Number(readText(buildStamp) ?? 0);
  if (built >= newest && existsSync(path.join(root, "dist", "main.js"))) return;
  console.error("berth: building");
  if (npm(["run", "--silent", "build"]).status !== 0)
    throw new Error("the build failed: see above");
  writeFileSync(buildStamp, String(newest));
}

function npm(args, { quiet = false } = {}) {
  const npm = pinnedNode.npmCommand();
  if (npm === undefined) throw new Error("there is no npm on this machine: install it");
  return spawnSync(npm.command, [...npm.args, ...args], {
    cwd: root,
    env: npm.env,
    // The build prints to standard error, because standard output belongs to the caller.
    stdio: quiet ? ["ignore", "pipe", "pipe"] : ["ignore", 2, 2],
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
}

function lastLines({ error, stdout, stderr }) {
  if (error) return `  ${error.message}`;
  const lines = `${stdout ?? ""}\n${stderr ?? ""}`.trim().split("\n");
  return lines
    .slice(-12)
    .map((line) => `  ${line}`)
    .join("\n");
}

/**
 * Returns a digest of everything that determines the content of node_modules: the lock file and the machine. The
 * version of Node.js has no influence, because compiled packages use Node-API.
 */
function lockDigest() {
  return createHash("sha256")
    .update(readText(path.join(root, "package-lock.json")) ?? "")
    .update(`${process.platform} ${process.arch}`)
    .digest("hex");
}

/**
 * Returns true if Berth's install stamp is missing, but npm's own record of the installation is newer than the lock
 * file: the user ran npm by hand.
 */
function upToDateWithoutStamp() {
  const record = path.join(modules, ".package-lock.json");
  return (
    !existsSync(installStamp) &&
    existsSync(record) &&
    statSync(record).mtimeMs >= statSync(path.join(root, "package-lock.json")).mtimeMs - 1_000
  );
}

function readText(file) {
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/**
 * Returns the time of the newest change of a file or in a folder. Folders are included, because a deletion changes only
 * the time of its folder.
 */
function newestTime(file) {
  const state = statSync(file);
  if (!state.isDirectory()) return state.mtimeMs;
  return Math.max(
    state.mtimeMs,
    ...readdirSync(file).map((name) => newestTime(path.join(file, name))),
  );
}
