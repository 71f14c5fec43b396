import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LlamaEngine } from "../../src/assistant/inference/llama/llama-engine.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { engineContract } from "../contract/assistant/engine-contract.ts";
import { writeDamagedModel } from "../support/gguf/damaged-model.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";

engineContract("llama.cpp", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-contract-"));
  const damaged = join(folder, "damaged.gguf");
  await writeDamagedModel(damaged, "truncated-tensors");
  return {
    engine: new LlamaEngine({
      clock: systemClock,
      logger: silentLogger,
      threads: 1,
      cacheDir: join(folder, "cache"),
    }),
    name: "llama.cpp",
    file: { id: "model", path: await getModelFile("tiny", { endsAfter: null }) },
    embeddingFile: { id: "embedding", path: await getModelFile("embedding") },
    damagedFile: { id: "damaged", path: damaged },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
});
