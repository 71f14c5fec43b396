import fc from "fast-check";
import { expect, test } from "vitest";
import { compileSchema } from "../../../../../src/assistant/inference/schema-grammar/compile-schema.ts";
import { createDocumentValidator } from "../../../../../src/assistant/inference/schema-grammar/document-validator.ts";
import { scalarGrammar } from "../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { GbnfAcceptor } from "../../../../support/gbnf-acceptor.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";
import { GbnfSampler } from "../../../../support/gbnf-sampler.ts";
import { seededRandom } from "../../../../support/random.ts";
import { arbitrarySchemaAndDocument } from "../../../../support/schema-arbitrary.ts";

const RUNS = 100;
const SAMPLES = 8;

test("for any schema, samples of the grammar are valid, and valid documents in the schema's order are accepted", () => {
  fc.assert(
    fc.property(arbitrarySchemaAndDocument(3), fc.integer(), ({ schema, document }, seed) => {
      const { gbnf, example } = compileSchema(schema, scalarGrammar);
      const grammar = parseGbnf(gbnf);
      const acceptor = new GbnfAcceptor(grammar);
      const problems = createDocumentValidator(schema);
      const sampler = new GbnfSampler(grammar);
      const random = seededRandom(seed);
      expect(problems(document)).toEqual([]);
      if (isInSchemaOrder(document)) expect(acceptor.accepts(JSON.stringify(document))).toBe(true);
      for (const text of [
        example,
        ...Array.from({ length: SAMPLES }, () => sampler.sample(random)),
      ]) {
        expect({ text, problems: problems(JSON.parse(text)) }).toEqual({ text, problems: [] });
      }
    }),
    { numRuns: RUNS },
  );
});

/**
 * Returns true if the names are in the order of the schema. JavaScript puts names such as `1` before all others,
 * whatever the schema says.
 */
function isInSchemaOrder(document: unknown): boolean {
  if (typeof document !== "object" || document === null) return true;
  return Object.entries(document).every(
    ([name, value]) => (Array.isArray(document) || !/^\d+$/.test(name)) && isInSchemaOrder(value),
  );
}
