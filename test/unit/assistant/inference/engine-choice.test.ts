import { expect, it } from "vitest";
import { chooseEngine } from "../../../../src/assistant/inference/engine-choice.ts";

it.each([
  ["auto", false, { engine: "llama" }],
  ["llama", false, { engine: "llama" }],
  ["stub", false, { engine: "stub" }],
  ["stub", true, { engine: "stub" }],
] as const)("%s, with musl %s, needs no explanation", (wanted, isMusl, choice) => {
  expect(chooseEngine(wanted, { isMusl })).toEqual(choice);
});

it("auto is the stub on musl, and says why", () => {
  const { engine, notice } = chooseEngine("auto", { isMusl: true });
  expect(engine).toBe("stub");
  expect(notice).toContain("musl");
});

it("llama.cpp by name is refused on musl", () => {
  expect(() => chooseEngine("llama", { isMusl: true })).toThrow(
    expect.objectContaining({ code: "engine_failed" }),
  );
});
