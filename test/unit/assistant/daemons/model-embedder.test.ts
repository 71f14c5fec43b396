import { expect, it } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import type { ContextEmbedder } from "../../../../src/assistant/context/port.ts";
import {
  AwaitedEmbedder,
  connectModelEmbedder,
} from "../../../../src/assistant/daemons/model-embedder.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { ScriptedService } from "../../../support/scripted-service.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MODEL = "hub/org/embedder:q8";
const { signal } = new AbortController();

it("the embedder returns the model's vectors, and requests them with background priority", async () => {
  const service = new ScriptedService();
  const embedder = await connectModelEmbedder({ service, model: MODEL, logger: silentLogger });
  expect(embedder).toMatchObject({ id: `model:${MODEL}:8`, dimensions: 8 });
  expect(service.embeds).toEqual([]);
  const vectors = await embedder?.embed(["one", "two"], signal);
  expect(vectors).toHaveLength(2);
  expect(service.embeds).toMatchObject([
    { model: MODEL, texts: ["one", "two"], priority: "background" },
  ]);
});

it("the embedder embeds a sample text if the length of the vectors is unknown", async () => {
  const service = new ScriptedService();
  const vectors = [new Float32Array([1, 0, 0])];
  service.embedder = async () => ({ model: "late", ledgerSeq: 1, vectors, tokens: [1] });
  const embedder = await connectModelEmbedder({ service, model: "late", logger: silentLogger });
  expect(embedder).toMatchObject({ id: "model:late:3", dimensions: 3 });
});

it("the embedder is undefined if the model is not available", async () => {
  const service = new ScriptedService();
  service.embedder = async () => {
    throw new AssistantError("model_not_found", "there is no such model");
  };
  expect(
    await connectModelEmbedder({ service, model: "late", logger: silentLogger }),
  ).toBeUndefined();
});

it("the embedder polls until the model is available, and stops after disposal", async () => {
  const service = new ScriptedService();
  const clock = new VirtualClock();
  const found: ContextEmbedder[] = [];
  let asked = 0;
  service.embedder = async () => {
    asked += 1;
    if (asked < 3) throw new AssistantError("no_model", "nobody is there");
    return { model: "late", ledgerSeq: 1, vectors: [new Float32Array([1, 0])], tokens: [1] };
  };
  const wanted = { service, model: "late", logger: silentLogger, clock };
  const onFound = (embedder: ContextEmbedder) => void found.push(embedder);
  using looking = new AwaitedEmbedder({ ...wanted, onFound });
  expect(looking).toBeDefined();
  for (const times of [1, 2]) {
    await expect.poll(() => asked).toBe(times);
    expect(found).toEqual([]);
    await clock.advance(30_000);
  }
  await expect.poll(() => found).toMatchObject([{ id: "model:late:2" }]);

  asked = 0;
  const ended = new AwaitedEmbedder({ ...wanted, onFound });
  await expect.poll(() => asked).toBe(1);
  ended[Symbol.dispose]();
  await clock.advance(90_000);
  expect(asked).toBe(1);
});
