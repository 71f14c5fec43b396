import { getLlama, type Llama, type LlamaGrammar } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { compileSchema } from "../../src/assistant/inference/schema-grammar/compile-schema.ts";
import { scalarGrammar } from "../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { parseGbnf } from "../support/gbnf-grammar.ts";
import { GbnfSampler } from "../support/gbnf-sampler.ts";
import { hostileSchemas } from "../support/hostile-schemas.ts";
import { seededRandom } from "../support/random.ts";
import { applicatorCases } from "../support/schema-cases-applicators.ts";
import { clientCases } from "../support/schema-cases-clients.ts";
import { containerCases } from "../support/schema-cases-containers.ts";
import { valueCases } from "../support/schema-cases-values.ts";

/** The time limit for llama.cpp to parse a grammar in native code, which cannot be interrupted. */
const PARSE_MAX_MS = 30_000;

let llama: Llama;

beforeAll(async () => {
  llama = await getLlama({ gpu: false, build: "never", maxThreads: 1, logger: () => {} });
});

afterAll(() => llama.dispose());

describe("llama.cpp parses every grammar as the compiler intends", () => {
  test.each([...valueCases, ...containerCases, ...applicatorCases, ...clientCases])(
    "$name",
    async ({ schema, valid, invalid, outside = [] }) => {
      const { gbnf, example } = compileSchema(schema, scalarGrammar);
      const grammar = await llama.createGrammar({ grammar: gbnf });
      const accepts = (document: unknown) => acceptsText(grammar, JSON.stringify(document));
      expect(valid.filter((document) => !accepts(document))).toEqual([]);
      expect([...invalid, ...outside].filter(accepts)).toEqual([]);
      const sampler = new GbnfSampler(parseGbnf(gbnf));
      const random = seededRandom(7);
      const texts = [example, ...Array.from({ length: 5 }, () => sampler.sample(random, 60))];
      expect(texts.filter((text) => !acceptsText(grammar, text))).toEqual([]);
    },
  );
});

describe("llama.cpp parses the grammars of hostile schemas within the time limit", () => {
  test.each(hostileSchemas.filter(({ outcome }) => outcome !== "refused"))(
    "$name",
    async ({ schema }) => {
      let gbnf: string;
      try {
        ({ gbnf } = compileSchema(schema, scalarGrammar));
      } catch (error) {
        expect(error).toBeInstanceOf(AssistantError);
        return;
      }
      const start = performance.now();
      await llama.createGrammar({ grammar: gbnf });
      expect(performance.now() - start).toBeLessThan(PARSE_MAX_MS);
    },
  );
});

/** Returns true if the grammar accepts the text. No public method of node-llama-cpp checks this without a model. */
function acceptsText(grammar: LlamaGrammar, text: string): boolean {
  const check: unknown = Reflect.get(grammar, "_testText");
  if (typeof check !== "function") throw new Error("node-llama-cpp has no check of texts any more");
  return Reflect.apply(check, grammar, [text]) === true;
}
