#!/usr/bin/env node
// Container engines for development: finds one, installs it, starts a private one and stops it.
//
// Usage: `node scripts/engine.mjs start|stop|status` controls the private engine of the tests.
//
// This script uses plain Node without dependencies, because it runs before anything is installed.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, open, readFile, rm, stat, unlink, writeFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const DEFAULT_SOCKET = "/var/run/docker.sock";
/** A dockerd with an empty data root starts within a few seconds, but a slow disk can delay the start. */
const START_LIMIT_MS = 90_000;
const STOP_LIMIT_MS = 40_000;

/**
 * Settings of an engine that runs in addition to the machine's own engine: its own bridge and address range, and no
 * control of the firewall. A second dockerd that manages the firewall would flush the rules of the first, and one
 * without its own bridge would delete docker0.
 * @typedef {{ bridge: string, bridgeAddress: string, range: string, pool: string, outbound: boolean }} Isolation
 */

/** The settings for tests: 128 small networks (the default pools have 30), without access to other networks. */
const TEST_ISOLATION = {
  bridge: "berth-test0",
  bridgeAddress: "10.213.128.1/24",
  range: "10.213.0.0/16",
  pool: "10.213.0.0/17",
  outbound: false,
};

/**
 * The network settings of the engine that `npm run up` starts on the socket `BERTH_ENGINE_SOCKET`. They keep it apart
 * from another engine on the machine.
 */
export const OWN_ISOLATION = {
  bridge: "berth0",
  bridgeAddress: "10.214.128.1/24",
  range: "10.214.0.0/16",
  pool: "10.214.0.0/17",
  outbound: true,
};

/** Returns the folder of the private engine of this user. All runs share it, so that images are created once. */
export function privateEngineDir() {
  const uid = typeof process.getuid === "function" ? process.getuid() : "user";
  return path.join(os.tmpdir(), `berth-test-engine-${uid}`);
}

export function privateEngineHost() {
  return `unix://${path.join(privateEngineDir(), "docker.sock")}`;
}

/** Sends a request to an engine. Resolves with status and text; rejects if there is no response. */
export function engineRequest(host, { method = "GET", path: target, body, limitMs = 30_000 } = {}) {
  return new Promise((resolve, reject) => {
    const unix = host.startsWith("/") ? host : /^unix:\/\/(.*)$/.exec(host)?.[1];
    const url =
      unix === undefined
        ? new URL(host.replace(/^tcp:/, "http:").replace(/^(?!\w+:)/, "http://"))
        : undefined;
    const options = url
      ? { hostname: url.hostname, port: url.port || (url.protocol === "https:" ? 2376 : 2375) }
      : { socketPath: unix || DEFAULT_SOCKET };
    const request = (url?.protocol === "https:" ? https : http).request(
      {
        ...options,
        method,
        path: target,
        agent: false,
        headers:
          body === undefined
            ? {}
            : { "Content-Type": "application/x-tar", "Content-Length": body.length },
      },
      (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
        );
      },
    );
    request.setTimeout(limitMs, () => request.destroy(new Error("no answer in time")));
    request.on("error", reject);
    request.end(body);
  });
}

/** Returns true if an engine responds at the address. */
export async function answers(host, limitMs = 5_000) {
  try {
    const { status } = await engineRequest(host, { path: "/_ping", limitMs });
    return status === 200;
  } catch {
    return false;
  }
}

export function isRoot() {
  return typeof process.getuid === "function" && process.getuid() === 0;
}

/** Returns true on Debian, Ubuntu and distributions that are derived from them. */
export function isDebianLike() {
  try {
    const release = readFileSync("/etc/os-release", "utf8");
    return /^(ID|ID_LIKE)=.*\b(debian|ubuntu)\b/m.test(release) && which("apt-get") !== undefined;
  } catch {
    return false;
  }
}

/** Returns the path of a program; also searches system folders that PATH omits. */
export function which(program) {
  const folders = [...(process.env.PATH ?? "").split(path.delimiter), "/usr/sbin", "/sbin"];
  return folders.map((folder) => path.join(folder, program)).find((file) => existsSync(file));
}

/** Asks the user at a terminal. Without a terminal the answer is yes, because there is no one to ask. */
export async function confirm(question) {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return true;
  const readline = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await readline.question(`${question} [Y/n] `);
    return !/^n/i.test(answer.trim());
  } finally {
    readline.close();
  }
}

/**
 * Installs Debian packages. Throws an error with the command to run if this user may not install packages, or if the
 * installation fails. `optional` packages are omitted if the machine's release lacks them.
 */
