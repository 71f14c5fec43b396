import { expect, test } from "vitest";
import { BerthProcess, conditionOf } from "../support/berth-process.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { OpenSocket, TrafficLoad, visit } from "../support/traffic.ts";

/** True if the environment variable BERTH_DEPLOY_RUNS is set, for a long run with more requests for each deploy. */
const isLarge = process.env["BERTH_DEPLOY_RUNS"] !== undefined;
/** The number of deploys that must succeed. After every second one, the test starts a deploy that never gets ready. */
const DEPLOYS = Number(process.env["BERTH_DEPLOY_RUNS"] ?? 5);
const REQUESTS = (isLarge ? 5_000 : 500) * DEPLOYS;

/** The spec of apps that are deployed, fail and recover while a real Caddy sends real requests to real containers. */
const web = {
  image: NODE_WEB,
  port: 8080,
  stopGracePeriod: "5s",
  rollout: { drain: "3s", progressDeadline: "5m", ...(isLarge ? {} : { observe: "500ms" }) },
  healthCheck: { path: "/healthz", interval: "1s" },
} as const;
/**
 * Rollout settings for versions that never get ready. Good versions use the longer deadline of `web`, because they may
 * start slowly on a busy machine.
 */
const impatient = { ...web.rollout, progressDeadline: "4s" } as const;

async function open(): Promise<BerthProcess> {
  const berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  return berth;
}

const limit = isLarge ? { timeout: 1_800_000 } : {};

test(
  "deploys under constant load cause no failed request, and close no connection of another app",
  limit,
  async () => {
    await using berth = await open();
    const { client, ingressPort: port } = berth;
    const at = (name: string, path = "/") => ({ port, host: `${name}.localhost`, path });
    await Promise.all([
      client.apps.create({ name: "a", ...web, env: { BODY: "0" } }, { wait: true }),
      client.apps.create({ name: "b", ...web, env: { BODY: "b" } }, { wait: true }),
    ]);
    const socket = await OpenSocket.connect(at("b", "/socket"));
    await using load = new TrafficLoad(at("a"), { visitors: 6, restMs: isLarge ? 0 : 20 });
    let slow: Promise<{ body: string }> | undefined;
    let generation = 1;
    for (let version = 1; version <= DEPLOYS; version += 1) {
      // A request that is still running when its version is replaced ends normally.
      if (version === 4)
        slow = visit(at("a", "/slow?ms=5000")).then((answer) => {
          expect(answer).toEqual({ status: 200, body: "3" });
          return answer;
        });
      const rollout = version === 4 ? { ...web.rollout, drain: "6s" } : web.rollout;
      const patch = { env: { BODY: String(version), HEALTHY: "yes" }, rollout };
      const answer = await client.apps.patch("a", patch, { wait: true });
      generation += 1;
      expect(answer).toMatchObject({ app: { ready: true, observed_generation: generation } });
      expect((await visit(at("a"))).body).toBe(String(version));
      if (version % 2 === 1) continue;
      const bad = { env: { BODY: "bad", HEALTHY: "never" }, rollout: impatient };
      await expect(client.apps.patch("a", bad, { wait: true })).rejects.toMatchObject({
        status: 409,
      });
      generation += 1;
    }
    await slow;
    await berth.until("there were requests enough", () => load.requests >= REQUESTS, 600_000);
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(load.requests).toBeGreaterThanOrEqual(REQUESTS);
    const versions = Array.from({ length: DEPLOYS + 1 }, (_, index) => String(index));
    expect([...load.bodies.keys()]).toEqual(versions);
    const { bytes } = socket;
    expect(socket.isOpen).toBe(true);
    await berth.until("the socket is alive", () => socket.bytes > bytes);
    socket.close();
    await berth.until(
      "one container is left",
      async () => (await berth.containers("a")).length === 1,
    );
  },
);

