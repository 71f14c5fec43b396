#!/usr/bin/env node
// npm test: installs, builds, starts a container engine for the tests and runs all of them but those of the projects
// `peers` and `trained`, in two concurrent runs of vitest. Arguments are passed to vitest, in one run: npm test -- --project unit.
// `--sample N` runs N test files that BERTH_SEED chooses: npm run test:peers -- --sample 2. The last line reads
// `N passed, N failed`.
//
// BERTH_TEST_DOCKER_HOST: an engine to use in place of a private one. BERTH_SEED: repeats the random choices of the
// run that printed this seed. Plain Node without dependencies: it runs before anything is installed.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import pinnedNode from "./pinned-node.cjs";

await pinnedNode.ensure();

const { aptInstall, privateEngineInUse, startPrivateEngine, stopPrivateEngine, which } =
  await import("./engine.mjs");
const { ensureBuilt, ensureInstalled, root } = await import("./install.mjs");

/** Test projects that `npm test` does not run: each has its own command, and needs more than the other projects. */
const SEPARATE_PROJECTS = [
  { name: "trained", needs: "models with trained weights", command: "npm run test:trained" },
  { name: "peers", needs: "programs that Berth meets", command: "npm run test:peers" },
];
const WITHOUT_SEPARATE = SEPARATE_PROJECTS.map(({ name }) => `--project=!${name}`);

/**
 * The runs of vitest that together are the whole suite. They are concurrent, because tests with an engine mostly wait
 * for it, which leaves a core partly idle if they run alone, and the other tests mostly keep a core busy.
 */
const WHOLE_SUITE = [
  { args: ["--project=e2e", "--project=docker"], workers: 3 },
  {
    args: [...WITHOUT_SEPARATE, "--project=!e2e", "--project=!docker"],
    workers: os.availableParallelism() + 2,
  },
];

const scratch = mkdtempSync(path.join(os.tmpdir(), "berth-tests-"));
let ownEngine = false;
const children = new Set();
let stopped = false;
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"])
  process.on(signal, () => {
    stopped = true;
    for (const child of children) child.kill(signal === "SIGINT" ? "SIGINT" : "SIGTERM");
  });

