#!/usr/bin/env node
// npm run test:nodes -- [VITEST ARGUMENT...]: runs the test projects that use native code on the oldest and on the
// newest supported Node.js. npm installs these two versions into .berth/nodes, because npm ci empties node_modules. The
// last line reads `N passed, N failed`.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import pinnedNode from "./pinned-node.cjs";

const VERSIONS = ["22.14.0", "26.10.0"];
const PROJECTS = ["unit", "integration", "dbus", "ledger", "models", "model", "e2e", "e2e-models"];
const root = path.resolve(import.meta.dirname, "..");
const cache = path.join(root, ".berth", "nodes");

const given = process.argv.slice(2);
const args = given.length > 0 ? given : PROJECTS.flatMap((name) => ["--project", name]);
const total = { passed: 0, failed: 0 };
for (const version of VERSIONS) {
  const node = program(version);
  console.log(`Node.js ${version}`);
  const { stdout, status } = spawnSync(node, [path.join(root, "scripts", "test.mjs"), ...args], {
    cwd: root,
    env: pinnedNode.environmentOf(node),
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
  });
  process.stdout.write(stdout);
  const [, passed = 0, failed = 1] = /^(\d+) passed, (\d+) failed$/m.exec(stdout) ?? [];
  total.passed += Number(passed);
  total.failed += Number(failed);
  if (status !== 0) process.exitCode = 1;
}
console.log(`${total.passed} passed, ${total.failed} failed`);

/** Returns the path of the Node.js executable of this version. Downloads the executable if it is not cached. */
function program(version) {
  const folder = path.join(cache, `${version}-${process.arch}`);
  const node = path.join(folder, "bin", "node");
  if (existsSync(node)) return node;
  mkdirSync(cache, { recursive: true });
  const scratch = mkdtempSync(path.join(cache, ".fetch-"));
  try {
    const npm = pinnedNode.npmCommand();
    if (npm === undefined) throw new Error("there is no npm to fetch Node.js with: install npm");
    const spec = `node-linux-${process.arch}@${version}`;
    run(npm.command, [...npm.args, "pack", spec, "--silent"], { cwd: scratch, env: npm.env });
    const archive = readdirSync(scratch).find((name) => name.endsWith(".tgz"));
    run("tar", ["-xzf", archive], { cwd: scratch });
    renameSync(path.join(scratch, "package"), folder);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return node;
}

function run(command, words, options) {
  const { status, error, stderr } = spawnSync(command, words, { ...options, encoding: "utf8" });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${words.join(" ")} failed: ${stderr.trim()}`);
}
