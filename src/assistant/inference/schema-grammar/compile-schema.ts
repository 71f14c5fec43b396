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
 * The rules for values of `schema`, added to `sink`; what is handed back matches one whole value. Throws
 * AssistantError `unsupported_schema` where a keyword cannot be enforced or no value is left. Takes as long
 * as it takes: where a client wrote the schema, call it in the worker.
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
  /** A shortest text of the grammar. */
  readonly example: string;
}

/** A grammar for exactly one value of `schema`. Throws as `compileInto` does. */
export function compileSchema(schema: unknown, scalars: ScalarGrammar): GrammarText {
  return refuseStackOverflow(() => {
    const { rules, root } = compileRules(schema, scalars);
    return writeGrammar(rules, root);
  });
}

/**
 * A grammar around several schemas: `layout` says where each stands, as the rule of its name. Rules of the
 * layout's own are in `rules`. The `param` of an error is the name of the schema that is to blame.
 */
export function compileLayout(layout: GrammarLayout, scalars: ScalarGrammar): GrammarText {
  const table = new RuleTable();
  const taken = ["root", ...Object.keys(layout.schemas), ...Object.keys(layout.rules ?? {})];
  for (const name of taken) {
    if (table.reserve(name) !== name) throw new Error(`"${name}" is no name for a rule`);
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

/** Plain data, so that it can be sent to a thread. */
export interface GrammarLayout {
  readonly root: Expression;
  readonly rules?: Readonly<Record<string, Expression>>;
  /** By the name of the rule that stands for a value of the schema; letters, digits and hyphens. */
  readonly schemas: Readonly<Record<string, unknown>>;
}

/** Writes a grammar out, after a last look at what llama.cpp would make of it. */
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

/** Nothing recurses deeper than the schema's caps allow, unless texts or names are made for it. */
function refuseStackOverflow<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new AssistantError(
      "unsupported_schema",
      "The schema leads too deep into itself; make it simpler",
      { cause: error },
    );
  }
}

function unsatisfiableSchema(contradictions: readonly string[]): AssistantError {
  const why =
    contradictions.length > 0
      ? `: ${contradictions.join("; ").slice(0, 600)}`
      : ": a bound leaves nothing, or it requires itself within itself without end";
  return new AssistantError(
    "unsupported_schema",
    `The schema is met by no value that has an end${why}`,
  );
}
