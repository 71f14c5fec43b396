import { afterEach, beforeEach, expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const spec = { image: "web:1", port: 80, volumes: [{ name: "data", path: "/data" }] };

let harness: ControlPlaneHarness;

beforeEach(async () => {
  harness = new ControlPlaneHarness();
  harness.boot();
  harness.apply("old", spec);
  await harness.waitUntilReady("old");
});
afterEach(() => harness[Symbol.asyncDispose]());

async function remove(deleteVolumes = false): Promise<void> {
  harness.store.delete("App", "old", { actor: { name: "test" }, manager: "api", deleteVolumes });
  await harness.clock.until(() => !harness.app("old"), 60_000, "the app is gone");
}

const offers = () =>
  harness.store.events
    .list({ kind: "App", name: "new", limit: 100 })
    .filter(({ reason }) => reason === "VolumeKept")
    .map(({ message }) => message);

const OFFER =
  /"old" has left a volume "data".*-v berth-0123abcd-old-data:\/from:ro -v berth-0123abcd-new-data:\/to/;

test("a new app is offered the volume of a deleted app if the volume has the same name", async () => {
  await remove();
  harness.apply("new", spec);
  await harness.waitUntilReady("new");
  expect(offers()).toEqual([expect.stringMatching(OFFER)]);
});

test("an existing app is offered the volume of an app that is deleted later if the volume has the same name", async () => {
  harness.apply("new", spec);
  await harness.waitUntilReady("new");
  expect(offers()).toEqual([]);
  await remove();
  expect(offers()).toEqual([expect.stringMatching(OFFER)]);
});

test("no app is offered a volume that has another name, was deleted together with its app, or still belongs to an app", async () => {
  harness.apply("new", spec);
  await harness.waitUntilReady("new");
  await remove(true);
  expect(offers()).toEqual([]);
  harness.apply("third", { ...spec, volumes: [{ name: "other", path: "/data" }] });
  await harness.waitUntilReady("third");
  expect(harness.store.events.list({ name: "third", limit: 100 })).not.toContainEqual(
    expect.objectContaining({ reason: "VolumeKept" }),
  );
});
