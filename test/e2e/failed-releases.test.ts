import { expect, test } from "vitest";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { BerthProcess } from "../support/berth-process.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { TrafficLoad } from "../support/traffic.ts";

/** The number of clients that send requests all the time, while new versions begin to listen and then exit. */
const VISITORS = 4;
const web = {
  image: NODE_WEB,
  port: 8080,
  stopGracePeriod: "1s",
  rollout: { drain: "3s" },
} as const;

/** A program that listens, answers nothing and exits, as gunicorn does if the app cannot be imported. */
const neverAnswers = `
  require("node:net").createServer(() => {}).listen(8080);
  setTimeout(() => { console.error("no module named wsgi"); process.exit(3); }, 1000);
`;

const releases: readonly (readonly [string, Partial<AppSpec>, string])[] = [
  ["answers for a quarter of a second and exits", { env: { BODY: "bad", EXIT_AFTER: "250" } }, "1"],
  ["answers for two seconds and exits", { env: { BODY: "bad", EXIT_AFTER: "2000" } }, "1"],
  ["opens its port and exits", { command: ["/bin/node", "-e", neverAnswers] }, "3"],
];

test.concurrent.for(releases)(
  "a new version that %s is replaced by the previous one, and only requests that the new version had accepted fail",
  async ([, patch, code], { onTestFailed }) => {
    await using berth = await BerthProcess.open({ ingress: "process", onTestFailed });
    await ensureTestImages(berth.dockerHost);
    const { client, ingressPort: port } = berth;
    await client.apps.create({ name: "a", ...web, env: { BODY: "good" } }, { wait: true });
    const [before] = await berth.containers("a");
    await using load = new TrafficLoad(
      { port, host: "a.localhost" },
      { visitors: VISITORS, restMs: 10 },
    );
    const failed = await client.apps.patch("a", patch, { wait: true }).catch((error) => error);
    expect(failed).toMatchObject({ status: 409 });
    expect(String(failed)).toContain(`exit code ${code}`);
    const served = load.bodies.get("good") ?? 0;
    await berth.until(
      "the good version serves",
      () => (load.bodies.get("good") ?? 0) > served + 50,
    );
    await load.stop();
    // Each visitor has at most one open request, so the exit of the bad version's container can fail at most one
    // request of each visitor.
    expect(load.failures.length).toBeLessThanOrEqual(VISITORS);
    const app = await berth.app("a");
    expect(app.message).toContain("reverted to revision 1");
    const { revisions } = await client.apps.revisions("a");
    expect(revisions[0]?.state).toBe("quarantined");
    await berth.until(
      "only the good container is left",
      async () => (await berth.containers("a")).map(({ Id }) => Id).join() === before?.Id,
    );
  },
);

test("a new version of an app with a domain gets no visitors' requests if it never answers Berth's own GET", async () => {
  await using berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  const { client, ingressPort: port } = berth;
  const spec = { ...web, domain: "shop.localhost", restart: { attempts: 1, backoff: "100ms" } };
  await client.apps.create({ name: "a", ...spec, env: { BODY: "good" } }, { wait: true });
  await using load = new TrafficLoad({ port, host: "shop.localhost" }, { visitors: 2, restMs: 20 });
  const patch = { command: ["/bin/node", "-e", neverAnswers] };
  const failed = await client.apps.patch("a", patch, { wait: true }).catch((error) => error);
  expect(failed).toMatchObject({ status: 409 });
  expect(String(failed)).toContain("no module named wsgi");
  await load.stop();
  expect(load.failures).toEqual([]);
  expect([...load.bodies.keys()]).toEqual(["good"]);
});

test("with the strategy recreate, a new version that exits while it is observed is replaced by the previous one", async () => {
  await using berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  const { client } = berth;
  const spec = { ...web, rollout: { strategy: "recreate" } } as const;
  await client.apps.create({ name: "a", ...spec, env: { BODY: "good" } }, { wait: true });
  const patch = { env: { BODY: "bad", EXIT_AFTER: "1500" } };
  const failed = await client.apps.patch("a", patch, { wait: true }).catch((error) => error);
  expect(failed).toMatchObject({ status: 409 });
  expect(String(failed)).toContain("exit code 1");
  await berth.until("the old version runs", async () => {
    const containers = await berth.containers("a");
    const app = await berth.app("a");
    return containers.length === 1 && app.containers[0]?.healthy === true;
  });
  expect((await berth.app("a")).restarts).toBe(0);
});
