import { cp, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
import { INSTANCE } from "../../src/controller/labels.ts";
import { BerthProcess, fetchText } from "../support/berth-process.ts";
import { WEB } from "../support/images.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;

async function idsOf(berth: BerthProcess, app: string): Promise<string[]> {
  return (await berth.containers(app)).map(({ Id, State }) => `${Id} ${State}`);
}

async function leaseNames(berth: BerthProcess): Promise<string[]> {
  const filters = { label: [`${INSTANCE}=${berth.instance}`, "dev.berth.component=lease"] };
  return ((await berth.docker.listVolumes({ filters })).Volumes ?? []).map(({ Name }) => Name);
}

// The first test waits a minute for the lease to lapse, so all tests run concurrently.
test.concurrent("of two servers with copies of one data directory only the first writes to the engine", async ({
  expect,
  onTestFailed,
}) => {
  await using first = await BerthProcess.open({ onTestFailed });
  await first.client.apps.create({ name: "web", ...web }, { wait: true });
  const before = await idsOf(first, "web");
  await using second = await BerthProcess.open({ start: false, onTestFailed });
  await cp(first.dataDir, second.dataDir, {
    recursive: true,
    filter: (path) => !/\.sock/.test(path),
  });
  await second.start();
  expect(second.instance).toBe(first.instance);

  await expect
    .poll(() => second.client.health())
    .toMatchObject({ status: "degraded", runtime: "connected" });
  expect((await second.client.system.info()).engine.other_writer).toMatchObject({
    data_dir: first.dataDir,
  });
  expect((await first.client.system.info()).engine.other_writer).toBeNull();
  for (const verb of [["status"], ["doctor"]]) {
    const { stdout } = await second.cli(verb);
    expect(stdout).toContain(`data directory ${first.dataDir}`);
  }
  expect(second.output).toContain("another Berth with the same identity writes to the engine");
  // The second server accepts changes of its desired state, but does not apply them to the engine.
  await second.client.apps.create({ name: "other", ...web });
  await second.client.apps.patch("web", { env: { BODY: "of the second" } });
  await second.waitForApp("other", "other waits", ({ conditions }) =>
    conditions.some(({ type, status }) => type === "Ready" && status === "Unknown"),
  );
  expect(await idsOf(first, "web")).toEqual(before);
  expect(await first.containers("other")).toEqual([]);

  // A kill may interrupt a lease renewal of the first server at any point. After each restart, the first server uses
  // its lease again at once.
  for (let round = 0; round < 3; round += 1) {
    await first.kill();
    await first.start();
    await expect.poll(() => first.client.health()).toMatchObject({ status: "ok" });
  }
  expect(await idsOf(first, "web")).toEqual(before);
  await expect.poll(() => second.client.health()).toMatchObject({ status: "degraded" });

  // When the first server stays away, the second one takes over after a minute, and not before.
  await first.kill();
  const endedMs = Date.now();
  await second.until(
    "the second takes over",
    async () => (await second.client.health()).status === "ok",
    120_000,
  );
  // The lease expires a minute after its last renewal, and the first server renewed it at its last start or later. So
  // the second server takes over no earlier than most of a minute after the kill.
  expect(Date.now() - endedMs).toBeGreaterThan(35_000);
  const app = await second.waitForAppReady("web");
  await second.until("it serves", async () => (await fetchText(app.url)) === "of the second\n");
  await second.until("old leases are gone", async () => (await leaseNames(second)).length === 1);
}, 300_000);

test.concurrent("a backup restored next to the original as a new instance runs without changing the original", async ({
  expect,
  onTestFailed,
}) => {
  await using first = await BerthProcess.open({ onTestFailed });
  await first.client.apps.create({ name: "web", ...web }, { wait: true });
  const before = await idsOf(first, "web");
  const file = join(first.root, "a.backup");
  const saved = await first.cli(["backup", file, "-o", "json"]);
  expect(JSON.parse(saved.stdout).left_out).toContainEqual(
    expect.objectContaining({ kind: "image", name: WEB, app: "web" }),
  );
  await using second = await BerthProcess.open({ start: false, onTestFailed });
  const restored = await second.cli(["restore", file, "--new-instance"]);
  expect(restored).toMatchObject({ code: 0 });
  expect(restored.stdout).toContain("leaves out:");
  await second.start();
  expect(second.instance).not.toBe(first.instance);
  await second.waitForAppReady("web");
  await expect.poll(() => second.client.health()).toMatchObject({ status: "ok" });
  await second.client.apps.delete("web");
  await second.client.apps.waitDeleted("web", { timeoutMs: 60_000 });
  expect(await idsOf(first, "web")).toEqual(before);
}, 120_000);

test.concurrent("an app from an archive is built again on another machine after a restore", async ({
  expect,
  onTestFailed,
}) => {
  await using first = await BerthProcess.open({ onTestFailed });
  const source = join(first.root, "source");
  await mkdir(source);
  await writeFile(join(source, "Dockerfile"), `FROM ${WEB}\nENV BODY=from-the-archive\n`);
  const deployed = await first.cli(["deploy", source, "--name", "site", "--port", "8080"]);
  expect(deployed).toMatchObject({ code: 0 });
  const file = join(first.root, "a.backup");
  expect((await first.cli(["backup", file])).stdout).toContain("1 source archive");
  await first.client.apps.delete("site");
  await first.client.apps.waitDeleted("site", { timeoutMs: 60_000 });
  await first.stop();
  await rm(first.dataDir, { recursive: true });

  await using second = await BerthProcess.open({ start: false, onTestFailed });
  expect((await second.cli(["restore", file, "--new-instance"])).code).toBe(0);
  expect(await readdir(join(second.dataDir, "archives"))).toHaveLength(1);
  await second.start();
  const app = await second.waitForAppReady("site");
  expect(await fetchText(app.url)).toBe("from-the-archive\n");
}, 120_000);
