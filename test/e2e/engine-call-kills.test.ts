import { join } from "node:path";
import { expect, test } from "vitest";
import { IMAGE_REFERENCE } from "../../src/controller/labels.ts";
import { API_VERSION } from "../../src/resources/kinds.ts";
import { appFile, BerthProcess, fetchText, secretFile } from "../support/berth-process.ts";
import { dockerHost } from "../support/engine.ts";
import { EngineHistory } from "../support/engine-history.ts";
import { EngineRelay, type RelayMoment } from "../support/engine-relay.ts";
import { WEB, WEB_2 } from "../support/images.ts";
import { MATRIX_LIMIT_MS, sampleOf } from "../support/sampling.ts";

/**
 * Berth is killed, as by `kill -9`, at requests that change the engine, and started again. After a kill at any of these
 * requests, Berth reaches the same final state. Two versions never run at the same time, and nothing is left over. A
 * run tests a sample of these requests; with BERTH_KILLS=all it tests every one.
 */

const first = {
  image: WEB,
  port: 8080,
  stopGracePeriod: "1s",
  env: { BODY: "first" },
  volumes: [{ name: "data", path: "/data" }],
};
const next = { ...first, image: WEB_2, env: { BODY: "next" } };

interface Scenario {
  readonly name: string;
  /** The name of the app. If it is `shop-web`, the app belongs to the stack `shop`. */
  readonly app: "web" | "shop-web";
  readonly begin?: typeof first;
  readonly end: typeof first;
  /** The requests that change the engine in a run without interruptions, in order, as paths of the engine's API. */
  readonly requests: readonly RegExp[];
}

const scenarios: readonly Scenario[] = [
  {
    name: "create",
    app: "web",
    end: first,
    requests: [
      /^POST \/networks\/create$/,
      /^POST \/volumes\/create$/,
      /^POST \/containers\/create$/,
      /^POST \/containers\/\w+\/start$/,
    ],
  },
  {
    name: "replace",
    app: "web",
    begin: first,
    end: next,
    requests: [
      /^POST \/containers\/\w+\/stop$/,
      /^DELETE \/containers\/\w+$/,
      // Berth requests the creation of the volume even if it exists, because only the response shows that the volume
      // has the labels.
      /^POST \/volumes\/create$/,
      /^POST \/containers\/create$/,
      /^POST \/containers\/\w+\/start$/,
    ],
  },
  {
    name: "create in a stack",
    app: "shop-web",
    end: first,
    requests: [
      /^POST \/networks\/create$/,
      /^POST \/networks\/create$/,
      /^POST \/volumes\/create$/,
      /^POST \/containers\/create$/,
      /^POST \/networks\/[^/]+\/connect$/,
      /^POST \/containers\/\w+\/start$/,
    ],
  },
];

/**
 * A server that was started while its network existed does not know the subnet. When it next creates the network, it
 * lets the engine choose a subnet, and then removes and creates the network again.
 */
const REPLACEMENT_REQUESTS = 2;

/**
 * Returns the requests of a run without the two that replace a network right after its creation, if the run has made
 * them.
 */
function withoutReplacement([one = "", second = "", ...others]: readonly string[]): string[] {
  return second.startsWith("DELETE /networks/")
    ? [one, ...others.slice(1)]
    : [one, second, ...others];
}

const moments: readonly RelayMoment[] = ["before", "unanswered", "lost"];

const runs = sampleOf(
  "engine calls",
  scenarios.flatMap((story) =>
    moments.map((moment) => ({ title: `${story.name}: ${moment}`, story, moment })),
  ),
  4,
);