test.concurrent.for([
  ["exits", { env: { BODY: "bad", EXIT_AFTER: "0" }, rollout: web.rollout }, "exit code 1"],
  ["is never healthy", { env: { BODY: "bad", HEALTHY: "never" } }, "answered 500"],
  ["listens elsewhere", { env: { BODY: "bad", PORT: "9090" } }, "listens on 9090"],
  ["is nowhere to be had", { image: "berth.test/nowhere:1" }, "berth.test/nowhere:1"],
] as const)(
  "a new version that %s gets no request, and the previous version keeps serving",
  async ([, patch, why], { onTestFailed }) => {
    await using berth = await BerthProcess.open({ ingress: "process", onTestFailed });
    await ensureTestImages(berth.dockerHost);
    const { client, ingressPort: port } = berth;
    const restart = { attempts: 1, interval: "1m", backoff: "100ms" };
    await client.apps.create({ name: "a", ...web, restart, env: { BODY: "good" } }, { wait: true });
    const [before] = await berth.containers("a");
    await using load = new TrafficLoad({ port, host: "a.localhost" }, { visitors: 2, restMs: 20 });
    // A version that begins to run late on a busy machine still has time to show why it is never ready.
    const rollout = { ...web.rollout, progressDeadline: "15s" };
    await client.apps.patch("a", { rollout, ...patch });
    const app = await berth.waitForApp("a", "it gave the version up", (it) =>
      ["Reverted", "PullFailed", "WillRetry"].includes(conditionOf(it, "Ready")?.reason ?? ""),
    );
    expect(JSON.stringify(app.conditions) + JSON.stringify(app.events)).toContain(why);
    await load.stop();
    expect(load.failures).toEqual([]);
    expect([...load.bodies.keys()]).toEqual(["good"]);
    const now = (await berth.containers("a")).find(({ Id }) => Id === before?.Id);
    expect(now?.State).toBe("running");
  },
);

test("of five new versions during one rollout, only the last one gets requests", async () => {
  await using berth = await open();
  const { client, ingressPort: port } = berth;
  await client.apps.create({ name: "a", ...web, env: { BODY: "first" } }, { wait: true });
  await using load = new TrafficLoad({ port, host: "a.localhost" }, { visitors: 2, restMs: 20 });
  for (let change = 1; change <= 5; change += 1)
    await client.apps.patch("a", { env: { BODY: `change ${change}` } });
  await berth.waitForAppReady("a");
  await load.stop();
  expect(load.failures).toEqual([]);
  expect([...load.bodies.keys()].filter((body) => body !== "first")).toEqual(
    load.bodies.has("change 5") ? ["change 5"] : [],
  );
  expect((await visit({ port, host: "a.localhost" })).body).toBe("change 5");
  await berth.until(
    "one container is left",
    async () => (await berth.containers("a")).length === 1,
  );
});

test("visitors' requests succeed while Berth is killed, and after it has started again", async () => {
  await using berth = await open();
  const { client, ingressPort: port } = berth;
  await client.apps.create({ name: "a", ...web }, { wait: true });
  await using load = new TrafficLoad({ port, host: "a.localhost" }, { visitors: 2, restMs: 10 });
  await berth.kill();
  await berth.start();
  await berth.waitForAppReady("a");
  await berth.stop();
  await berth.start();
  await berth.waitForAppReady("a");
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(load.requests).toBeGreaterThan(50);
});

test("Caddy starts again with all routes after a kill of Caddy, and after a kill of Berth and Caddy", async () => {
  await using berth = await open();
  const { client, ingressPort: port } = berth;
  const at = { port, host: "a.localhost" };
  const answers = () => berth.until("a answers", async () => (await visit(at)).body === "up");
  await client.apps.create({ name: "a", ...web, env: { BODY: "up" } }, { wait: true });
  await answers();
  const first = await berth.caddyPid();
  process.kill(first ?? 0, "SIGKILL");
  await answers();
  const second = await berth.caddyPid();
  expect(second).not.toBe(first);
  // Berth and Caddy end at the same time, as at a shutdown of the machine. Other apps may have the old addresses
  // afterwards.
  await berth.kill();
  process.kill(second ?? 0, "SIGKILL");
  await Promise.all(
    (await berth.containers("a")).map(({ Id }) => berth.docker.getContainer(Id).kill()),
  );
  await berth.start();
  await answers();
});
