import type { Expression, RuleSink } from "../expression.ts";
import type { Automaton } from "./automaton.ts";
import { ExpressionBuilder } from "./expression-builder.ts";
import { compileJsonCharacter } from "./json-character.ts";
import { StateGraph } from "./state-graph.ts";
import { writeGraph } from "./write-graph.ts";

/** JSON strings that decode to what the automaton accepts, which is minimal and accepts something. */
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

/** Equal sets of characters in different strings of one grammar share their rule. */
export function getExpressionBuilder(sink: RuleSink): ExpressionBuilder {
  let builder = builders.get(sink);
  if (builder === undefined) {
    builder = new ExpressionBuilder(sink);
    builders.set(sink, builder);
  }
  return builder;
}
