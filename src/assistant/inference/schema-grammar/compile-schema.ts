import { AssistantError } from "../../assistant-error.ts";
import { assertBoundedAmbiguity } from "./ambiguity-check.ts";
import type { Expression, RuleSink } from "./expression.ts";
import { checkCost } from "./grammar-cost.ts";
import { SchemaNormalizer } from "./normalizer.ts";
import { pruneRules } from "./prune-rules.ts";
import { copyRules, RuleTable } from "./rule-table.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import { SchemaDocument } from "./schema-document.ts";
import { SchemaLanguage } from "./schema-language.ts";
import { findShortestText } from "./shortest-text.ts";
import { writeGbnf } from "./write-gbnf.ts";

/**
 * Adds the rules for values of `schema` to `sink` and returns an expression that matches one whole value. Throws
 * AssistantError `unsupported_schema` if a keyword cannot be enforced or the schema allows no value. Has no time limit:
 * compile a client's schema in the worker.
 */
export function compileInto(
  sink: RuleSink,
  schema: unknown,
  hint: string,
  scalars: ScalarGrammar,
): Expression {
  return refuseStackOverflow(() => {
    const { rules, root } = compileRules(schema, scalars);
    return copyRules(sink, rules, root, hint);
  });
}

export interface GrammarText {
  readonly gbnf: string;
  /** A shortest text that the grammar accepts. The stub engine answers with this text. */
  readonly example: string;
}

/**
 * Compiles a grammar that matches the JSON text of one value, which may be any value that `schema` allows. Throws like
 * `compileInto`.
 */
export function compileSchema(schema: unknown, scalars: ScalarGrammar): GrammarText {
  return refuseStackOverflow(() => {
    const { rules, root } = compileRules(schema, scalars);
    return writeGrammar(rules, root);
  });
}

/**
 * Compiles a grammar that contains several schemas: `layout` refers to each schema by a rule that has the schema's
 * name, and has further rules in `rules`. The `param` of an error is the name of the schema that caused it.
 */
export function compileLayout(layout: GrammarLayout, scalars: ScalarGrammar): GrammarText {
  const table = new RuleTable();
  const taken = ["root", ...Object.keys(layout.schemas), ...Object.keys(layout.rules ?? {})];
  for (const name of taken) {
    if (table.reserve(name) !== name) throw new Error(`"${name}" is not a valid name for a rule`);
  }
  for (const [name, expression] of Object.entries(layout.rules ?? {})) table.set(name, expression);
  for (const [name, schema] of Object.entries(layout.schemas)) {
    try {
      table.set(name, compileInto(table, schema, name, scalars));
    } catch (error) {
      if (!(error instanceof AssistantError)) throw error;
      throw new AssistantError(error.code, error.message, { param: name, cause: error });
    }
  }
  return refuseStackOverflow(() => {
    const left = pruneRules(table.rules, layout.root);
    if (!left) throw unsatisfiableSchema([]);
    return writeGrammar(left.rules, left.root);
  });
}

/** A grammar with references to schemas. Plain data, so that it can be sent to a thread. */
export interface GrammarLayout {
  readonly root: Expression;
  readonly rules?: Readonly<Record<string, Expression>>;
  /** Each schema by the name of the rule for its values; a name has letters, digits and hyphens. */
  readonly schemas: Readonly<Record<string, unknown>>;
}

/** Checks how costly and how ambiguous a grammar is for llama.cpp, and then writes the grammar. */
function writeGrammar(rules: ReadonlyMap<string, Expression>, root: Expression): GrammarText {
  checkCost(rules, root);
  assertBoundedAmbiguity(rules, root);
  return { gbnf: writeGbnf(rules, root), example: findShortestText(rules, root) };
}

function compileRules(schema: unknown, scalars: ScalarGrammar) {
  const table = new RuleTable();
  table.reserve("root");
  const document = new SchemaDocument(schema);
  const normalizer = new SchemaNormalizer(document, scalars);
  const language = new SchemaLanguage(normalizer, table);
  const top = language.valueRule(normalizer.toLiteral(document.root), "value");
  language.finish();
  const left = pruneRules(table.rules, top);
  if (!left) throw unsatisfiableSchema(normalizer.contradictions);
  return left;
}

/**
 * Turns a stack overflow into a refusal. Only a schema that was made for this purpose, with extreme texts or names,
 * causes one.
 */
function refuseStackOverflow<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new AssistantError(
      "unsupported_schema",
      "The schema is nested too deeply; make it simpler",
      { cause: error },
    );
  }
}

function unsatisfiableSchema(contradictions: readonly string[]): AssistantError {
  const why =
    contradictions.length > 0
      ? `: ${contradictions.join("; ").slice(0, 600)}`
      : ": its bounds exclude every value, or it requires itself recursively";
  return new AssistantError(
    "unsupported_schema",
    `No value of finite size satisfies the schema${why}`,
  );
}
