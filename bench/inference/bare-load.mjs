// Loads a model with node-llama-cpp alone and generates one token. model-start.ts measures the duration, which is the
// lower bound for Berth's own start of a model.
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [, , path = "", threads = "1", contextSize = "2048", sequences = "8"] = process.argv;
const llama = await getLlama({
  gpu: false,
  build: "never",
  maxThreads: Number(threads),
  logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({
  sequences: Number(sequences),
  contextSize: Number(contextSize),
  batchSize: 128,
  threads: Number(threads),
});
const tokens = model.tokenize("the quick brown fox jumps over the lazy dog");
const answer = context.getSequence().evaluate(tokens, { temperature: 0.8, yieldEogToken: true });
await answer.next();
process.send?.("first token");