let code = 1;
const tallies = [];
try {
  await ensureSystemPackages();
  ensureInstalled();
  ensureBuilt();
  const host = process.env.BERTH_TEST_DOCKER_HOST ?? (await ownHost());
  if (!stopped) code = await runTests(host);
} catch (error) {
  console.error(`error: ${error.message}`);
} finally {
  if (ownEngine && !privateEngineInUse()) await stopPrivateEngine();
}
const counts = tallies.map(readTally);
const passed = counts.reduce((sum, count) => sum + count.passed, 0);
const failed = counts.length === 0 ? 1 : counts.reduce((sum, count) => sum + count.failed, 0);
if (failed > 0 || passed === 0) code ||= 1;
rmSync(scratch, { recursive: true, force: true });
if (process.argv.length === 2)
  for (const { name, needs, command } of SEPARATE_PROJECTS)
    console.log(`not run: the tests of the project ${name}, which need ${needs}: ${command}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = code;

/**
 * Installs the programs that tests need: a container engine, a registry, git and sshd, strace, a session bus, and
 * busybox for images.
 */
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
  // The tests of the project `peers` need Go to build a newer Caddy, and `ip` to create the network namespaces in which
  // two Caddys run. They generate and compile clients of the session bus in C.
  if (process.argv.includes("peers"))
    needed.push(
      ["go", "golang-go"],
      ["curl", "curl"],
      ["ip", "iproute2"],
      ["cc", "gcc"],
      ["pkg-config", "pkg-config"],
      ["gdbus-codegen", "libglib2.0-dev"],
    );
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

/**
 * Returns the arguments for vitest. They select the projects that the user names, or else all projects that have no
 * command of their own. With `--sample` they select the test files that the seed chooses.
 */
function vitestArguments(given, seed) {
  const { values, tokens } = parseArgs({
    args: given,
    options: { sample: { type: "string" } },
    strict: false,
    tokens: true,
  });
  const passed = given.filter(
    (_, index) =>
      !tokens.some(
        (token) =>
          token.name === "sample" &&
          (token.index === index || (!token.inlineValue && token.index === index - 1)),
      ),
  );
  const projects = passed.flatMap((word, index) =>
    word === "--project" ? [passed[index + 1]] : (/^--project=(.*)$/.exec(word)?.[1] ?? []),
  );
  const args = projects.length > 0 ? passed : [...WITHOUT_SEPARATE, ...passed];
  if (values.sample === undefined) return args;
  const files = projects
    .flatMap((name) =>
      readdirSync(path.join(root, "test", name), { recursive: true }).map((file) =>
        path.join("test", name, file),
      ),
    )
    .filter((file) => file.endsWith(".test.ts"));
  const count = Number(values.sample);
  if (!Number.isInteger(count) || count < 1 || files.length === 0)
    throw new Error("--sample takes a number of test files, of the projects that --project names");
  // Sorting the files by a digest of the seed and the file name shuffles them, with the same order for the same seed.
  const digest = (file) => createHash("sha256").update(`${seed} ${file}`).digest("hex");
  const shuffled = files.toSorted((a, b) => (digest(a) < digest(b) ? -1 : 1));
  return [...args, ...shuffled.slice(0, count)];
}

/**
 * Runs the tests that the arguments select, or the whole suite if there are none. Returns the exit code of the first
 * run of vitest that failed, or 0.
 */
async function runTests(host) {
  // Variables that configure the user's own Berth must not affect the tests; variables of the tests are kept.
  const kept = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^(BERTH_|DOCKER_)/.test(name) ||
        /^BERTH_(TEST_|SEED$|KILLS$|SIM_|SOAK_|\w+_(RUNS|ROUNDS|TRIES|CALLS|KILLS|MESSAGES|STEP)$)/.test(
          name,
        ),
    ),
  );
  const seed = kept.BERTH_SEED ?? String(Date.now() % 1_000_000);
  console.log(`BERTH_SEED=${seed}`);
  const env = {
    ...kept,
    BERTH_SEED: seed,
    BERTH_TEST_DOCKER_HOST: host,
    // The compile cache saves time, because tests start hundreds of worker threads and processes from the same
    // modules.
    NODE_COMPILE_CACHE: path.join(scratch, "compiled"),
  };
  const given = process.argv.slice(2);
  if (given.length > 0) return vitest(vitestArguments(given, seed), env, "inherit");
  // On a terminal, vitest overwrites lines that it has printed, and two concurrent runs would overwrite each other's
  // lines.
  const colours = process.stdout.isTTY ? { FORCE_COLOR: "1" } : {};
  const codes = await Promise.all(
    WHOLE_SUITE.map(({ args, workers }) =>
      vitest(args, { ...env, ...colours, VITEST_MAX_WORKERS: String(workers) }, "pipe"),
    ),
  );
  return codes.find((exitCode) => exitCode !== 0) ?? 0;
}

/** Runs vitest once, and adds the file in which it counts its tests to `tallies`. Returns its exit code. */
function vitest(args, env, output) {
  const program = path.join(root, "node_modules", "vitest", "vitest.mjs");
  const reporter = path.join(root, "scripts", "tally-reporter.mjs");
  const reporters = ["--reporter=default", `--reporter=${reporter}`];
  const tallyFile = path.join(scratch, `tally-${tallies.length}.json`);
  tallies.push(tallyFile);
  const child = spawn(process.execPath, [program, "run", ...reporters, ...args], {
    cwd: root,
    env: { ...env, BERTH_TEST_TALLY: tallyFile },
    stdio: ["inherit", output, output],
  });
  children.add(child);
  child.stdout?.pipe(process.stdout, { end: false });
  child.stderr?.pipe(process.stderr, { end: false });
  return new Promise((resolve) => {
    child.once("error", (error) => {
      console.error(`error: ${error.message}`);
      resolve(1);
    });
    child.once("close", (exitCode) => resolve(exitCode ?? 1));
  });
}

/**
 * Returns the numbers of passed and failed tests that the reporter wrote to a file. If it wrote none, no test was run,
 * which counts as a failure.
 */
function readTally(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return { passed: 0, failed: 1 };
  }
}
