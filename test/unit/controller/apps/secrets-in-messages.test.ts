import { expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const value = "hunter2-and-more";

function withSecret(
  harness: ControlPlaneHarness,
  image: string,
  healthCheck: { command?: string[] } = {},
): void {
  applyResource(harness.store, "Secret", "token", { data: { value } });
  harness.apply("web", {
    image,
    port: 80,
    env: { TOKEN: { secret: "token" } },
    healthCheck,
    rollout: { progressDeadline: "10s" },
  });
}

const told = (harness: ControlPlaneHarness) =>
  JSON.stringify([
    harness.app("web")?.status,
    harness.store.events.list({ limit: 100 }),
    harness.store.revisions.list("web"),
  ]);

test("a secret in the log of an app is masked in status and events", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "bad:1": { exits: { afterMs: 10, code: 1 }, logs: [`cannot log in with ${value}`] } },
  }).boot();
  withSecret(harness, "bad:1");
  await harness.waitForPhase("web", "failed");
  expect(told(harness)).toContain("cannot log in with");
  expect(told(harness)).not.toContain(value);
});

test("a secret in the output of a health check is masked", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "sick:1": { exec: () => ({ exitCode: 1, output: `denied for ${value}` }) } },
  }).boot();
  withSecret(harness, "sick:1", { command: ["check"] });
  await harness.clock.advance(2_000);
  expect(told(harness)).toContain("denied for");
  expect(told(harness)).not.toContain(value);
  await harness.waitForPhase("web", "failed");
  expect(told(harness)).not.toContain(value);
});

test("a secret in the engine's error of a failed start is masked", async () => {
  await using harness = new ControlPlaneHarness({
    images: { "bad:1": { startError: `exec: "${value}": no such file` } },
  }).boot();
  withSecret(harness, "bad:1");
  await harness.waitForPhase("web", "failed");
  expect(told(harness)).toContain("no such file");
  expect(told(harness)).not.toContain(value);
});
