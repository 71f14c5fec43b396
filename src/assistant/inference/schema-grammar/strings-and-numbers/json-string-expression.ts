import type { Expression, RuleSink } from "../expression.ts";
import type { Automaton } from "./automaton.ts";
import { graphTerm } from "./graph-expression.ts";
import { jsonCharacter } from "./json-text.ts";
import { StateGraph } from "./state-graph.ts";
import { Terms } from "./terms.ts";

/** JSON strings that decode to what the automaton accepts, which is minimal and accepts something. */
export function jsonStringExpression(automaton: Automaton, sink: RuleSink): Expression {
  const terms = termsOf(sink);
  const quote = terms.literal('"');
  const graph = StateGraph.of(automaton, terms, (points) => jsonCharacter(points, terms), quote);
  return terms.sequence([quote, graphTerm(graph, terms, sink, "text")]).expression;
}

const known = new WeakMap<RuleSink, Terms>();

/** Equal sets of characters in different strings of one grammar share their rule. */
export function termsOf(sink: RuleSink): Terms {
  let terms = known.get(sink);
  if (terms === undefined) {
    terms = new Terms(sink);
    known.set(sink, terms);
  }
  return terms;
}
