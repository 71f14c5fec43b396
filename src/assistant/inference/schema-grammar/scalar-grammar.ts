import type { ScalarGrammar } from "./scalars.ts";
import { allowsNumber, numberExpression } from "./strings-and-numbers/numbers.ts";
import { allowsString, noString, stringExpression } from "./strings-and-numbers/strings.ts";

/** Strings and numbers as automata. */
export const scalarGrammar: ScalarGrammar = {
  string: stringExpression,
  allowsString,
  noString,
  number: numberExpression,
  allowsNumber,
};