// The tests run concurrently to save time, because each of them starts Berth several times.
test.concurrent.for(runs)(
  "a run with an interrupted engine request ($title) ends in the same state as a run without interruptions",
  { timeout: MATRIX_LIMIT_MS },
  async ({ story, moment }, { onTestFailed }) => {
    await using berth = await BerthProcess.open({
      start: false,
      onTestFailed,
      dockerHost: (root) => `unix://${join(root, "relay.sock")}`,
      // The tests run concurrently, so each server gets a network pool of its own. With a shared pool, a server could
      // choose a subnet that another server has just taken, and would then need another request.
      flags: [`--network-pool=10.${220 + moments.indexOf(moment)}.0.0/16`],
      // Berth deletes no resource while the specs folder is empty, so the folder keeps one file when the app's file is
      // removed. The file declares a Secret and no App, so that the network is removed with the last app.
      specs: { "keep.yaml": secretFile("keep", { key: "value" }) },
    });
    await using relay = await EngineRelay.open(berth.dockerHost, dockerHost());
    await berth.start();
    await using history = await EngineHistory.open(berth.docker, berth.instance);
    const points = story.requests.map((_, index) => index + 1);
    const chosen = sampleOf(`${story.name}: ${moment}`, points, 1);
    // In the last round the test would interrupt the request after the last one of `story.requests`. The scenario must
    // end without such a request, which shows that the list is complete.
    const rounds = [...chosen, points.length + 1 + REPLACEMENT_REQUESTS];
    for (const [round, point] of rounds.entries()) {
      const isKilled = await runScenario(berth, relay, {
        story,
        moment,
        point,
        isFirst: round === 0,
      });
      expect(isKilled).toBe(point <= points.length);
      expect(history.overlaps, `${moment} ${point}: ${relay.seen.join(", ")}`).toEqual([]);
    }
    const seen = withoutReplacement(relay.seen);
    for (const [index, request] of story.requests.entries()) expect(seen[index]).toMatch(request);
    expect(seen).toHaveLength(story.requests.length);
    expect(history.starts).toBeGreaterThanOrEqual(rounds.length);
    expect(await berth.containers()).toHaveLength(1);
  },
);

/**
 * Runs the scenario once, and interrupts the request with the number `point`. Returns false if the scenario ends before
 * that request.
 */
async function runScenario(
  berth: BerthProcess,
  relay: EngineRelay,
  {
    story,
    moment,
    point,
    isFirst,
  }: {
    readonly story: Scenario;
    readonly moment: RelayMoment;
    readonly point: number;
    readonly isFirst: boolean;
  },
): Promise<boolean> {
  // Each round begins with an engine that has no objects of Berth.
  relay.setTrap(undefined);
  if (!isFirst) await berth.remove("web.yaml");
  if (!isFirst) await berth.waitUntilAppGone(story.app);
  expect(await berth.containers()).toEqual([]);
  for (const volume of await volumesOf(berth)) await berth.docker.getVolume(volume).remove();
  if (story.begin) {
    await berth.write("web.yaml", appFile(story.app, story.begin));
    await berth.waitForAppReady(story.app);
  }

  relay.setTrap({
    at: point,
    moment,
    act: () => {
      if (moment !== "lost") berth.sendSigkill();
    },
  });
  const generation = story.begin ? 2 : 1;
  await berth.write("web.yaml", writeApp(story));
  await berth.until(
    `${story.name}: request ${point} is made, or all is done`,
    async () =>
      relay.hasFired ||
      (await berth.client.apps.list()).apps.some(
        (app) => app.name === story.app && app.ready && app.generation === generation,
      ),
  );
  const { hasFired: isSprung } = relay;
  if (isSprung && moment !== "lost") {
    await berth.kill();
    await berth.start();
  }
  const app = await berth.waitForAppReady(story.app, (it) => it.generation === generation);
  expect(await fetchText(app.url)).toBe(`${story.end.env.BODY}\n`);
  const containers = await berth.containers();
  expect(containers.map(({ Labels, State }) => `${Labels[IMAGE_REFERENCE]} ${State}`)).toEqual([
    `${story.end.image} running`,
  ]);
  expect(app.containers.map(({ id }) => id)).toEqual(containers.map(({ Id }) => Id));
  expect(app.restarts).toBe(0);
  const networks = Object.keys(containers[0]?.NetworkSettings.Networks ?? {});
  expect(networks).toHaveLength(story.app === "web" ? 1 : 2);
  expect(await volumesOf(berth)).toHaveLength(1);
  return isSprung;
}

function writeApp({ app, end }: Scenario): string {
  const stack = app === "web" ? {} : { stack: "shop" };
  const metadata = { name: app, ...stack };
  return JSON.stringify({ apiVersion: API_VERSION, kind: "App", metadata, spec: end });
}

async function volumesOf(berth: BerthProcess): Promise<string[]> {
  // The filter excludes the volume that records which server may write to the engine, because it belongs to no app.
  const label = [`dev.berth.instance=${berth.instance}`, "dev.berth.app"];
  const { Volumes: volumes } = await berth.docker.listVolumes({ filters: { label } });
  return volumes.map(({ Name }) => Name);
}
