import type { Expression } from "./expression.ts";
import type { Schemas } from "./part.ts";
import type { RuleTable } from "./rule-table.ts";
import type { ShapeContext } from "./shape-context.ts";

/** What the languages of objects and arrays ask of the whole. */
export interface LanguageContext {
  readonly shapes: ShapeContext;
  readonly table: RuleTable;
  /** At most one blank: small models loop on them where more are allowed. */
  readonly blank: Expression;
  /** The rule of a value that meets all of `schemas`; it is filled in later, so recursion is no problem. */
  value(schemas: Schemas, hint: string): Expression;
}
