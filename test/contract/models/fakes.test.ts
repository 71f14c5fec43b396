import { BerthError } from "../../../src/base/errors.ts";
import {
  createResolvedModel,
  FakeAssistant,
  FakeModelEnvironment,
  FakeModelFiles,
  FakeSources,
} from "../../support/fake-models.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";
import { assistantContract } from "./assistant-contract.ts";
import { filesContract } from "./files-contract.ts";
import { sourcesContract } from "./sources-contract.ts";

const repository = { commit: "ab".repeat(20), bytes: 1_000, memoryBytes: 300 };
const disposable = { [Symbol.asyncDispose]: async () => {} };

function openWorld() {
  const clock = new VirtualClock();
  const harness = new FakeModelEnvironment(clock);
  const settle = async <T>(work: Promise<T>): Promise<T> => {
    work.catch(() => {});
    await clock.advance(60_000);
    return work;
  };
  return { clock, harness, settle };
}

filesContract("the fake", async () => {
  const { clock, harness, settle } = openWorld();
  return {
    ...disposable,
    settle,
    files: new FakeModelFiles(harness, clock),
    model: async (name) => createResolvedModel(`org/${name}`, repository),
    cutNext: () => harness.downloadErrors.push(new BerthError("hub_unreachable", "cut")),
    lieNext: () => harness.downloadErrors.push(new BerthError("digest_mismatch", "another file")),
    damage: async ({ key }) => void harness.damaged.add(key),
  };
});

assistantContract("the fake", async () => {
  const { clock, harness, settle } = openWorld();
  harness.repositories.set("org/one", repository);
  const { key, files } = createResolvedModel("org/one", repository);
  return {
    ...disposable,
    settle,
    assistant: new FakeAssistant(harness, clock),
    good: `/models/${key}/${files[0]?.name}`,
    broken: "/models/nothing.gguf",
    end: async () => {
      harness.isReachable = false;
    },
  };
});

sourcesContract("the fake", async () => {
  const { harness } = openWorld();
  harness.repositories.set("org/one", repository);
  return {
    ...disposable,
    sources: new FakeSources(harness),
    commit: async () =>
      void harness.repositories.set("org/one", { ...repository, commit: "cd".repeat(20) }),
    failNext: () => harness.resolveErrors.push(new BerthError("hub_unreachable", "no answer")),
  };
});
