import type { RuleSink } from "../expression.ts";
import { foldGraph } from "./fold-graph.ts";
import { FINAL, type StateGraph } from "./state-graph.ts";
import type { Term, Terms } from "./terms.ts";

/** How deep brackets may stand in brackets before what is inside becomes a rule. */
const DEPTH_MAX = 8;
/** What is as light as that is written again rather than given a name. */
const COPY_WEIGHT_MAX = 8;

/**
 * What is read from node 0 to the end, with a rule for each node that more than one way leads to. Rules
 * refer to themselves only at their end, which costs llama.cpp no stack.
 */
export function graphTerm(graph: StateGraph, terms: Terms, sink: RuleSink, hint: string): Term {
  foldGraph(graph, terms);
  return new Writer(graph, terms, sink, hint).start();
}

class Writer {
  private readonly graph: StateGraph;
  private readonly terms: Terms;
  private readonly sink: RuleSink;
  private readonly hint: string;
  private readonly named = new Map<number, Term>();
  private readonly due: { node: number; name: string }[] = [];

  constructor(graph: StateGraph, terms: Terms, sink: RuleSink, hint: string) {
    this.graph = graph;
    this.terms = terms;
    this.sink = sink;
    this.hint = hint;
  }

  start(): Term {
    const isEntered = this.graph.sourcesOf(0).length > 0;
    const term = isEntered ? this.name(0) : this.body(0, 0);
    for (let next = this.due.pop(); next !== undefined; next = this.due.pop()) {
      this.sink.set(next.name, this.body(next.node, 0).expression);
    }
    return term;
  }

  private body(node: number, depth: number): Term {
    const edges = new Map(this.graph.edges(node));
    const loop = edges.get(node);
    edges.delete(node);
    const ways = [...edges].map(([to, term]) =>
      this.terms.sequence([term, this.target(to, depth + 1)]),
    );
    const after = this.terms.choice(ways);
    if (loop === undefined) return after;
    return this.terms.sequence([this.terms.repeat(loop, 0, undefined), after]);
  }

  private target(node: number, depth: number): Term {
    if (node === FINAL) return this.terms.empty;
    const light = this.lightEnd(node);
    if (light !== undefined) return light;
    const isShared = node === 0 || this.graph.sourcesOf(node).length > 1;
    return isShared || depth > DEPTH_MAX ? this.name(node) : this.body(node, depth);
  }

  /** The only way out of a node, where that ends the text and is short. */
  private lightEnd(node: number): Term | undefined {
    const edges = this.graph.edges(node);
    const end = edges.get(FINAL);
    return edges.size === 1 && end !== undefined && end.weight <= COPY_WEIGHT_MAX ? end : undefined;
  }

  private name(node: number): Term {
    const before = this.named.get(node);
    if (before !== undefined) return before;
    const name = this.sink.reserve(this.hint);
    const term = this.terms.rule(name);
    this.named.set(node, term);
    this.due.push({ node, name });
    return term;
  }
}
