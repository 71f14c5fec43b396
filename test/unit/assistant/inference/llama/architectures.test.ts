import * as library from "node-llama-cpp";
import { expect, it } from "vitest";
import {
  embeddingArchitectures,
  knownArchitectures,
} from "../../../../../src/assistant/inference/llama/gguf/architectures.ts";

it("every architecture of the library is known, except those that are not language models", () => {
  // The library declares a const enum, so only the object at run time can be listed.
  const names = Object.values(
    Object.entries(library).find(([name]) => name === "GgufArchitectureType")?.[1] ?? {},
  ).map(String);
  expect(names.length).toBeGreaterThan(100);
  const unknown = names.filter((name) => !knownArchitectures.has(name));
  expect(new Set(unknown)).toEqual(new Set(["(unknown)", "clip"]));
  expect([...embeddingArchitectures].filter((name) => !knownArchitectures.has(name))).toEqual([]);
});
