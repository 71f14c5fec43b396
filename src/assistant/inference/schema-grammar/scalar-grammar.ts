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

/** Most schemas ask for the same few strings and numbers. */
const CACHE_ENTRIES_MAX = 256;
/** Larger ones are made again: kept, they would hold memory for one client's schema. */
const CACHED_SIZE_MAX = 8 * 1024;

interface CompiledScalar {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly root: Expression | undefined;
}

/** Strings and numbers as automata; what they come to is remembered. */
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
  matchesNoString: matchesNoString,
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
