import { basename } from "node:path";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";
import type { ContextEmbedder } from "../../src/assistant/context/port.ts";

/**
 * Loads an embedding model from a GGUF file into this process, without Berth's model process and scheduler. The
 * embedder computes the vector of each text only once, and ignores its abort signal.
 */
export async function loadGgufEmbedder(modelPath: string): Promise<ContextEmbedder> {
  const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: 1,
    logLevel: LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath });
  const context = await model.createEmbeddingContext({ threads: 1 });
  const known = new Map<string, Float32Array>();
  return {
    id: basename(modelPath),
    dimensions: model.embeddingVectorSize,
    async embed(texts) {
      const vectors: Float32Array[] = [];
      for (const text of texts) {
        const vector = known.get(text) ?? normalize((await context.getEmbeddingFor(text)).vector);
        known.set(text, vector);
        vectors.push(vector);
      }
      return vectors;
    },
  };
}

function normalize(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector) || 1;
  return Float32Array.from(vector, (value) => value / length);
}
