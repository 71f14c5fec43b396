import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const value = "hunter2-and-more";

function withSecret(
  world: ControlPlaneHarness,
  image: string,
  healthCheck: { command?: string[] } = {},
): void {
  world.store.apply({
    kind: "Secret",
    name: "token",
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec: { data: { value } },
  });
  world.apply("web", {
    image,
    port: 80,
    env: { TOKEN: { secret: "token" } },
    healthCheck,
    rollout: { progressDeadline: "10s" },
  });
}

const told = (world: ControlPlaneHarness) =>
  JSON.stringify([
    world.app("web")?.status,
    world.store.events.list({ limit: 100 }),
    world.store.revisions.list("web"),
  ]);

test("a secret in the log of an app is masked in status and events", async () => {
  await using world = new ControlPlaneHarness({
    images: { "bad:1": { exits: { afterMs: 10, code: 1 }, logs: [`cannot log in with ${value}`] } },
  }).boot();
  withSecret(world, "bad:1");
  await world.waitForPhase("web", "failed");
  expect(told(world)).toContain("cannot log in with");
  expect(told(world)).not.toContain(value);
});

test("a secret in the output of a health check is masked", async () => {
  await using world = new ControlPlaneHarness({
    images: { "sick:1": { exec: () => ({ exitCode: 1, output: `denied for ${value}` }) } },
  }).boot();
  withSecret(world, "sick:1", { command: ["check"] });
  await world.clock.advance(2_000);
  expect(told(world)).toContain("denied for");
  expect(told(world)).not.toContain(value);
  await world.waitForPhase("web", "failed");
  expect(told(world)).not.toContain(value);
});

test("a secret in the engine's error of a failed start is masked", async () => {
  await using world = new ControlPlaneHarness({
    images: { "bad:1": { startError: `exec: "${value}": no such file` } },
  }).boot();
  withSecret(world, "bad:1");
  await world.waitForPhase("web", "failed");
  expect(told(world)).toContain("no such file");
  expect(told(world)).not.toContain(value);
});
