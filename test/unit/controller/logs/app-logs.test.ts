import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web = { image: "web:1", port: 80, volumes: [] };

/** Follows the log of web, as the API does. */
function followed(world: ControlPlaneHarness) {
  const ended = new AbortController();
  const lines: string[] = [];
  const reading = (async () => {
    const options = { tail: 100, follow: true };
    for await (const line of world.controlPlane.appLogs("web", options, ended.signal))
      lines.push(line.message);
  })();
  const has = (count: number) =>
    world.clock.until(() => lines.length >= count, 60_000, `${count} lines: ${lines.join()}`);
  return { lines, has, reading, ended };
}

const images = { "web:1": { logs: ["one"] }, "web:2": { logs: ["two"] } };

test("a followed log continues over redeploys and restarts, each line once, until the app is deleted", async () => {
  await using world = new ControlPlaneHarness({ images });
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  const { lines, has, reading } = followed(world);
  await has(1);
  world.apply("web", { ...web, image: "web:2" });
  await world.waitUntilReady("web");
  await has(2);
  await world.clock.advance(1_000);
  const [container] = world.listContainers("web");
  world.engine.kill(container?.id ?? "", 1);
  await has(3);
  expect(lines).toEqual(["one", "two", "two"]);

  world.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => !world.app("web"), 60_000, "the app is gone");
  await reading;
  expect(lines).toEqual(["one", "two", "two"]);
});

test("an abort ends the following at once", async () => {
  await using world = new ControlPlaneHarness({ images });
  world.boot();
  world.apply("web", web);
  await world.waitUntilReady("web");
  const { lines, has, reading, ended } = followed(world);
  await has(1);
  ended.abort();
  await reading;
  expect(lines).toEqual(["one"]);
});
