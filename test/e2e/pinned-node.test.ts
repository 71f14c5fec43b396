import { once } from "node:events";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PinnedNodeHarness, waitForExit } from "../support/pinned-node-harness.ts";

test("bin/berth that is run by a Node.js that is too old downloads the pinned version once, and runs everything on it", async () => {
  await using scene = await PinnedNodeHarness.open({ isWhole: true });
  const script = join(scene.folder, "script");
  writeFileSync(script, "#!/usr/bin/env node\nconsole.log(process.execPath);\n", { mode: 0o755 });
  await scene.writeProgram(`
    import { execFileSync } from "node:child_process";
    import { Worker } from "node:worker_threads";
    const run = (...argv) => execFileSync(argv[0], argv.slice(1), { encoding: "utf8" }).trim();
    const code = "require('node:worker_threads').parentPort.postMessage(process.execPath)";
    export const main = () =>
      new Worker(code, { eval: true }).once("message", (worker) =>
        console.log(JSON.stringify({
          own: process.execPath,
          byName: run("node", "-p", "process.execPath"),
          byShebang: run("${script}"),
          worker,
          byNpm: process.env.npm_node_execpath,
          args: process.argv.slice(2),
        })),
      );
  `);

  const first = await scene.run(["one", "two words"], { npm_node_execpath: "/usr/bin/node" });

  expect(first.stderr).toMatch(/^berth: Berth needs Node\.js 22\.14 .* this is 18\.20\.4, .*\n$/);
  expect(first.code).toBe(0);
  const { pinned } = scene;
  expect(JSON.parse(first.stdout)).toEqual({
    own: pinned,
    byName: pinned,
    byShebang: pinned,
    worker: pinned,
    args: ["one", "two words"],
    byNpm: pinned,
  });
  expect(scene.kept).toHaveLength(1);

  const second = await scene.run();

  expect(second).toMatchObject({ code: 0, stderr: "" });
  expect(scene.registry.downloads).toBe(1);
});

test("a downloaded archive of Node.js with a wrong digest is refused, and none of its files are kept", async () => {
  await using scene = await PinnedNodeHarness.open();
  await scene.pin(`sha512-${Buffer.alloc(64).toString("base64")}`);

  const { code, stdout, stderr } = await scene.run();

  expect(code).toBe(1);
  expect(stdout).toBe("");
  expect(stderr).toContain(`is not what Berth expects (${scene.registry.integrity})`);
  expect(scene.kept).toEqual([]);
});

test("an interrupted download of Node.js leaves no files, and the next start of bin/berth downloads it again", async () => {
  await using scene = await PinnedNodeHarness.open();
  scene.registry.delivery = "cut";

  const cut = await scene.run();

  expect(cut.code).toBe(1);
  expect(cut.stderr).toContain("could not be had");
  expect(scene.kept).toEqual([]);

  scene.registry.delivery = "whole";
  expect(await scene.run()).toMatchObject({ code: 0 });
});

test("bin/berth on an old Node.js, without a network, fails with a message that says what to install", async () => {
  await using scene = await PinnedNodeHarness.open();

  const { code, stderr } = await scene.run([], { npm_config_registry: "http://127.0.0.1:1" });

  expect(code).toBe(1);
  expect(stderr).toContain("ECONNREFUSED");
  expect(stderr).toMatch(/^try: {3}.*install one: https:\/\/nodejs\.org/m);
  expect(scene.kept).toEqual([]);
});

test("bin/berth on an old Node.js, without npm, fails with a message that says what to install", async () => {
  await using scene = await PinnedNodeHarness.open();

  const { code, stderr } = await scene.run([], { PATH: "/nowhere", npm_execpath: "" });

  expect(code).toBe(1);
  expect(stderr).toContain("there is no npm");
});

test("a downloaded Node.js that does not run on this machine is not kept", async () => {
  await using scene = await PinnedNodeHarness.open({
    script: "echo 'version GLIBC_2.28 not found' >&2; exit 1",
  });

  const { code, stderr } = await scene.run();

  expect(code).toBe(1);
  expect(stderr).toContain("GLIBC_2.28 not found");
  expect(scene.kept).toEqual([]);
});

test("concurrent starts of bin/berth all use the same downloaded Node.js", async () => {
  await using scene = await PinnedNodeHarness.open();

  const exits = await Promise.all([scene.run(), scene.run(), scene.run()]);

  expect(exits.map(({ code }) => code)).toEqual([0, 0, 0]);
  expect(scene.kept).toHaveLength(1);
});

test("a start of berth removes the incomplete files of an earlier start that was killed while it downloaded Node.js", async () => {
  await using scene = await PinnedNodeHarness.open();
  scene.registry.delivery = "stalled";
  const killed = scene.start();
  await expect.poll(() => scene.registry.downloads).toBe(1);
  killed.kill("SIGKILL");
  await once(killed, "exit");
  expect(scene.kept).toEqual([expect.stringMatching(/^\.fetch-/)]);
  // The folder of a concurrent download: the process id in its name belongs to a running process, so it must be kept.
  mkdirSync(join(scene.nodes, `.fetch-${process.pid}-other`));

  scene.registry.delivery = "whole";
  expect(await scene.run()).toMatchObject({ code: 0 });

  expect(scene.kept.toSorted()).toEqual([
    `.fetch-${process.pid}-other`,
    expect.stringContaining(scene.version),
  ]);
});

test("bin/berth passes standard input and signals to the program that it runs on the pinned Node.js, and exits with the program's code", async () => {
  await using scene = await PinnedNodeHarness.open();
  await scene.writeProgram(`
    export function main() {
      process.stdin.pipe(process.stdout);
      process.stdin.once("end", () => process.exit(Number(process.argv[2])));
    }
  `);
  const echo = scene.start(["7"]);
  echo.stdin.end("over and out");
  expect(await waitForExit(echo)).toMatchObject({ code: 7, stdout: "over and out" });

  await scene.writeProgram(`
    export function main() {
      for (const signal of ["SIGINT", "SIGTERM"])
        process.on(signal, () => { console.log(signal); if (signal === "SIGTERM") process.exit(3); });
      process.stdin.resume();
      console.log("ready");
    }
  `);
  const patient = scene.start();
  const ended = waitForExit(patient);
  await once(patient.stdout, "data");
  patient.kill("SIGINT");
  await once(patient.stdout, "data");
  patient.kill("SIGTERM");
  expect(await ended).toMatchObject({ code: 3, stdout: "ready\nSIGINT\nSIGTERM\n" });

  await scene.writeProgram(`export const main = () => process.kill(process.pid, "SIGKILL");`);
  expect(await scene.run()).toMatchObject({ code: null, signal: "SIGKILL" });
});

test("if the pinned Node.js is itself too old, bin/berth fails with a message instead of starting itself again and again", async () => {
  await using scene = await PinnedNodeHarness.open();
  await scene.run();
  rmSync(scene.pinned);
  symlinkSync(process.execPath, scene.pinned);

  const { code, stderr } = await scene.run();

  expect(code).toBe(1);
  expect(stderr).toContain("is not Node.js");
});
