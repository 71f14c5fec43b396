import type { Expression, RuleSink } from "../expression.ts";
import type { Automaton } from "./automaton.ts";
import { ExpressionBuilder } from "./expression-builder.ts";
import { compileJsonCharacter } from "./json-character.ts";
import { StateGraph } from "./state-graph.ts";
import { writeGraph } from "./write-graph.ts";

/** Compiles the JSON strings whose decoded texts the automaton accepts. The automaton must be minimal and not empty. */
export function compileJsonString(automaton: Automaton, sink: RuleSink): Expression {
  const builder = getExpressionBuilder(sink);
  const quote = builder.literal('"');
  const graph = StateGraph.fromAutomaton(
    automaton,
    builder,
    (points) => compileJsonCharacter(points, builder),
    quote,
  );
  return builder.sequence([quote, writeGraph(graph, builder, sink, "text")]).expression;
}

const builders = new WeakMap<RuleSink, ExpressionBuilder>();

/**
 * Returns the expression builder of the grammar whose rules `sink` collects, so that equal character sets in the
 * grammar share a rule.
 */
export function getExpressionBuilder(sink: RuleSink): ExpressionBuilder {
  let builder = builders.get(sink);
  if (builder === undefined) {
    builder = new ExpressionBuilder(sink);
    builders.set(sink, builder);
  }
  return builder;
}
