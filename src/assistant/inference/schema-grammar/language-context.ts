import type { Expression } from "./expression.ts";
import type { SchemaConjunction } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import type { RuleTable } from "./rule-table.ts";

/** The parts of SchemaLanguage that the compilers of objects and arrays use. */
export interface LanguageContext {
  readonly normalizer: NormalizerContext;
  readonly table: RuleTable;
  /** Matches at most one blank; small models would repeat blanks forever if more were allowed. */
  readonly blank: Expression;
  /**
   * Returns the rule for the values that satisfy all `schemas`; its body is built later, so schemas may be recursive.
   */
  valueRule(schemas: SchemaConjunction, hint: string): Expression;
}
