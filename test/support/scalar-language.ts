import type { Expression } from "../../src/assistant/inference/schema-grammar/expression.ts";
import { RuleTable } from "../../src/assistant/inference/schema-grammar/rule-table.ts";
import type {
  NumberConstraints,
  StringConstraints,
} from "../../src/assistant/inference/schema-grammar/scalar-constraints.ts";
import { scalarGrammar } from "../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { writeGbnf } from "../../src/assistant/inference/schema-grammar/write-gbnf.ts";
import { GbnfAcceptor } from "./gbnf-acceptor.ts";
import { parseGbnf } from "./gbnf-grammar.ts";
import { GbnfSampler } from "./gbnf-sampler.ts";
import { seededRandom } from "./random.ts";

/** A grammar of strings or numbers that is parsed and sampled as in llama.cpp. */
export interface ScalarLanguage {
  readonly gbnf: string;
  /** Returns true if the grammar accepts the JSON text. */
  accepts(text: string): boolean;
  /** Returns JSON texts that the grammar generates; the same seed gives the same texts. */
  samples(count: number, seed: number): string[];
  /** Returns the highest number of parse stacks so far. */
  stacksMax(): number;
}

/** Returns the language of strings with these constraints; undefined if no value meets them. */
export function stringLanguage(
  constraints: Partial<StringConstraints>,
): ScalarLanguage | undefined {
  const table = new RuleTable();
  return toScalarLanguage(
    scalarGrammar.compileString({ ...anyString, ...constraints }, table),
    table,
  );
}

export function numberLanguage(
  constraints: Partial<NumberConstraints>,
): ScalarLanguage | undefined {
  const table = new RuleTable();
  const all = { integer: false, pointer: "#", ...constraints };
  return toScalarLanguage(scalarGrammar.compileNumber(all, table), table);
}

/** Returns the string constraint of a keyword, `pattern` or `format`; `source` is the keyword's value. */
export function toStringPattern(keyword: string, source: string) {
  return { source, keyword, pointer: `#/${keyword}` };
}

const anyString: StringConstraints = {
  patterns: [],
  forbiddenPatterns: [],
  formats: [],
  excluded: [],
};

function toScalarLanguage(
  expression: Expression | undefined,
  table: RuleTable,
): ScalarLanguage | undefined {
  if (expression === undefined) return undefined;
  const gbnf = writeGbnf(table.rules, expression);
  const grammar = parseGbnf(gbnf);
  const acceptor = new GbnfAcceptor(grammar);
  return {
    gbnf,
    accepts: (text) => acceptor.accepts(text),
    samples: (count, seed) => {
      const sampler = new GbnfSampler(grammar);
      const random = seededRandom(seed);
      return Array.from({ length: count }, () => sampler.sample(random, 60));
    },
    stacksMax: () => acceptor.stacksMax,
  };
}
