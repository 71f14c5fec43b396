import type { Expression } from "./expression.ts";
import type { SchemaConjunction } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import type { RuleTable } from "./rule-table.ts";

/** What the languages of objects and arrays ask of the whole. */
export interface LanguageContext {
  readonly normalizer: NormalizerContext;
  readonly table: RuleTable;
  /** At most one blank: small models loop on them where more are allowed. */
  readonly blank: Expression;
  /** The rule of a value that meets all of `schemas`; it is filled in later, so recursion is no problem. */
  valueRule(schemas: SchemaConjunction, hint: string): Expression;
}
