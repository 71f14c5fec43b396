import type { ScalarGrammar } from "../scalars.ts";
import { allowsNumber, numberExpression } from "./numbers.ts";
import { allowsString, noString, stringExpression } from "./strings.ts";

export const scalarGrammar: ScalarGrammar = {
  string: stringExpression,
  allowsString,
  noString,
  number: numberExpression,
  allowsNumber,
};
