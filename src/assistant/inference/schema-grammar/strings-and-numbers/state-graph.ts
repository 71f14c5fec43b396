import type { Automaton } from "./automaton.ts";
import type { CodePoints } from "./code-points.ts";
import { normalCodePoints } from "./code-points.ts";
import type { Term, Terms } from "./terms.ts";

/** The node in which a text has ended. */
export const FINAL = -1;

/**
 * An automaton whose edges carry terms instead of symbols. Between two nodes there is one edge at most;
 * whatever takes steps out of the graph keeps its language.
 */
export class StateGraph {
  /** Where each node's edges lead, and what they read. */
  readonly out = new Map<number, Map<number, Term>>();
  private readonly sources = new Map<number, Set<number>>();
  private readonly terms: Terms;
  private added = 0;

  constructor(terms: Terms) {
    this.terms = terms;
  }

  /** `character` says how a set of characters is written, `end` what is read where a text may end. */
  static of(
    automaton: Automaton,
    terms: Terms,
    character: (points: CodePoints) => Term,
    end: Term,
  ): StateGraph {
    const graph = new StateGraph(terms);
    const symbols = automaton.alphabet.length;
    const written = new Map<string, Term>();
    for (let state = 0; state < automaton.size; state += 1) {
      graph.out.set(state, new Map());
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
          term = character(normalCodePoints(points));
          written.set(key, term);
        }
        graph.add(state, target, term);
      }
      if (automaton.accepting[state] === 1) graph.add(state, FINAL, end);
    }
    graph.added = automaton.size;
    return graph;
  }

  add(from: number, to: number, term: Term): void {
    const edges = this.edges(from);
    const before = edges.get(to);
    edges.set(to, before === undefined ? term : this.terms.choice([before, term]));
    let sources = this.sources.get(to);
    if (sources === undefined) {
      sources = new Set();
      this.sources.set(to, sources);
    }
    sources.add(from);
  }

  /** A node without edges. */
  addNode(): number {
    const node = this.added;
    this.added += 1;
    this.out.set(node, new Map());
    return node;
  }

  disconnect(from: number, to: number): void {
    this.out.get(from)?.delete(to);
    this.sources.get(to)?.delete(from);
  }

  /** Takes out a node and all edges from it; nothing may lead to it any more. */
  remove(node: number): void {
    for (const to of this.edges(node).keys()) this.sources.get(to)?.delete(node);
    this.out.delete(node);
    this.sources.delete(node);
  }

  edges(node: number): Map<number, Term> {
    let edges = this.out.get(node);
    if (edges === undefined) {
      edges = new Map();
      this.out.set(node, edges);
    }
    return edges;
  }

  /** The nodes from which edges lead here, itself left out. */
  sourcesOf(node: number): number[] {
    return [...(this.sources.get(node) ?? [])].filter((source) => source !== node);
  }
}
