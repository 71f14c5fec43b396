import type { Expression, RuleSink } from "./expression.ts";
import { adoptInto, RuleTable } from "./rule-table.ts";
import { keyOfNumber, keyOfString } from "./scalar-keys.ts";
import type { ScalarGrammar } from "./scalars.ts";
import { allowsNumber, numberExpression } from "./strings-and-numbers/numbers.ts";
import { allowsString, noString, stringExpression } from "./strings-and-numbers/strings.ts";

/** Most schemas ask for the same few strings and numbers. */
const KEPT_MAX = 256;
/** Larger ones are made again: kept, they would hold memory for one client's schema. */
const KEPT_SIZE_MAX = 8 * 1024;

interface Made {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly root: Expression | undefined;
}

/** Strings and numbers as automata; what they come to is remembered. */
export const scalarGrammar: ScalarGrammar = {
  string: (constraints, sink) =>
    remembered(`string ${keyOfString(constraints)}`, sink, (table) =>
      stringExpression(constraints, table),
    ),
  number: (constraints, sink) =>
    remembered(`number ${keyOfNumber(constraints)}`, sink, (table) =>
      numberExpression(constraints, table),
    ),
  allowsString,
  noString,
  allowsNumber,
};

const kept = new Map<string, Made>();

function remembered(
  key: string,
  sink: RuleSink,
  make: (table: RuleTable) => Expression | undefined,
): Expression | undefined {
  let made = kept.get(key);
  if (!made) {
    const table = new RuleTable();
    made = { root: make(table), rules: table.rules };
    if (table.size <= KEPT_SIZE_MAX) kept.set(key, made);
    for (const oldest of kept.keys()) {
      if (kept.size <= KEPT_MAX) break;
      kept.delete(oldest);
    }
  }
  return made.root && adoptInto(sink, made.rules, made.root, "");
}
