import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const web = { image: "web:1", port: 80, volumes: [] };

/** Follows the log of the app "web", as the API does. */
function followed(harness: ControlPlaneHarness) {
  const ended = new AbortController();
  const lines: string[] = [];
  const reading = (async () => {
    const options = { tail: 100, follow: true };
    for await (const line of harness.controlPlane.appLogs("web", options, ended.signal))
      lines.push("skipped" in line ? `${line.skipped} skipped` : line.message);
  })();
  const has = (count: number) =>
    harness.clock.until(() => lines.length >= count, 60_000, `${count} lines: ${lines.join()}`);
  return { lines, has, reading, ended };
}

const images = { "web:1": { logs: ["one"] }, "web:2": { logs: ["two"] } };

test("a followed log continues over redeploys and restarts, each line once, until the app is deleted", async () => {
  await using harness = new ControlPlaneHarness({ images });
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  const { lines, has, reading } = followed(harness);
  await has(1);
  harness.apply("web", { ...web, image: "web:2" });
  await harness.waitUntilReady("web");
  await has(2);
  await harness.clock.advance(1_000);
  const [container] = harness.listContainers("web");
  harness.engine.kill(container?.id ?? "", 1);
  await has(3);
  expect(lines).toEqual(["one", "two", "two"]);

  harness.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => !harness.app("web"), 60_000, "the app is gone");
  await reading;
  expect(lines).toEqual(["one", "two", "two"]);
});

test("an abort ends the stream of a followed log at once", async () => {
  await using harness = new ControlPlaneHarness({ images });
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  const { lines, has, reading, ended } = followed(harness);
  await has(1);
  ended.abort();
  await reading;
  expect(lines).toEqual(["one"]);
});
