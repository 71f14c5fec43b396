import { expect, test } from "vitest";
import type { ContainerSpec } from "../../../../src/controller/runtime/port.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

/**
 * These tests create containers on an in-memory engine as another program would: with Berth's labels, but with settings
 * that Berth would not choose.
 */

const web = { image: "web:1", port: 80, env: { GREETING: "hi" } } as const;

async function start(spec: Parameters<ControlPlaneHarness["apply"]>[1] = web) {
  const harness = new ControlPlaneHarness({
    images: { "web:1": {}, "web:2": {} },
    ingress: "fake",
  }).boot();
  harness.apply("web", spec);
  await harness.waitUntilReady("web");
  await harness.clock.advance(30_000);
  return harness;
}

const onlyContainer = (harness: ControlPlaneHarness) => {
  const [container, ...others] = harness.listContainers("web");
  if (!container || others.length > 0) throw new Error("there is not exactly one container");
  return container;
};

const messagesOf = (harness: ControlPlaneHarness, reason: string) =>
  harness.store.events
    .list({ kind: "App", name: "web", limit: 100 })
    .filter((event) => event.reason === reason)
    .map(({ message }) => message);

const planned = async (harness: ControlPlaneHarness) => {
  const { signal } = new AbortController();
  const { operations } = await harness.controlPlane.planApp("web", undefined, signal);
  return operations;
};

const changes: [name: string, changes: Partial<ContainerSpec>, foreign?: readonly string[]][] = [
  ["image", { image: "web:2" }],
  ["env GREETING", { env: ["GREETING=bye"] }],
  ["env GREETING", { env: [] }],
  ["env EXTRA", { env: ["GREETING=hi", "EXTRA=secret-value"] }],
  ["command", { command: ["sleep", "1000"] }],
  ["entrypoint", { entrypoint: ["sh"] }],
  ["user", { user: "root" }],
  ["workingDir", { workingDir: "/tmp" }],
  ["volumes", { mounts: [{ type: "bind", hostPath: "/", path: "/host", readOnly: false }] }],
  [
    "ports",
    {
      publish: [{ containerPort: 80, protocol: "tcp", hostAddress: "0.0.0.0", hostPort: 8080 }],
    },
  ],
  ["hostAliases", { hostAliases: ["models.internal"] }],
  ["aliases", { aliases: ["web", "db"] }],
  ["aliases", { aliases: [] }],
  ["Privileged", {}, ["Privileged"]],
];

test.each(changes)(
  "a container that was made by hand with another %s is replaced",
  async (name, change, foreign) => {
    await using harness = await start();
    const { id, spec, imageId } = onlyContainer(harness);
    const { id: foreignId } = harness.engine.recreate(id, change, foreign);
    const plan = await planned(harness);
    expect(plan.map(({ operation }) => operation)).toEqual(
      expect.arrayContaining(["removeContainer", "createContainer"]),
    );
    expect(plan.some(({ cause }) => cause.includes(name))).toBe(true);

    await harness.clock.advance(1_000);
    await harness.waitUntilReady("web");
    const replaced = onlyContainer(harness);
    expect(replaced.id).not.toBe(foreignId);
    expect(replaced).toMatchObject({ imageId, foreign: [], spec });
    const messages = messagesOf(harness, "DriftCorrected");
    expect(messages).toEqual([`web: "${name}" was changed by hand; it is corrected`]);
    expect(JSON.stringify([plan, messages])).not.toContain("secret-value");
  },
);

test("settings that containers inherit from the image do not count as a difference", async () => {
  await using harness = new ControlPlaneHarness({
    images: {
      "web:1": {
        defaults: {
          env: ["PATH=/bin", "GREETING=from the image"],
          entrypoint: ["/entry"],
          command: ["serve"],
          user: "app",
          workingDir: "/app",
        },
      },
    },
  }).boot();
  harness.apply("web", { ...web, workingDir: "/app/" });
  await harness.waitUntilReady("web");
  const { id } = onlyContainer(harness);
  await harness.kill();
  harness.boot();
  await harness.clock.advance(300_000);
  expect(onlyContainer(harness).id).toBe(id);
  expect(messagesOf(harness, "DriftCorrected")).toEqual([]);
});

