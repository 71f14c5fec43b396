import type { RuleSink } from "../expression.ts";
import type { ExpressionBuilder, InternedExpression } from "./expression-builder.ts";
import { foldGraph } from "./fold-graph.ts";
import { FINAL_NODE, type StateGraph } from "./state-graph.ts";

/** The maximum depth of nested brackets in a rule. */
const DEPTH_MAX = 8;
/**
 * The maximum weight of an expression that is copied to each use instead of becoming a rule. The weight is
 * approximately the length of the expression's text. Only an expression at the end of the matched text is copied.
 */
const COPY_WEIGHT_MAX = 8;

/**
 * Returns an expression for the texts of all paths from node 0 to `FINAL_NODE`. Adds a rule to `sink` for each node
 * that several edges lead to. A rule refers to itself only at its end, so that llama.cpp's stack does not grow.
 */
export function writeGraph(
  graph: StateGraph,
  builder: ExpressionBuilder,
  sink: RuleSink,
  hint: string,
): InternedExpression {
  foldGraph(graph, builder);
  return new GraphWriter(graph, builder, sink, hint).write();
}

class GraphWriter {
  private readonly graph: StateGraph;
  private readonly builder: ExpressionBuilder;
  private readonly sink: RuleSink;
  private readonly hint: string;
  private readonly ruleNames = new Map<number, InternedExpression>();
  private readonly pendingRules: { node: number; name: string }[] = [];

  constructor(graph: StateGraph, builder: ExpressionBuilder, sink: RuleSink, hint: string) {
    this.graph = graph;
    this.builder = builder;
    this.sink = sink;
    this.hint = hint;
  }

  write(): InternedExpression {
    const isEntered = this.graph.getSources(0).length > 0;
    const term = isEntered ? this.getRule(0) : this.writeNode(0, 0);
    for (let next = this.pendingRules.pop(); next !== undefined; next = this.pendingRules.pop()) {
      this.sink.set(next.name, this.writeNode(next.node, 0).expression);
    }
    return term;
  }

  private writeNode(node: number, depth: number): InternedExpression {
    const edges = new Map(this.graph.getEdges(node));
    const loop = edges.get(node);
    edges.delete(node);
    const paths = [...edges].map(([to, term]) =>
      this.builder.sequence([term, this.writeTarget(to, depth + 1)]),
    );
    const after = this.builder.choice(paths);
    if (loop === undefined) return after;
    return this.builder.sequence([this.builder.repeat(loop, 0, undefined), after]);
  }

  private writeTarget(node: number, depth: number): InternedExpression {
    if (node === FINAL_NODE) return this.builder.empty;
    const light = this.findShortEnd(node);
    if (light !== undefined) return light;
    const isShared = node === 0 || this.graph.getSources(node).length > 1;
    return isShared || depth > DEPTH_MAX ? this.getRule(node) : this.writeNode(node, depth);
  }

  /**
   * Returns the expression of a node's only edge, if the edge leads to `FINAL_NODE` and its expression has at most
   * COPY_WEIGHT_MAX weight; otherwise undefined.
   */
  private findShortEnd(node: number): InternedExpression | undefined {
    const edges = this.graph.getEdges(node);
    const end = edges.get(FINAL_NODE);
    return edges.size === 1 && end !== undefined && end.weight <= COPY_WEIGHT_MAX ? end : undefined;
  }

  private getRule(node: number): InternedExpression {
    const before = this.ruleNames.get(node);
    if (before !== undefined) return before;
    const name = this.sink.reserve(this.hint);
    const term = this.builder.rule(name);
    this.ruleNames.set(node, term);
    this.pendingRules.push({ node, name });
    return term;
  }
}
