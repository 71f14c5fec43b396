import type { ContainerInspectInfo } from "dockerode";
import { expect, test } from "vitest";
import { BerthProcess, conditionOf, fetchText } from "../support/berth-process.ts";
import { testLabels } from "../support/engine.ts";
import { SHELL, WEB } from "../support/images.ts";

/** The spec of the apps whose containers the tests change, as a user does with the docker command. */
const web = {
  image: WEB,
  port: 8080,
  stopGracePeriod: "1s",
  healthCheck: { path: "/healthz", interval: "200ms", retries: 2 },
  restart: { attempts: 10, interval: "10m", backoff: "100ms" },
} as const;

test("a container that is killed, removed, renamed, disconnected, paused, limited in memory or unhealthy is corrected and reported", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  const names = ["killed", "removed", "renamed", "cut", "paused", "limited", "sick", "bystander"];
  await Promise.all(names.map((name) => client.apps.create({ name, ...web }, { wait: true })));
  const before = new Map(
    await Promise.all(names.map(async (name) => [name, await inspect(berth, name)] as const)),
  );
  const was = (name: string): ContainerInspectInfo => {
    const found = before.get(name);
    if (!found) throw new Error(`no ${name}`);
    return found;
  };
  /**
   * Waits until the state of the container fulfils the condition `is`, the app serves requests again, and Berth reports
   * it as ready.
   */
  const putRight = async (name: string, is: (now: ContainerInspectInfo) => boolean) => {
    await berth.until(`${name} is put right`, async () => is(await inspect(berth, name)));
    await berth.until(`${name} serves`, async () => {
      const { ready, url } = await berth.app(name);
      return ready && (await fetchText(url)) === "web:1\n";
    });
  };
  const byHand = (name: string) => berth.docker.getContainer(was(name).Id);

  await Promise.all([
    (async () => {
      await byHand("killed").kill();
      await putRight(
        "killed",
        (now) => now.State.Running && now.State.StartedAt !== was("killed").State.StartedAt,
      );
      expect((await inspect(berth, "killed")).Id).toBe(was("killed").Id);
      const event = await berth.event("Restarting", { kind: "App", name: "killed" });
      expect(event.message).toContain("137");
      expect((await berth.app("killed")).restarts).toBe(1);
    })(),
    (async () => {
      await byHand("renamed").rename({ name: `somebody-was-here-${berth.instance}` });
      await putRight("renamed", (now) => now.Name === was("renamed").Name);
      expect((await inspect(berth, "renamed")).Id).toBe(was("renamed").Id);
      await berth.event("DriftCorrected", { kind: "App", name: "renamed" });
    })(),
    (async () => {
      const network = Object.keys(was("cut").NetworkSettings.Networks)[0] ?? "";
      expect(network).toBe(`berth-${berth.instance}`);
      await berth.docker.getNetwork(network).disconnect({ Container: was("cut").Id });
      await putRight("cut", (now) => Object.keys(now.NetworkSettings.Networks).includes(network));
      const aliases = (await inspect(berth, "cut")).NetworkSettings.Networks[network]?.Aliases;
      expect(aliases).toContain("cut");
      await berth.event("DriftCorrected", { kind: "App", name: "cut" });
    })(),
    (async () => {
      // The engine refuses to pause a container ("unable to freeze") while a busy machine gives its processes no time.
      await berth.until("the engine has paused the container", () =>
        byHand("paused")
          .pause()
          .then(
            () => true,
            (error: unknown) => {
              if (!/unable to freeze/.test(String(error))) throw error;
              return false;
            },
          ),
      );
      await putRight("paused", (now) => now.State.Running && !now.State.Paused);
      await berth.event("DriftCorrected", { kind: "App", name: "paused" });
    })(),
    (async () => {
      await byHand("limited").update({ Memory: 64 * 2 ** 20, MemorySwap: -1 });
      await putRight("limited", (now) => now.HostConfig.Memory === 0);
      const event = await berth.event("DriftCorrected", { kind: "App", name: "limited" });
      expect(event.message).toContain("resources");
    })(),
    (async () => {
      const exec = await byHand("sick").exec({ Cmd: ["rm", "/www/healthz"] });
      await exec.start({ Detach: true });
      await putRight("sick", (now) => now.State.StartedAt !== was("sick").State.StartedAt);
      const event = await berth.event("Restarting", { kind: "App", name: "sick" });
      expect(event.message).toContain("404");
    })(),
    (async () => {
      // When the version has been Ready for ten seconds, a missing replica counts as removed by hand.
      await berth.waitForApp("removed", "removed is stable", (app) => app.revisions.stable === 1);
      await byHand("removed").remove({ force: true });
      await putRight("removed", (now) => now.Id !== was("removed").Id);
      const event = await berth.event("DriftCorrected", { kind: "App", name: "removed" });
      expect(event.message).toContain("container");
    })(),
  ]);

  const untouched = await inspect(berth, "bystander");
  expect([untouched.Id, untouched.State.StartedAt]).toEqual([
    was("bystander").Id,
    was("bystander").State.StartedAt,
  ]);
  expect(await berth.containers()).toHaveLength(names.length);
});

