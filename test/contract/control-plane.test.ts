import { NotFoundError } from "../../src/base/errors.ts";
import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { openTestStore } from "../support/test-store.ts";
import { controlPlaneContract } from "./control-plane-contract.ts";

const model = { source: "org/tiny" };

controlPlaneContract("in the process of the API", async () => {
  const harness = new ControlPlaneHarness().boot();
  harness.models.repositories.set(model.source, { commit: null, bytes: 10, memoryBytes: 10 });
  await harness.clock.advance(1_000);
  return {
    control: harness.controlPlane,
    apply: (name, spec) => harness.apply(name, spec),
    applyModel: (name, spec) => harness.applyModel(name, spec),
    model,
    loseSource: () => void harness.models.repositories.delete(model.source),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
});

controlPlaneContract("fake", async () => {
  const opened = openTestStore();
  const { store } = opened;
  const control = new FakeControlPlane(store);
  const write = { manager: "api", actor: { name: "test" }, mode: "replace" } as const;
  return {
    control,
    apply: (name, spec) => void store.apply({ kind: "App", name, spec, ...write }),
    applyModel: (name, spec) => void store.apply({ kind: "Model", name, spec, ...write }),
    model,
    loseSource: () => {
      control.sourceError = new NotFoundError(`there is no repository ${model.source}`);
    },
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
});
