import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BerthProcess } from "../support/berth-process.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { TrafficLoad, visit } from "../support/traffic.ts";

/** Tests the two reserved addresses of each replica, with the real server, engine and Caddy, and constant requests. */

const HOST = "web.localhost";
const web = {
  image: NODE_WEB,
  port: 8080,
  replicas: 2,
  stopGracePeriod: "2s",
  rollout: { drain: "3s", observe: "0s" },
} as const;

test("an app is served directly after each of many rollouts and a kill of Berth, without a failed request", async () => {
  await using berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  const table = join(berth.dataDir, "ingress/table");
  const direct = join(table, "direct");
  const listMarkers = () =>
    readdirSync(direct, { recursive: true, encoding: "utf8" }).filter((path) =>
      path.endsWith(HOST),
    );
  const roll = (version: string) =>
    berth.client.apps.patch("web", { env: { BODY: version } }, { wait: true });
  const settle = () =>
    berth.until("the previous version is gone", async () => {
      const { ready, containers } = await berth.app("web");
      return ready && containers.length === web.replicas;
    });
  await berth.client.apps.create({ name: "web", ...web, env: { BODY: "v0" } }, { wait: true });
  // The options of another app change Caddy's configuration, which then contains both addresses of each replica. Caddy
  // closes idle connections when it loads this configuration, so the load must be over before the first visitor.
  await berth.client.apps.create(
    { name: "other", image: NODE_WEB, port: 8080, ingress: { pathPrefix: "/in" } },
    { wait: true },
  );
  const [first = ""] = await berth.until("there is a direct route", () => {
    const markers = listMarkers();
    return markers.length > 0 && markers;
  });
  const [generation, place] = first.split("/");
  expect(place).toBe("a");
  const at = { port: berth.ingressPort, host: HOST };
  const visitors = { visitors: 3, restMs: 20 };
  await using load = new TrafficLoad(at, visitors);
  // Caddy repeats a GET that it has sent on a connection that was closed meanwhile, but no POST.
  await using posts = new TrafficLoad({ ...at, method: "POST" }, visitors);

  for (let round = 1; round <= 4; round += 1) {
    await roll(`v${round}`);
    expect(listMarkers()).toEqual([`${generation}/${round % 2 === 0 ? "a" : "b"}/${HOST}`]);
    await settle();
  }
  await berth.kill();
  await berth.start();
  await berth.until("there is a direct route again", () => listMarkers().includes(first));
  await roll("v5");
  expect(listMarkers()).toEqual([`${generation}/b/${HOST}`]);
  await Promise.all([load.stop(), posts.stop()]);
  expect([load.failures, posts.failures]).toEqual([[], []]);
  expect([...load.bodies.keys()]).toEqual(["v0", "v1", "v2", "v3", "v4", "v5"]);

  for (const entry of readdirSync(join(table, "apps/web")))
    rmSync(join(table, "apps/web", entry), { recursive: true });
  expect(await visit(at)).toEqual({ status: 200, body: "v5" });
});
