import { beforeEach, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

let harness: ControlPlaneHarness;
const never = new AbortController().signal;
const check = (source: string) => harness.controlPlane.checkSource({ source }, never);

beforeEach(() => {
  harness = new ControlPlaneHarness();
  harness.models.repositories.set("org/there", {
    commit: "c1".repeat(20),
    bytes: 1,
    memoryBytes: 1,
  });
  harness.boot();
  return () => harness[Symbol.asyncDispose]();
});

test("an existing model source is accepted", async () => {
  await expect(check("org/there")).resolves.toBeUndefined();
});

test("a model source is refused if it does not exist, or if the hub denies access to it", async () => {
  await expect(check("org/nowhere")).rejects.toMatchObject({ code: "not_found" });
  harness.models.resolveErrors.push(new BerthError("hub_denied", "it is gated"));
  await expect(check("org/there")).rejects.toMatchObject({ code: "hub_denied" });
});

test("an unreachable hub does not cause a refusal; an aborted check rejects", async () => {
  harness.models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
  await expect(check("org/there")).resolves.toBeUndefined();
  const leaving = new AbortController();
  leaving.abort();
  await expect(
    harness.controlPlane.checkSource({ source: "org/there" }, leaving.signal),
  ).rejects.toMatchObject({ name: "AbortError" });
});
