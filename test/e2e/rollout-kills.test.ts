import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { appFile, BerthProcess, secretFile } from "../support/berth-process.ts";
import { dockerHost } from "../support/engine.ts";
import { EngineRelay, type RelayMoment } from "../support/engine-relay.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { MATRIX_LIMIT_MS, sampleOf } from "../support/sampling.ts";
import { TrafficLoad, visit } from "../support/traffic.ts";

/**
 * Berth is killed, as by `kill -9`, at requests that change the engine, while a new version is built and replaces the
 * old one. Visitors use the app all the time, and the final state is always the same. A run tests a sample of the
 * engine requests; with BERTH_KILLS=all it tests every one.
 */

const web = {
  port: 8080,
  stopGracePeriod: "5s",
  rollout: { drain: "1s", observe: "0s" },
} as const;

/** The requests that change the engine in a rollout without a kill, in order. */
const requests = [
  /^POST \/build$/,
  /^POST \/containers\/create$/,
  /^POST \/containers\/\w+\/start$/,
  /^POST \/containers\/\w+\/stop$/,
  /^DELETE \/containers\/\w+$/,
];

/** Writes the source of a version that answers with `body`. */
async function prepare(berth: BerthProcess, body: string): Promise<string> {
  const source = `source-${body.replace(" ", "-")}`;
  await mkdir(join(berth.specsDir, source), { recursive: true });
  const dockerfile = `FROM ${NODE_WEB}\nENV BODY="${body}"\n`;
  await writeFile(join(berth.specsDir, source, "Dockerfile"), dockerfile);
  return appFile("web", { ...web, source: { local: `./${source}` } });
}

const moments: readonly RelayMoment[] = ["before", "unanswered"];

test.for(moments)(
  "after a kill of Berth at any engine request of a rollout, the final state is that of a run without kills (%s)",
  { timeout: MATRIX_LIMIT_MS },
  async (moment, { onTestFailed }) => {
    await using berth = await BerthProcess.open({
      start: false,
      onTestFailed,
      ingress: "process",
      dockerHost: (root) => `unix://${join(root, "relay.sock")}`,
      specs: { "keep.yaml": secretFile("keep", { key: "value" }) },
    });
    await ensureTestImages(dockerHost());
    await using relay = await EngineRelay.open(berth.dockerHost, dockerHost());
    await berth.start();
    await berth.write("web.yaml", await prepare(berth, "version 0"));
    await berth.waitForAppReady("web");
    const at = { port: berth.ingressPort, host: "web.localhost" };
    await using load = new TrafficLoad(at, { visitors: 2, restMs: 20 });
    const points = requests.map((_, index) => index + 1);
    // In the last round Berth is not killed, because the rollout makes no engine request beyond those in `requests`.
    // This shows that the list is complete.
    const rounds = [...sampleOf(`rollout: ${moment}`, points, 1), points.length + 1];
    for (const [round, point] of rounds.entries()) {
      const body = `version ${round + 1}`;
      relay.setTrap({ at: point, moment, act: () => berth.sendSigkill() });
      await berth.write("web.yaml", await prepare(berth, body));
      await berth.until(
        `request ${point} is made, or all is done`,
        async () => relay.hasFired || (await isDone(berth, body, at)),
      );
      expect(relay.hasFired, `requests: ${relay.seen.join(", ")}`).toBe(point <= points.length);
      if (relay.hasFired) {
        await berth.kill();
        await berth.start();
      }
      await berth.until(`${body} has taken over`, () => isDone(berth, body, at));
      expect(load.failures, `${moment} ${point}: ${relay.seen.join(", ")}`).toEqual([]);
    }
    await load.stop();
    expect(relay.seen).toHaveLength(requests.length);
    for (const [index, request] of requests.entries()) expect(relay.seen[index]).toMatch(request);
    expect([...load.bodies.keys()]).toEqual(
      Array.from({ length: rounds.length + 1 }, (_, version) => `version ${version}`),
    );
    expect((await berth.app("web")).restarts).toBe(0);
  },
);

/** Returns true if the version gets the requests and the previous version is gone. */
async function isDone(
  berth: BerthProcess,
  body: string,
  at: { readonly port: number; readonly host: string },
): Promise<boolean> {
  if ((await visit(at)).body !== body) return false;
  const app = await berth.app("web");
  return app.ready && app.containers.length === 1;
}