export async function aptInstall(packages, why, { optional = [] } = {}) {
  const all = [...packages, ...optional];
  const command = `apt-get install -y --no-install-recommends ${all.join(" ")}`;
  if (!isDebianLike()) throw new Error(`${why}: install ${all.join(", ")} and try again`);
  if (!isRoot()) throw new Error(`${why}: run as root, or install it first: sudo ${command}`);
  if (!(await confirm(`${why}. Install ${all.join(", ")} with apt-get?`)))
    throw new Error(`${why}: install it when you are ready: ${command}`);
  console.error(`berth: installing ${all.join(", ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const lock = ["-o", "DPkg::Lock::Timeout=300"];
  const run = (...args) => spawnSync("apt-get", [...lock, ...args], { env, encoding: "utf8" });
  const install = (names) => run("install", "-y", "--no-install-recommends", ...names);
  let result = install(all);
  if (result.status !== 0) {
    // The package lists are updated first: a new machine has none, or outdated ones.
    run("update");
    result = install(all);
  }
  if (result.status !== 0 && packages.length > 0 && optional.length > 0) result = install(packages);
  if (result.status !== 0) {
    const last = `${result.stdout ?? ""}\n${result.stderr ?? ""}`
      .trim()
      .split("\n")
      .slice(-5)
      .join("\n  ");
    throw new Error(`apt-get could not install ${all.join(", ")}:\n  ${last}`);
  }
}

/**
 * Starts dockerd as a detached process, and waits until it responds.
 * @param {{ socket: string, dataRoot: string, execRoot: string, pidFile: string, logFile: string, isolation?: Isolation }} options
 */
export async function startDockerd({ socket, dataRoot, execRoot, pidFile, logFile, isolation }) {
  const dockerd = which("dockerd");
  if (!dockerd) throw new Error("dockerd is not installed: install the package docker.io");
  for (const folder of [
    path.dirname(socket),
    dataRoot,
    execRoot,
    path.dirname(pidFile),
    path.dirname(logFile),
  ])
    await mkdir(folder, { recursive: true, mode: 0o711 });
  const stale = await pidOf(pidFile);
  if (stale === undefined) await rm(pidFile, { force: true });
  if (isolation) {
    addBridge(isolation);
    firewall("-I", isolation);
  }
  const extra = isolation ? isolationFlags(isolation) : [];
  const log = await open(logFile, "a");
  const child = spawn(
    dockerd,
    [
      "--host",
      `unix://${socket}`,
      "--data-root",
      dataRoot,
      "--exec-root",
      execRoot,
      "--pidfile",
      pidFile,
      ...extra,
    ],
    {
      detached: true,
      stdio: ["ignore", log.fd, log.fd],
      env: { ...process.env, PATH: `${process.env.PATH ?? ""}:/usr/sbin:/sbin`, DOCKER_HOST: "" },
    },
  );
  let ended;
  child.once("exit", (code, signal) => (ended = `it ended with ${code ?? signal}`));
  child.once("error", (error) => (ended = error.message));
  child.unref();
  await log.close();
  const deadline = Date.now() + START_LIMIT_MS;
  while (!(await answers(`unix://${socket}`, 2_000))) {
    if (ended || Date.now() > deadline) {
      const lines = (await readFile(logFile, "utf8").catch(() => "")).trim().split("\n").slice(-8);
      if (!ended) child.kill("SIGTERM");
      throw new Error(
        `the container engine did not start (${ended ?? `no answer within ${START_LIMIT_MS / 1000} s`}); the end of its log, ${logFile}:\n  ${lines.join("\n  ")}`,
      );
    }
    await sleep(100);
  }
}

/** Ensures that the private engine of the tests runs. Returns its address, and whether this call has started it. */
export async function startPrivateEngine() {
  const dir = privateEngineDir();
  const host = privateEngineHost();
  await mkdir(dir, { recursive: true, mode: 0o711 });
  const unlock = await lockFile(path.join(dir, "lock"));
  try {
    if (await answers(host)) return { host, started: false };
    if (!isRoot())
      throw new Error(
        "the tests start a container engine of their own, which needs root: run them as root, or set BERTH_TEST_DOCKER_HOST to an engine that they may use",
      );
    if (!which("dockerd"))
      throw new Error(
        "the tests need a container engine: apt-get install docker.io (npm test does that on Debian as root), or set BERTH_TEST_DOCKER_HOST",
      );
    await startDockerd({
      socket: path.join(dir, "docker.sock"),
      dataRoot: path.join(dir, "data"),
      execRoot: path.join(dir, "exec"),
      pidFile: path.join(dir, "docker.pid"),
      logFile: path.join(dir, "dockerd.log"),
      isolation: TEST_ISOLATION,
    });
    return { host, started: true };
  } finally {
    await unlock();
  }
}

/** Stops the private engine if it runs. Its images remain for the next start. */
export async function stopPrivateEngine() {
  const pidFile = path.join(privateEngineDir(), "docker.pid");
  await stopDockerd({ pidFile, isolation: TEST_ISOLATION });
}

/**
 * Stops the dockerd of this pid file if it runs, and removes its bridge and firewall rules.
 * @param {{ pidFile: string, isolation?: Isolation }} options
 */
