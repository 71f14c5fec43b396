import * as library from "node-llama-cpp";
import { expect, it } from "vitest";
import {
  embeddingArchitectures,
  knownArchitectures,
} from "../../../../../src/assistant/inference/llama/gguf/architectures.ts";

it("Berth knows every model architecture of node-llama-cpp, except those that are not language models", () => {
  // GgufArchitectureType is a const enum in TypeScript, so its members can be listed only from the run-time object.
  const names = Object.values(
    Object.entries(library).find(([name]) => name === "GgufArchitectureType")?.[1] ?? {},
  ).map(String);
  expect(names.length).toBeGreaterThan(100);
  const unknown = names.filter((name) => !knownArchitectures.has(name));
  expect(new Set(unknown)).toEqual(new Set(["(unknown)", "clip"]));
  expect([...embeddingArchitectures].filter((name) => !knownArchitectures.has(name))).toEqual([]);
});
