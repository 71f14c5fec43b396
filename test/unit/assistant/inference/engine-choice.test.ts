import { expect, it } from "vitest";
import { chooseEngine } from "../../../../src/assistant/inference/engine-choice.ts";

it.each([
  ["auto", false, { engine: "llama" }],
  ["llama", false, { engine: "llama" }],
  ["stub", false, { engine: "stub" }],
  ["stub", true, { engine: "stub" }],
] as const)(
  "the engine %s is used without a notice (on a system with musl: %s)",
  (wanted, isMusl, choice) => {
    expect(chooseEngine(wanted, { isMusl })).toEqual(choice);
  },
);

it("the engine auto is the stub on musl, with a notice", () => {
  const { engine, notice } = chooseEngine("auto", { isMusl: true });
  expect(engine).toBe("stub");
  expect(notice).toContain("musl");
});

it("the engine llama.cpp is refused on musl if it is chosen by name", () => {
  expect(() => chooseEngine("llama", { isMusl: true })).toThrow(
    expect.objectContaining({ code: "engine_failed" }),
  );
});
