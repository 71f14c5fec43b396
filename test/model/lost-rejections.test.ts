import { expect, it } from "vitest";
import { getModelFile } from "../support/gguf/preset-model.ts";
import {
  collectEvents,
  createLoadRequest,
  createTextJob,
  never,
  setUpEngine,
} from "./llama-engine-setup.ts";

const engine = setUpEngine();

it("a request whose token cannot be sampled fails soon, and so does the model", async () => {
  // All logits of this model are NaN, so node-llama-cpp chooses a token that the grammar does not accept. It then
  // rejects a promise that no code awaits, and without a special check the decoding step would never end.
  const path = await getModelFile("tiny", { notANumber: true });
  await using model = await engine().load(createLoadRequest(path), never);
  const job = createTextJob("Hello", {}, { grammar: 'root ::= "yes" | "no"' });
  const answer = collectEvents(model.generate(job, never));
  await expect(answer).rejects.toMatchObject({ code: "engine_failed" });
  expect(await model.ended).toEqual({ reason: "a call to the inference engine failed" });
});
