import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ControlPlane } from "../../src/controller/port.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { ModelSpec } from "../../src/resources/model-spec.ts";

/**
 * A control plane that follows no Git repository of specs, and the operations with which the tests change its desired
 * state.
 */
export interface ControlPlaneHarness extends AsyncDisposable {
  readonly control: ControlPlane;
  /** Writes the desired state. */
  apply(name: string, spec: AppSpec): void;
  applyModel(name: string, spec: ModelSpec): void;
  /** The spec of a Model. Its source exists until the test calls `loseSource`. */
  readonly model: ModelSpec;
  loseSource(): void;
}

/** Checks, for any ControlPlane, the behaviour that the API relies on. */
export function controlPlaneContract(
  adapter: string,
  open: () => Promise<ControlPlaneHarness>,
): void {
  describe(`the control plane: ${adapter}`, () => {
    const { signal } = new AbortController();
    let harness: ControlPlaneHarness;
    let control: ControlPlane;
    beforeAll(async () => {
      harness = await open();
      ({ control } = harness);
      harness.apply("stored", { image: "web:1" });
      harness.applyModel("stored-model", harness.model);
    });
    afterAll(() => harness[Symbol.asyncDispose]());

    it("the control plane describes the connected engine", () => {
      expect(control.engine()).toMatchObject({
        connected: true,
        info: { name: expect.any(String), cpus: expect.any(Number) },
        otherWriter: null,
      });
    });

    it("the control plane reports no problem with its data directory", () => {
      expect(control.diskProblem()).toBeNull();
    });

    it("the control plane computes the plan of an App that does not exist yet, from a spec", async () => {
      const plan = await control.planApp("planned", { image: "web:1" }, signal);
      expect(plan).toMatchObject({ app: "planned", changes: expect.any(Array) });
      expect(plan.operations.map(({ operation }) => operation)).toContain("createContainer");
      expect(["recreate", "rolling"]).toContain(plan.strategy);
      expect(plan.blockedBy).toBeNull();
    });

    it("the control plane computes the plan of a stored App for its current generation", async () => {
      expect(await control.planApp("stored", undefined, signal)).toMatchObject({
        app: "stored",
        generation: 1,
      });
    });

    it("the control plane computes the plan of a stored Model, and of a Model that is only described by a spec", async () => {
      expect(await control.planModel("stored-model", undefined, signal)).toMatchObject({
        model: "stored-model",
        generation: 1,
        operations: expect.any(Array),
      });
      const plan = await control.planModel("planned", harness.model, signal);
      expect(plan).toMatchObject({ model: "planned", changes: expect.any(Array) });
    });

    it("the control plane rejects a plan of an App or a Model that is neither stored nor described by a spec", async () => {
      const notFound = expect.objectContaining({ code: "not_found" });
      await expect(control.planApp("gone", undefined, signal)).rejects.toEqual(notFound);
      await expect(control.planModel("gone", undefined, signal)).rejects.toEqual(notFound);
    });

    it("the control plane checks whether the source of a Model exists", async () => {
      await control.checkSource(harness.model, signal);
      harness.loseSource();
      await expect(control.checkSource(harness.model, signal)).rejects.toMatchObject({
        code: "not_found",
      });
    });

    it("the control plane reports no download progress for a Model that does not exist", () => {
      expect(control.modelProgress("gone")).toBeUndefined();
    });

    it("the control plane reports the states of the assistant and the companion, and no models in the assistant's own folder", () => {
      const report = { state: expect.any(String), starts: expect.any(Number) };
      expect(control.assistant()).toMatchObject(report);
      expect(control.companion()).toMatchObject(report);
      expect(control.otherModels()).toEqual([]);
    });

    it("the control plane yields an empty log for an App that has written no lines, and rejects for an App that does not exist", async () => {
      harness.apply("silent", { image: "web:1", running: false });
      expect(await readLog(control, "silent")).toEqual([]);
      await expect(readLog(control, "gone")).rejects.toMatchObject({ code: "not_found" });
    });

    it("the control plane ignores a request to reconcile a resource that does not exist", () => {
      expect(() => control.wake("App", "gone")).not.toThrow();
      expect(() => control.wake("Model", "gone")).not.toThrow();
    });

    it("the control plane without a specs repository holds back no deletions, and refuses to synchronise", async () => {
      expect(control.specs().pendingPrune).toEqual([]);
      expect(control.confirmPrune()).toEqual([]);
      await expect(control.syncSpecs(signal)).rejects.toMatchObject({ code: "wrong_state" });
    });
  });
}

async function readLog(control: ControlPlane, app: string): Promise<string[]> {
  const { signal } = new AbortController();
  const lines: string[] = [];
  for await (const entry of control.appLogs(app, { tail: 10, follow: false }, signal))
    if (!("skipped" in entry)) lines.push(entry.message);
  return lines;
}
