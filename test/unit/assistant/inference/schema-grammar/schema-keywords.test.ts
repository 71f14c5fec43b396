import { describe, expect, test } from "vitest";
import { compileSchema } from "../../../../../src/assistant/inference/schema-grammar/compile-schema.ts";
import { createDocumentValidator } from "../../../../../src/assistant/inference/schema-grammar/document-validator.ts";
import { scalarGrammar } from "../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { GbnfAcceptor } from "../../../../support/gbnf-acceptor.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";
import { GbnfSampler } from "../../../../support/gbnf-sampler.ts";
import { seededRandom } from "../../../../support/random.ts";
import { applicatorCases } from "../../../../support/schema-cases-applicators.ts";
import { clientCases } from "../../../../support/schema-cases-clients.ts";
import { containerCases } from "../../../../support/schema-cases-containers.ts";
import { valueCases } from "../../../../support/schema-cases-values.ts";

const SAMPLES = 40;

describe.each([...valueCases, ...containerCases, ...applicatorCases, ...clientCases])(
  'the case "$name":',
  ({ schema, valid, invalid, outside = [] }) => {
    const { gbnf, example } = compileSchema(schema, scalarGrammar);
    const grammar = parseGbnf(gbnf);
    const acceptor = new GbnfAcceptor(grammar);
    const accepts = (document: unknown) => acceptor.accepts(JSON.stringify(document));
    const problems = createDocumentValidator(schema);

    test("the grammar accepts the valid documents of the test case, and not the invalid ones", () => {
      expect(valid.filter((document) => !accepts(document))).toEqual([]);
      expect(invalid.filter(accepts)).toEqual([]);
      expect(outside.filter(accepts)).toEqual([]);
    });

    test("Ajv agrees with the test case about which documents are valid", () => {
      expect([...valid, ...outside].flatMap(problems)).toEqual([]);
      expect(invalid.filter((document) => problems(document).length === 0)).toEqual([]);
    });

    test("the shortest document of the grammar and random samples of the grammar are valid", () => {
      const sampler = new GbnfSampler(grammar);
      const random = seededRandom(1);
      const texts = [example, ...Array.from({ length: SAMPLES }, () => sampler.sample(random))];
      const wrong = texts.filter((text) => problems(JSON.parse(text)).length > 0);
      expect(wrong).toEqual([]);
      expect(texts.every((text) => acceptor.accepts(text))).toBe(true);
    });
  },
);
