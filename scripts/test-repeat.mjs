#!/usr/bin/env node
// npm run test:repeat -- [RUNS] [VITEST ARGUMENT...]: runs the whole suite until RUNS runs in a row (default: 5) were
// green on this commit, each concurrently with two processes that each keep a core busy. Every run adds a line to
// .berth/test-runs.jsonl, so that an interrupted call can be resumed: runs of the same clean commit count, and a
// failure resets the count.
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";

const BUSY_PROCESSES = 2;
const root = path.resolve(import.meta.dirname, "..");
const record = path.join(root, ".berth", "test-runs.jsonl");
const [first, ...rest] = process.argv.slice(2);
const runs = /^\d+$/.test(first ?? "") ? Number(first) : 5;
const args = runs === Number(first) ? rest : process.argv.slice(2);

const commit = git("rev-parse", "HEAD");
if (git("status", "--porcelain") !== "") {
  console.error("error: the working tree has changes, so a run would not be valid for a commit");
  process.exit(2);
}
mkdirSync(path.dirname(record), { recursive: true });
let green = greenInARow();
while (green < runs) {
  console.log(`run ${green + 1} of ${runs} on ${commit.slice(0, 10)}`);
  const run = await runOnce();
  if (git("rev-parse", "HEAD") !== commit || git("status", "--porcelain") !== "") {
    console.error(
      "error: the working tree changed during the run, so it is not valid for a commit",
    );
    process.exit(2);
  }
  appendFileSync(record, `${JSON.stringify(run)}\n`);
  console.log(`${run.seconds} s: ${run.passed} passed, ${run.failed} failed`);
  if (run.exitCode !== 0) process.exit(1);
  green = greenInARow();
}
console.log(`${green} green runs in a row on ${commit.slice(0, 10)}: ${record}`);

function git(...words) {
  const { status, stdout, stderr } = spawnSync("git", words, { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`git ${words.join(" ")}: ${stderr.trim()}`);
  return stdout.trim();
}

/** Returns the number of successive green runs at the end of the record that have this commit and these arguments. */
function greenInARow() {
  if (!existsSync(record)) return 0;
  const lines = readFileSync(record, "utf8").trim().split("\n").filter(Boolean);
  const same = lines
    .map((line) => JSON.parse(line))
    .filter((run) => run.commit === commit && run.args === args.join(" "));
  const red = same.findLastIndex((run) => run.exitCode !== 0);
  return same.length - 1 - red;
}

async function runOnce() {
  const busy = Array.from({ length: BUSY_PROCESSES }, () =>
    // Each of these processes keeps a core busy. It exits when its parent process id changes, because this process has
    // exited.
    spawn(process.execPath, ["-e", "const of = process.ppid; while (process.ppid === of);"], {
      stdio: "ignore",
    }),
  );
  const started = Date.now();
  try {
    const { exitCode, output } = await test();
    const [, passed = 0, failed = 0] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [];
    return {
      commit,
      args: args.join(" "),
      started: new Date(started).toISOString(),
      seconds: Math.round((Date.now() - started) / 1000),
      node: process.versions.node,
      exitCode,
      passed: Number(passed),
      failed: Number(failed),
    };
  } finally {
    for (const child of busy) child.kill("SIGKILL");
  }
}

/**
 * Runs the tests once. Their output replaces the content of .berth/green-run.log, or of .berth/red-run.log if a test
 * failed.
 */
function test() {
  const child = spawn(process.execPath, [path.join(root, "scripts", "test.mjs"), ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const pieces = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (piece) => {
      pieces.push(piece);
    });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exitCode) => {
      const output = Buffer.concat(pieces).toString();
      const file = path.join(root, ".berth", exitCode === 0 ? "green-run.log" : "red-run.log");
      appendFileSync(file, "", { flag: "w" });
      appendFileSync(file, output);
      resolve({ exitCode, output });
    });
  });
}
