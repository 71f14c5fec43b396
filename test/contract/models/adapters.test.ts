import { randomBytes } from "node:crypto";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { ControlClient } from "../../../src/controller/models/assistant/control-client.ts";
import { ControlTransport } from "../../../src/controller/models/assistant/control-transport.ts";
import { ModelDisk } from "../../../src/controller/models/files/model-disk.ts";
import { ModelSourceResolver } from "../../../src/controller/models/hub/model-source-resolver.ts";
import { AssistantProcess } from "../../support/assistant-process.ts";
import { getModelFile } from "../../support/gguf/preset-model.ts";
import { Hub } from "../../support/hub/hub.ts";
import { assistantContract } from "./assistant-contract.ts";
import { filesContract } from "./files-contract.ts";
import { sourcesContract } from "./sources-contract.ts";

const settle = <T>(work: Promise<T>): Promise<T> => work;
const ask = {
  file: undefined,
  quantization: undefined,
  revision: undefined,
  sha256: undefined,
  token: undefined,
};
const never = new AbortController().signal;

async function openHub() {
  const hub = await Hub.open();
  const sources = new ModelSourceResolver({
    endpoint: hub.url,
    token: undefined,
    clock: systemClock,
  });
  return { hub, sources };
}

filesContract("the disk, from a hub", async () => {
  const { hub, sources } = await openHub();
  const dir = await mkdtemp(join(tmpdir(), "berth-files-contract-"));
  const files = new ModelDisk({
    assertUsable: () => Promise.resolve(),
    dir,
    clock: systemClock,
    logger: silentLogger,
    budgetBytes: undefined,
    bandwidthBytesPerSecond: undefined,
    version: "0",
    // Downloads are not retried here: one fails at its first error, and the tests of the contract start it again
    // themselves.
    limits: { stallMs: 10_000, retryMs: 1, retriesMax: 0 },
  });
  return {
    settle,
    files,
    model: async (name) => {
      await hub.addRepository({
        id: `org/${name}`,
        files: { [`${name}.gguf`]: randomBytes(300_000) },
      });
      return sources.resolve({ ...ask, source: `org/${name}` }, never);
    },
    cutNext: () => void hub.faults.add({ on: "cdn", type: "cut", afterBytes: 100_000, times: 1 }),
    lieNext: () => void hub.faults.add({ on: "cdn", type: "flip", atByte: 7, times: 1 }),
    damage: async (model) => {
      const stored = await files.find(model);
      const handle = await open(stored?.path ?? "", "r+");
      await handle.write(Buffer.from([0xff, 0x00, 0xff]), 0, 3, 1_000);
      await handle.close();
    },
    [Symbol.asyncDispose]: async () => {
      await files[Symbol.asyncDispose]();
      await hub[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
});

assistantContract("a daemon with llama.cpp", async () => {
  const daemon = await AssistantProcess.start(["--engine", "llama"]);
  const calls = new ControlTransport({ dataDir: daemon.dataDir });
  const broken = join(daemon.dataDir, "broken.gguf");
  await writeFile(broken, "GGUF, it says");
  return {
    settle,
    assistant: new ControlClient({ calls }),
    good: await getModelFile("tiny"),
    broken,
    end: async () => void (await daemon.stop("SIGKILL")),
    [Symbol.asyncDispose]: async () => {
      calls[Symbol.dispose]();
      await daemon[Symbol.asyncDispose]();
    },
  };
});

sourcesContract("a hub", async () => {
  const { hub, sources } = await openHub();
  const repository = await hub.addRepository({
    id: "org/one",
    files: { "one.gguf": randomBytes(2_000) },
  });
  return {
    sources,
    commit: async () => void (await repository.commit({ "one.gguf": randomBytes(2_000) })),
    failNext: () => void hub.faults.add({ on: "api", type: "status", status: 503, times: 1 }),
    [Symbol.asyncDispose]: () => hub[Symbol.asyncDispose](),
  };
});
