import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BerthProcess } from "../support/berth-process.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { trace } from "../support/tracer.ts";
import { TrafficLoad, visit } from "../support/traffic.ts";

/**
 * Tests a kill at the last moment of a switch, with the real server, a real Caddy and continuous requests. Needs
 * strace.
 */

const HOST = "web.localhost";
const web = {
  image: NODE_WEB,
  port: 8080,
  stopGracePeriod: "2s",
  rollout: { drain: "1s", observe: "0s" },
} as const;

test("a kill of Berth after it has written the route table, but not removed the old direct route's marker, loses no request", async () => {
  await using berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  const table = join(berth.dataDir, "ingress/table");
  const direct = join(table, "direct");
  const listEntries = () => readdirSync(join(table, "apps/web"), { recursive: true });
  const findMarker = () =>
    readdirSync(direct, { recursive: true, encoding: "utf8" }).find((path) => path.endsWith(HOST));
  await berth.client.apps.create({ name: "web", ...web, env: { BODY: "one" } }, { wait: true });
  // The options of another app change Caddy's configuration, which then contains a direct route to the first app. The
  // load of the configuration must be over before the first request, because Caddy closes kept-alive connections during
  // a load.
  await berth.client.apps.create(
    { name: "other", ...web, ingress: { pathPrefix: "/in" } },
    { wait: true },
  );
  const marker = join(direct, await berth.until("there is a direct route", findMarker));
  const at = { port: berth.ingressPort, host: HOST };
  await using load = new TrafficLoad(at, { visitors: 2, restMs: 20 });

  const entries = listEntries();
  const kill = "inject=unlink,unlinkat:error=EIO:signal=SIGKILL";
  const words = ["-f", "-P", marker, "-e", "trace=unlink,unlinkat", "-e", kill];
  const tracer = await trace(berth.ready.pid, join(berth.root, "strace.log"), words);
  await berth.client.apps.patch("web", { env: { BODY: "two" } });
  await berth.until("berth is killed", () => !berth.isRunning);
  await tracer.detach();
  expect(existsSync(marker)).toBe(true);
  expect(listEntries()).not.toEqual(entries);
  expect(await visit(at)).toEqual({ status: 200, body: "one" });

  await berth.kill();
  await berth.start();
  await berth.until("the new version serves alone", async () => {
    const { ready, containers } = await berth.app("web");
    return ready && containers.length === 1 && (await visit(at)).body === "two";
  });
  await load.stop();
  expect(load.failures).toEqual([]);
  expect([...load.bodies.keys()]).toEqual(["one", "two"]);
});
