#!/usr/bin/env node
// npm test: installs, builds, starts a container engine for the tests and runs all of them. Arguments
// go on to vitest: npm test -- --project unit. The last line reads `N passed, N failed`.
//
// BERTH_TEST_DOCKER_HOST: an engine to use in place of a private one.
// Plain Node without dependencies: it runs before anything is installed.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import pinnedNode from "./pinned-node.cjs";

await pinnedNode.ensure();

const { aptInstall, privateEngineInUse, startPrivateEngine, stopPrivateEngine, which } =
  await import("./engine.mjs");
const { ensureBuilt, ensureInstalled, root } = await import("./install.mjs");

const scratch = mkdtempSync(path.join(os.tmpdir(), "berth-tests-"));
const tallyFile = path.join(scratch, "tally.json");
let ownEngine = false;
let child;
let stopped = false;
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"])
  process.on(signal, () => {
    stopped = true;
    child?.kill(signal === "SIGINT" ? "SIGINT" : "SIGTERM");
  });

let code = 1;
try {
  await ensureSystemPackages();
  ensureInstalled();
  ensureBuilt();
  const host = process.env.BERTH_TEST_DOCKER_HOST ?? (await ownHost());
  if (!stopped) code = await vitest(host);
} catch (error) {
  console.error(`error: ${error.message}`);
} finally {
  if (ownEngine && !privateEngineInUse()) await stopPrivateEngine();
}
const { passed, failed } = tally();
if (failed > 0 || passed === 0) code ||= 1;
rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = code;

/** Programs that tests start: an engine, a registry, git and sshd, strace, a session bus, and busybox for images. */
async function ensureSystemPackages() {
  const needed = [
    ["docker-registry", "docker-registry"],
    ["busybox", "busybox-static"],
    ["caddy", "caddy"],
    ["git", "git"],
    ["sshd", "openssh-server"],
    ["ssh", "openssh-client"],
    ["strace", "strace"],
    ["dbus-daemon", "dbus-daemon"],
    ["gdbus", "libglib2.0-bin"],
    ["busctl", "systemd"],
    ["dbus-monitor", "dbus-bin"],
    ["gnome-keyring-daemon", "gnome-keyring"],
    ["python3", "python3"],
  ];
  if (!process.env.BERTH_TEST_DOCKER_HOST)
    needed.push(["dockerd", "docker.io"], ["ip", "iproute2"], ["iptables", "iptables"]);
  const missing = needed.filter(([program]) => !which(program)).map(([, name]) => name);
  if (!existsSync("/usr/lib/python3/dist-packages/gi")) missing.push("python3-gi");
  if (missing.length > 0)
    await aptInstall(
      missing,
      "the tests need a container engine, a registry, git, an ssh server, strace, and a session bus with clients and a keyring",
    );
}

async function ownHost() {
  const { host, started } = await startPrivateEngine();
  ownEngine = started;
  return host;
}

function vitest(host) {
  // Nothing that steers a Berth of this user may reach the ones under test.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(BERTH_(?!TEST_)|DOCKER_)/.test(name)),
  );
  const program = path.join(root, "node_modules", "vitest", "vitest.mjs");
  const reporter = path.join(root, "scripts", "tally-reporter.mjs");
  const reporters = ["--reporter=default", `--reporter=${reporter}`];
  child = spawn(process.execPath, [program, "run", ...reporters, ...process.argv.slice(2)], {
    cwd: root,
    env: { ...env, BERTH_TEST_DOCKER_HOST: host, BERTH_TEST_TALLY: tallyFile },
    stdio: "inherit",
  });
  return new Promise((resolve) => {
    child.once("error", (error) => {
      console.error(`error: ${error.message}`);
      resolve(1);
    });
    child.once("exit", (exitCode) => resolve(exitCode ?? 1));
  });
}

/** Without a tally nothing was run, which is a failure and is counted as one. */
function tally() {
  try {
    return JSON.parse(readFileSync(tallyFile, "utf8"));
  } catch {
    return { passed: 0, failed: 1 };
  }
}
