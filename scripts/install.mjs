// Brings a checkout to the point where it can run: packages installed, sources built.
// Plain Node without dependencies: it runs before anything is installed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { aptInstall, isDebianLike, isRoot, which } from "./engine.mjs";

export const root = path.resolve(import.meta.dirname, "..");
const modules = path.join(root, "node_modules");
const installStamp = path.join(modules, ".berth-installed");
const buildStamp = path.join(root, "dist", ".built");

/** Installs what the lock file says when node_modules is missing or of another lock file. Throws with what to do. */
export async function ensureInstalled() {
  const wanted = lockDigest();
  if (readText(installStamp) !== wanted && !upToDateWithoutStamp()) {
    console.error(
      "berth: installing packages; this takes a minute or two, and some more where the database module is compiled",
    );
    install();
  }
  await ensureNativeModule();
  writeFileSync(installStamp, wanted);
}

function install() {
  // Whatever the environment says: the build needs the development packages.
  const flags = ["--include=dev", "--include=optional", "--no-audit", "--no-fund"];
  const clean = npm(["ci", ...flags], { quiet: true });
  if (clean.status === 0) return;
  // npm ci refuses a lock file that leaves out optional packages of other platforms, as a registry
  // that offers none of these makes it. npm install keeps to the versions of the same file.
  const plain = npm(["install", "--no-save", ...flags], { quiet: true });
  if (plain.status === 0) return;
  // A module that could not be compiled is tried again below, with a compiler.
  const withoutScripts = npm(["install", "--no-save", "--ignore-scripts", ...flags], {
    quiet: true,
  });
  if (withoutScripts.status === 0) return;
  throw new Error(`npm could not install the packages:\n${lastLines(withoutScripts)}`);
}

/** Builds when dist is missing or older than any source. Throws when the build fails. */
export function ensureBuilt() {
  const sources = ["src", "tsconfig.json", "package.json", "scripts/post-build.mjs"];
  // What changes while the build runs is newer than this, and built the next time.
  const newest = Math.max(...sources.map((name) => newestTime(path.join(root, name))));
  const built = Number(readText(buildStamp) ?? 0);
  if (built >= newest && existsSync(path.join(root, "dist", "cli", "main.js"))) return;
  console.error("berth: building");
  if (npm(["run", "--silent", "build"]).status !== 0)
    throw new Error("the build failed: see above");
  writeFileSync(buildStamp, String(newest));
}

/**
 * better-sqlite3 is the one package with compiled code that everything needs. Its install script downloads that, or
 * compiles it where the download is not possible, which takes a compiler. (usocket is optional: without a compiler
 * only the companion does not start, and says so.)
 */
async function ensureNativeModule() {
  if (nativeModuleLoads()) return;
  if (!which("g++") || !which("make") || !which("python3"))
    await aptInstall(["g++", "make", "python3"], "the database module has to be compiled");
  console.error("berth: compiling the database module (better-sqlite3)");
  npm(["rebuild", "better-sqlite3"]);
  if (!nativeModuleLoads())
    throw new Error(
      `the database module (better-sqlite3) could not be compiled: see above${
        isDebianLike() && !isRoot() ? "; try: sudo apt-get install g++ make python3" : ""
      }`,
    );
}

function nativeModuleLoads() {
  const check = `new (require("better-sqlite3"))(":memory:").close()`;
  return spawnSync(process.execPath, ["-e", check], { cwd: root, stdio: "ignore" }).status === 0;
}

/** Headers of this Node, where the machine has them, spare node-gyp a download. */
function nodeHeaders() {
  const prefix = path.dirname(path.dirname(process.execPath));
  return existsSync(path.join(prefix, "include", "node", "node.h"))
    ? { npm_config_nodedir: prefix }
    : {};
}

function npm(args, { quiet = false } = {}) {
  const cli = process.env.npm_execpath;
  const own = cli?.endsWith("npm-cli.js") && existsSync(cli);
  return spawnSync(own ? process.execPath : "npm", own ? [cli, ...args] : args, {
    cwd: root,
    env: { ...process.env, ...nodeHeaders() },
    // Standard output belongs to whoever called us.
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

/** What decides what node_modules must hold: the lock file, and the Node that compiled code is for. */
function lockDigest() {
  return createHash("sha256")
    .update(readText(path.join(root, "package-lock.json")) ?? "")
    .update(`${process.versions.modules} ${process.platform} ${process.arch}`)
    .digest("hex");
}

/** Somebody ran npm by hand: npm's own record is newer than the lock file then. */
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

/** The newest change of a file or of anything in a folder; a deletion changes its folder. */
function newestTime(file) {
  const state = statSync(file);
  if (!state.isDirectory()) return state.mtimeMs;
  return Math.max(
    state.mtimeMs,
    ...readdirSync(file).map((name) => newestTime(path.join(file, name))),
  );
}
