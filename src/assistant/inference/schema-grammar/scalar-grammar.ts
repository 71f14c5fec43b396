import { LRUCache } from "lru-cache";
import { getNumberKey, getStringKey } from "./constraint-keys.ts";
import type { Expression, RuleSink } from "./expression.ts";
import { copyRules, RuleTable } from "./rule-table.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import { allowsNumber, compileNumber } from "./strings-and-numbers/compile-number.ts";
import {
  allowsString,
  compileString,
  matchesNoString,
} from "./strings-and-numbers/compile-string.ts";

/** The number of cached results, enough for the few kinds of strings and numbers that most schemas have in common. */
const CACHE_ENTRIES_MAX = 256;
/** Results larger than this are not cached, because they would keep memory for a single client's schema. */
const CACHED_SIZE_MAX = 8 * 1024;

interface CompiledScalar {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly root: Expression | undefined;
}

/** Compiles strings and numbers through automata and caches the results. */
export const scalarGrammar: ScalarGrammar = {
  compileString: (constraints, sink) =>
    getOrCompile(`string ${getStringKey(constraints)}`, sink, (table) =>
      compileString(constraints, table),
    ),
  compileNumber: (constraints, sink) =>
    getOrCompile(`number ${getNumberKey(constraints)}`, sink, (table) =>
      compileNumber(constraints, table),
    ),
  allowsString,
  matchesNoString,
  allowsNumber,
};

const cache = new LRUCache<string, CompiledScalar>({ max: CACHE_ENTRIES_MAX });

function getOrCompile(
  key: string,
  sink: RuleSink,
  make: (table: RuleTable) => Expression | undefined,
): Expression | undefined {
  let made = cache.get(key);
  if (!made) {
    const table = new RuleTable();
    made = { root: make(table), rules: table.rules };
    if (table.size <= CACHED_SIZE_MAX) cache.set(key, made);
  }
  return made.root && copyRules(sink, made.rules, made.root, "");
}
