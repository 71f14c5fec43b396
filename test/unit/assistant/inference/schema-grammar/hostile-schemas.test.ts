import { afterAll, describe, expect, test } from "vitest";
import { GrammarCompiler } from "../../../../../src/assistant/inference/schema-grammar/grammar-compiler.ts";
import { schemaLimits } from "../../../../../src/assistant/inference/schema-grammar/schema-limits.ts";
import { getErrorMessage } from "../../../../../src/base/errors.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";
import { hostileSchemas } from "../../../../support/hostile-schemas.ts";

const compiler = new GrammarCompiler({ logger: silentLogger });
const { signal } = new AbortController();

afterAll(() => compiler[Symbol.asyncDispose]());

describe.each(hostileSchemas)("$name", ({ schema, outcome }) => {
  test(`is ${outcome}, within the limits on time and size`, async () => {
    let gbnf: string;
    try {
      ({ gbnf } = await compiler.compile(schema, signal));
    } catch (error) {
      expect(outcome).not.toBe("compiled");
      expect(error).toMatchObject({ code: "unsupported_schema" });
      expect(getErrorMessage(error).length).toBeLessThan(1_000);
      return;
    }
    expect(outcome).not.toBe("refused");
    expect(Buffer.byteLength(gbnf)).toBeLessThanOrEqual(schemaLimits.grammarBytes);
    // The test's parser makes the same checks as llama.cpp: no left recursion, and no repetition that llama.cpp refuses
    // or drops.
    expect(parseGbnf(gbnf).rules.length).toBeGreaterThan(0);
  });
});

test("an ordinary schema compiles after the hostile schemas", async () => {
  const { example } = await compiler.compile({ type: "array", items: { const: 1 } }, signal);
  expect(example).toBe("[]");
});
