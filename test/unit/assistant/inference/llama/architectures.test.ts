import * as library from "node-llama-cpp";
import { expect, it } from "vitest";
import {
  embeddingArchitectures,
  knownArchitectures,
} from "../../../../../src/assistant/inference/llama/gguf/architectures.ts";

it("every model architecture of the library is known, except those that are not language models", () => {
  // The library declares a const enum, so its members can be listed only from the object at run time.
  const names = Object.values(
    Object.entries(library).find(([name]) => name === "GgufArchitectureType")?.[1] ?? {},
  ).map(String);
  expect(names.length).toBeGreaterThan(100);
  const unknown = names.filter((name) => !knownArchitectures.has(name));
  expect(new Set(unknown)).toEqual(new Set(["(unknown)", "clip"]));
  expect([...embeddingArchitectures].filter((name) => !knownArchitectures.has(name))).toEqual([]);
});