test("a container that was connected to another network is replaced", async () => {
  await using harness = await start();
  const { id } = onlyContainer(harness);
  harness.engine.connect(id, "elsewhere");
  await harness.clock.advance(1_000);
  await harness.waitUntilReady("web");
  expect([...onlyContainer(harness).networks.keys()]).toEqual(["berth-0123abcd"]);
  expect(messagesOf(harness, "DriftCorrected")[0]).toContain("networks");
});

test("a copy that another program made of an app's container is removed, and the app's own container is kept", async () => {
  await using harness = await start();
  const { id, spec } = onlyContainer(harness);
  const copy = harness.engine.create({ ...spec, name: "a-copy", env: ["GREETING=bye"] });
  harness.engine.start(copy.id);
  await harness.clock.advance(60_000);
  await harness.waitUntilReady("web");
  expect(onlyContainer(harness).id).toBe(id);
});

test("a foreign container is not replaced while the image of the revision is missing, and the app is not Ready", async () => {
  await using harness = await start();
  const { id, imageId } = onlyContainer(harness);
  const { engine } = harness;
  engine.registry.clear();
  engine.registryDigests.clear();
  const foreign = engine.recreate(id, { image: "web:2" });
  engine.localImages.delete("web:1");
  await harness.clock.advance(120_000);
  expect(onlyContainer(harness)).toMatchObject({ id: foreign.id, state: "running" });
  expect(harness.condition("web", "Ready")?.status).toBe("False");
  expect(harness.condition("web", "Drifted")).toMatchObject({
    status: "True",
    reason: "OtherSettings",
    message: expect.stringContaining("image"),
  });

  engine.setImage("web:1", foreign.image);
  const held = engine.localImages.get("web:1");
  if (held) engine.localImages.set("web:1", { ...held, id: imageId });
  harness.retry("web");
  await harness.waitUntilReady("web");
  expect(onlyContainer(harness)).toMatchObject({ imageId });
  expect(harness.condition("web", "Drifted")).toBeUndefined();
});

test("while an app is suspended, Berth does not replace a container that another program has made for the app", async () => {
  await using harness = await start();
  harness.apply("web", { ...web, suspend: true });
  await harness.clock.advance(1_000);
  const foreign = harness.engine.recreate(onlyContainer(harness).id, { image: "web:2" });
  await harness.clock.advance(120_000);
  expect(onlyContainer(harness).id).toBe(foreign.id);
});

test("the same change by hand is left alone after three corrections, and named in the status", async () => {
  await using harness = await start();
  for (let round = 0; round < 4; round += 1) {
    harness.engine.recreate(onlyContainer(harness).id, { env: ["GREETING=secret-value"] });
    await harness.clock.advance(20_000);
  }
  const drifted = harness.condition("web", "Drifted");
  expect(drifted).toMatchObject({ status: "True", reason: "DriftLoop" });
  expect(drifted?.message).toContain("env GREETING");
  expect(drifted?.message).not.toContain("secret-value");
  expect(onlyContainer(harness).spec.env).toEqual(["GREETING=secret-value"]);
});

const { port: _port, ...worker } = web;

test.each([
  ["an app with requests", web],
  ["an app without a port", worker],
])(
  "while a newer version waits, the running version of %s is compared with its spec too: the status names a setting changed by hand, and nothing is replaced",
  async (_name, before) => {
    await using harness = await start(before);
    harness.apply("web", { ...before, image: "web:2", dependsOn: ["db"] });
    await harness.clock.advance(1_000);
    expect(harness.condition("web", "Drifted")).toBeUndefined();
    const { id } = onlyContainer(harness);
    const foreign = harness.engine.recreate(id, { env: ["GREETING=secret-value"] });
    await harness.clock.advance(60_000);
    const drifted = harness.condition("web", "Drifted");
    expect(drifted).toMatchObject({ status: "True", reason: "OtherSettings" });
    expect(drifted?.message).toContain("of an earlier version, which still runs");
    expect(drifted?.message).toContain("env GREETING");
    expect(drifted?.message).not.toContain("secret-value");
    expect(onlyContainer(harness)).toMatchObject({ id: foreign.id, state: "running" });
    harness.apply("db", { image: "web:1" });
    await harness.waitUntilReady("web");
    await harness.clock.advance(60_000);
    expect(onlyContainer(harness).spec.image).toBe("web:2");
    expect(harness.condition("web", "Drifted")).toBeUndefined();
  },
);