test("Berth corrects the same change only three times, until a retry", async () => {
  await using berth = await BerthProcess.open();
  await berth.client.apps.create({ name: "fought", ...web }, { wait: true });
  const container = await berth.container("fought");
  for (let round = 1; round <= 3; round += 1) {
    await container.rename({ name: `mine-${berth.instance}-${round}` });
    await berth.until(
      `correction ${round}`,
      async () => (await berth.container("fought")).name === container.name,
    );
  }
  await container.rename({ name: `mine-${berth.instance}` });
  const app = await berth.waitForApp(
    "fought",
    "the fight is over",
    (it) => conditionOf(it, "Drifted")?.status === "True",
  );
  expect(conditionOf(app, "Drifted")).toMatchObject({ reason: "DriftLoop" });
  expect(conditionOf(app, "Drifted")?.message).toContain("name");
  // The app is not Ready, but its serving container keeps serving.
  expect(app).toMatchObject({ ready: false, status: "degraded" });
  expect(await fetchText(app.url)).toBe("web:1\n");
  expect((await berth.container("fought")).name).toBe(`mine-${berth.instance}`);

  expect(await berth.cli(["retry", "fought", "--wait"])).toMatchObject({ code: 0 });
  expect((await berth.container("fought")).name).toBe(container.name);
});

test("Berth does not change a suspended app, and a stopped app stays stopped", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  await Promise.all(
    ["let-be", "stopped"].map((name) => client.apps.create({ name, ...web }, { wait: true })),
  );
  await client.apps.patch("let-be", { suspend: true }, { wait: true });
  await client.apps.stop("stopped", { wait: true });
  const [letBe, stopped] = [await berth.container("let-be"), await berth.container("stopped")];
  await letBe.kill();
  await letBe.rename({ name: `named-by-hand-${berth.instance}` });
  await stopped.start();
  await berth.until(
    "the stopped app is stopped again",
    async () => !(await stopped.inspect()).State.Running,
  );
  const after = await letBe.inspect();
  expect([after.State.Running, after.Name]).toEqual([false, `/named-by-hand-${berth.instance}`]);
  await client.apps.patch("let-be", { suspend: false }, { wait: true });
  expect(`/${(await berth.container("let-be")).name}`).toBe(`/${letBe.name}`);
});

test("Berth neither uses nor changes another program's container that has a name of Berth's", async () => {
  await using berth = await BerthProcess.open();
  const { client, docker } = berth;
  const made = await client.apps.create({ name: "clash", ...web }, { wait: true });
  const name = made.dryRun ? "" : (made.app.containers[0]?.name ?? "");
  expect(name).toMatch(/^berth-/);
  await client.apps.delete("clash");
  await client.apps.waitDeleted("clash", { timeoutMs: 30_000 });
  const stranger = await docker.createContainer({ name, Image: SHELL, Labels: testLabels() });
  try {
    await stranger.start();
    const before = await stranger.inspect();
    await client.apps.create({ name: "clash", ...web });
    const app = await berth.waitForApp("clash", "the clash is told", (it) =>
      it.message.includes(name),
    );
    expect(app.ready).toBe(false);
    const after = await stranger.inspect();
    expect([after.Id, after.State.StartedAt, after.State.Running]).toEqual([
      before.Id,
      before.State.StartedAt,
      true,
    ]);
    expect(await berth.containers()).toEqual([]);
  } finally {
    await stranger.remove({ force: true });
  }
  // No event reports that the container's name is free, so only a retry, by the user or by Berth, notices it.
  await client.apps.retry("clash");
  await berth.waitForAppReady("clash");
});

async function inspect(berth: BerthProcess, app: string): Promise<ContainerInspectInfo> {
  return (await berth.container(app)).inspect();
}
