import type { ExpressionBuilder, InternedExpression } from "./expression-builder.ts";
import { FINAL_NODE, type StateGraph } from "./state-graph.ts";

/** An incomplete run (see `foldRuns`) is folded only if at least this many nodes are removed from the graph. */
const INCOMPLETE_RUN_MIN = 8;

/**
 * Finds counted repetitions and chains that the automaton has unrolled, and replaces each by one edge:
 * `[a-z]{1,2000}` becomes one edge instead of 2,001 states. The graph only shrinks.
 */
export function foldGraph(graph: StateGraph, builder: ExpressionBuilder): void {
  let before: number;
  do {
    before = graph.edgesByNode.size;
    // The iteration over a Map skips nodes that are removed meanwhile.
    for (const node of graph.edgesByNode.keys()) foldRuns(graph, builder, node);
    for (const node of graph.edgesByNode.keys()) foldChain(graph, builder, node);
  } while (graph.edgesByNode.size < before);
}

/**
 * Replaces a run of nodes that begins at `first` with one repetition: a complete run of `C` becomes `C{0,5}`, an
 * incomplete one becomes `C{0,5}` and `C{6}`. In a run, each node has an edge with the same expression `C` to the next
 * node, and otherwise the same edges. A run is complete if its last node has only those other edges. A run is
 * incomplete if its last `C` leads to a node with different edges.
 */
function foldRuns(graph: StateGraph, builder: ExpressionBuilder, first: number): void {
  for (const [second, step] of graph.getEdges(first)) {
    const run = findRun(graph, first, second, step);
    if (run === undefined) continue;
    const { nodes, after } = run;
    const count = nodes.length - 1;
    const last = nodes.at(-1) ?? first;
    const others = [...graph.getEdges(first)].filter(([to]) => to !== second);
    if (after === undefined) {
      for (const [to] of others) graph.removeEdge(first, to);
      removeRun(graph, nodes.slice(0, -1));
      graph.addEdge(first, last, builder.repeat(step, 0, count));
      return;
    }
    if (count < INCOMPLETE_RUN_MIN) continue;
    const exit = graph.addNode();
    for (const [to, term] of others) {
      graph.addEdge(exit, to, term);
      graph.removeEdge(first, to);
    }
    removeRun(graph, nodes);
    graph.addEdge(first, exit, builder.repeat(step, 0, count));
    graph.addEdge(first, after, builder.repeat(step, count + 1, count + 1));
    return;
  }
}

/** Removes all nodes of a run (see `foldRuns`) except the first, and the edge from the first to the second. */
function removeRun(graph: StateGraph, nodes: readonly number[]): void {
  const [first = FINAL_NODE, ...rest] = nodes;
  for (const to of graph.getEdges(first).keys()) graph.removeEdge(first, to);
  for (const node of rest) graph.removeNode(node);
}

/**
 * Returns the nodes of the run that begins with `first` and `second`; undefined if there is no run. `after` is the node
 * that follows an incomplete run. See `foldRuns` for these terms.
 */
function findRun(
  graph: StateGraph,
  first: number,
  second: number,
  step: InternedExpression,
): { nodes: number[]; after: number | undefined } | undefined {
  const others = new Map(graph.getEdges(first));
  others.delete(second);
  if (others.size === 0 || others.has(first)) return undefined;
  const nodes = [first];
  let node = second;
  for (;;) {
    const [source, another] = node === FINAL_NODE ? [] : graph.getSources(node);
    const alone = source === nodes.at(-1) && another === undefined;
    const next = node === FINAL_NODE ? "other" : continueRun(graph.getEdges(node), others, step);
    // Nodes outside of a complete run may also have edges to its last node, so `foldRuns` keeps the last node.
    if (next === "end" && node !== first) return { nodes: [...nodes, node], after: undefined };
    if (typeof next === "string" || next === node || !alone || node === first) {
      return { nodes, after: node };
    }
    nodes.push(node);
    node = next;
  }
}

/**
 * Compares the `edges` of a node with those of a run (see `foldRuns`). Returns the run's next node, `end` if the node
 * is the last one of a complete run, or `other` if the node does not belong to the run.
 */
function continueRun(
  edges: ReadonlyMap<number, InternedExpression>,
  others: ReadonlyMap<number, InternedExpression>,
  step: InternedExpression,
): number | "end" | "other" {
  if (edges.size !== others.size && edges.size !== others.size + 1) return "other";
  let next: number | "end" | "other" = edges.size === others.size ? "end" : "other";
  let same = 0;
  for (const [to, term] of edges) {
    if (others.get(to) === term) same += 1;
    else if (term === step && next === "other") next = to;
    else return "other";
  }
  return same === others.size ? next : "other";
}

/**
 * Replaces a chain of edges with one edge that has the sequence of their expressions. The nodes inside of a chain have
 * one incoming and one outgoing edge, not counting loops.
 */
function foldChain(graph: StateGraph, builder: ExpressionBuilder, first: number): void {
  for (const [second, step] of graph.getEdges(first)) {
    const others = new Map(graph.getEdges(first));
    others.delete(second);
    const parts = [step];
    const removedNodes: number[] = [];
    let node = second;
    while (
      node !== FINAL_NODE &&
      node !== 0 &&
      node !== first &&
      graph.getSources(node).length === 1
    ) {
      const edges = new Map(graph.getEdges(node));
      const loop = edges.get(node);
      edges.delete(node);
      const [edge] = edges;
      if (edges.size !== 1 || edge === undefined || removedNodes.includes(node)) break;
      // This node is the end of a run that `foldRuns` has not folded yet. The chain stops before this node, because a
      // folded run gives a smaller grammar.
      if (loop === undefined && others.get(edge[0]) === edge[1] && others.size === 1) break;
      if (loop !== undefined) parts.push(builder.repeat(loop, 0, undefined));
      parts.push(edge[1]);
      removedNodes.push(node);
      node = edge[0];
    }
    if (removedNodes.length === 0) continue;
    graph.removeEdge(first, second);
    for (const one of removedNodes) graph.removeNode(one);
    graph.addEdge(first, node, builder.sequence(parts));
  }
}
