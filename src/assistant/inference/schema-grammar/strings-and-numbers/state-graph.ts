import type { Automaton } from "./automaton.ts";
import type { CodePoints } from "./code-points.ts";
import { normalizeCodePoints } from "./code-points.ts";
import type { ExpressionBuilder, InternedExpression } from "./expression-builder.ts";

/** The node that a path through a graph reaches after the whole text. */
export const FINAL_NODE = -1;

/**
 * An automaton whose edges are expressions instead of symbols, with at most one edge from a node to
 * another. Functions that simplify the graph must keep its language.
 */
export class StateGraph {
  /** The edges by their source node; the inner map has the expression of each edge by its target node. */
  readonly edgesByNode = new Map<number, Map<number, InternedExpression>>();
  private readonly sources = new Map<number, Set<number>>();
  private readonly builder: ExpressionBuilder;
  private nextNode = 0;

  constructor(builder: ExpressionBuilder) {
    this.builder = builder;
  }

  /**
   * Creates the graph of an automaton. `character` converts a set of characters to an expression. Each accepting state
   * gets an edge with the expression `end` to FINAL_NODE.
   */
  static fromAutomaton(
    automaton: Automaton,
    builder: ExpressionBuilder,
    character: (points: CodePoints) => InternedExpression,
    end: InternedExpression,
  ): StateGraph {
    const graph = new StateGraph(builder);
    const symbols = automaton.alphabet.length;
    const written = new Map<string, InternedExpression>();
    for (let state = 0; state < automaton.size; state += 1) {
      graph.edgesByNode.set(state, new Map());
      const reads = new Map<number, number[]>();
      for (let symbol = 0; symbol < symbols; symbol += 1) {
        const target = automaton.next[state * symbols + symbol] ?? -1;
        if (target < 0) continue;
        const read = reads.get(target);
        if (read === undefined) reads.set(target, [symbol]);
        else read.push(symbol);
      }
      for (const [target, read] of reads) {
        const key = read.join();
        let term = written.get(key);
        if (term === undefined) {
          const points = read.flatMap((symbol) => automaton.alphabet[symbol] ?? []);
          term = character(normalizeCodePoints(points));
          written.set(key, term);
        }
        graph.addEdge(state, target, term);
      }
      if (automaton.accepting[state] === 1) graph.addEdge(state, FINAL_NODE, end);
    }
    graph.nextNode = automaton.size;
    return graph;
  }

  addEdge(from: number, to: number, term: InternedExpression): void {
    const edges = this.getEdges(from);
    const before = edges.get(to);
    edges.set(to, before === undefined ? term : this.builder.choice([before, term]));
    let sources = this.sources.get(to);
    if (sources === undefined) {
      sources = new Set();
      this.sources.set(to, sources);
    }
    sources.add(from);
  }

  /** Adds a node without edges. */
  addNode(): number {
    const node = this.nextNode;
    this.nextNode += 1;
    this.edgesByNode.set(node, new Map());
    return node;
  }

  removeEdge(from: number, to: number): void {
    this.edgesByNode.get(from)?.delete(to);
    this.sources.get(to)?.delete(from);
  }

  /** Removes a node and its outgoing edges; it must not have incoming edges. */
  removeNode(node: number): void {
    for (const to of this.getEdges(node).keys()) this.sources.get(to)?.delete(node);
    this.edgesByNode.delete(node);
    this.sources.delete(node);
  }

  getEdges(node: number): Map<number, InternedExpression> {
    let edges = this.edgesByNode.get(node);
    if (edges === undefined) {
      edges = new Map();
      this.edgesByNode.set(node, edges);
    }
    return edges;
  }

  /** Returns all other nodes that have an edge to this node. */
  getSources(node: number): number[] {
    return [...(this.sources.get(node) ?? [])].filter((source) => source !== node);
  }
}