export async function stopDockerd({ pidFile, isolation }) {
  const pid = await pidOf(pidFile);
  if (pid !== undefined) {
    process.kill(pid, "SIGTERM");
    const deadline = Date.now() + STOP_LIMIT_MS;
    while (alive(pid) && Date.now() < deadline) await sleep(100);
    if (alive(pid)) process.kill(pid, "SIGKILL");
  }
  if (!isolation) return;
  firewall("-D", isolation);
  const ip = which("ip");
  if (ip) spawnSync(ip, ["link", "delete", isolation.bridge], { stdio: "ignore" });
}

/** Returns true while any test run is registered as a user of the private engine. */
export function privateEngineInUse() {
  try {
    return readdirSync(path.join(privateEngineDir(), "runs")).some((name) => alive(Number(name)));
  } catch {
    return false;
  }
}

function isolationFlags({ bridge, pool }) {
  return [
    `--bridge=${bridge}`,
    "--iptables=false",
    "--ip-masq=false",
    `--default-address-pool=base=${pool},size=24`,
    `--containerd-namespace=${bridge}`,
    `--containerd-plugins-namespace=${bridge}-plugins`,
    "--shutdown-timeout=10",
  ];
}

function addBridge({ bridge, bridgeAddress }) {
  if (existsSync(`/sys/class/net/${bridge}`)) return;
  const ip = which("ip");
  if (!ip)
    throw new Error(
      "a second container engine needs its own network bridge: apt-get install iproute2",
    );
  for (const args of [
    ["link", "add", bridge, "type", "bridge"],
    ["address", "add", bridgeAddress, "dev", bridge],
    ["link", "set", bridge, "up"],
  ]) {
    const result = spawnSync(ip, args, { encoding: "utf8" });
    if (result.status !== 0)
      throw new Error(`ip ${args.join(" ")} failed: ${(result.stderr ?? "").trim()}`);
  }
}

/**
 * Adds or deletes firewall rules that let containers reach each other and, if `outbound` is true, other networks.
 * Without these rules, another dockerd on the machine would block the traffic, because it sets the policy of FORWARD to
 * DROP.
 */
function firewall(action, { range, outbound }) {
  const iptables = which("iptables");
  if (!iptables) return;
  const rules = [["FORWARD", "-s", range, "-d", range, "-j", "ACCEPT"]];
  if (outbound) {
    const answersOnly = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"];
    rules.push(
      ["FORWARD", "-s", range, "!", "-d", range, "-j", "ACCEPT"],
      ["FORWARD", "-d", range, "!", "-s", range, ...answersOnly, "-j", "ACCEPT"],
      ["POSTROUTING", "-s", range, "!", "-d", range, "-j", "MASQUERADE"],
    );
  }
  for (const rule of rules) {
    const table = rule[0] === "POSTROUTING" ? ["-t", "nat"] : [];
    const run = (verb) =>
      spawnSync(iptables, ["-w", "10", ...table, verb, ...rule], { stdio: "ignore" }).status === 0;
    if (action === "-D" || !run("-C")) run(action);
  }
}

/** Returns the process id in a pid file, if that process is a dockerd that was started with this pid file. */
async function pidOf(pidFile) {
  try {
    const pid = Number((await readFile(pidFile, "utf8")).trim());
    if (!Number.isInteger(pid) || pid < 2 || !alive(pid)) return undefined;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8");
    return command.includes(pidFile) ? pid : undefined;
  } catch {
    return undefined;
  }
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Acquires a lock between processes, and takes it over if its owner has exited. */
async function lockFile(file) {
  const deadline = Date.now() + START_LIMIT_MS + 30_000;
  for (;;) {
    try {
      await writeFile(file, String(process.pid), { flag: "wx" });
      return () => unlink(file).catch(() => {});
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = Number(await readFile(file, "utf8").catch(() => ""));
    const age =
      Date.now() -
      (await stat(file).then(
        (it) => it.mtimeMs,
        () => Date.now(),
      ));
    // The owner creates the file before it writes its process id, so an empty file is a lock that is being acquired.
    if ((owner > 1 && !alive(owner)) || (!owner && age > 5_000)) await unlink(file).catch(() => {});
    else if (Date.now() > deadline) throw new Error(`${file} is held by process ${owner}`);
    else await sleep(100);
  }
}

async function main(verb) {
  if (verb === "start") {
    const { host, started } = await startPrivateEngine();
    console.error(started ? "started" : "runs already");
    console.log(host);
  } else if (verb === "stop") await stopPrivateEngine();
  else if (verb === "status") {
    const up = await answers(privateEngineHost());
    console.log(`${privateEngineHost()} ${up ? "answers" : "does not answer"}`);
    process.exitCode = up ? 0 : 1;
  } else {
    console.error("usage: node scripts/engine.mjs start|stop|status");
    process.exitCode = 2;
  }
}

if (process.argv[1] && fileURLToPath(import.meta.url) === path.resolve(process.argv[1])) {
  try {
    await main(process.argv[2]);
  } catch (error) {
    console.error(`berth: ${error.message}`);
    process.exitCode = 1;
  }
}
