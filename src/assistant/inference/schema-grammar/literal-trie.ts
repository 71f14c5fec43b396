import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression, RuleSink } from "./expression.ts";

/** The maximum depth of nested choices in a rule, because llama.cpp parses groups recursively. */
const NESTED_MAX = 16;

/**
 * Compiles the texts to a trie, so that each next character leads to at most one branch, however many texts there are.
 */
export function compileLiterals(texts: readonly string[], sink: RuleSink): Expression | undefined {
  const sorted = [...new Set(texts)].toSorted().map((text) => Array.from(text));
  return sorted.length === 0 ? undefined : compileTrie(sorted, 0, 0, sink);
}

function compileTrie(
  texts: readonly (readonly string[])[],
  from: number,
  nested: number,
  sink: RuleSink,
): Expression {
  const [first = []] = texts;
  const last = texts.at(-1) ?? first;
  let end = from;
  // The texts are sorted, so a prefix common to the first and the last is common to all.
  while (end < first.length && first[end] === last[end]) end += 1;
  const common = literal(first.slice(from, end).join(""));
  if (texts.length === 1) return common;
  const options: Expression[] = [];
  for (let index = 0; index < texts.length; ) {
    const head = texts[index]?.[end];
    let next = index + 1;
    while (next < texts.length && texts[next]?.[end] === head) next += 1;
    options.push(compileTrie(texts.slice(index, next), end, (nested + 1) % NESTED_MAX, sink));
    index = next;
  }
  const branches = choice(options) ?? literal("");
  if (nested !== NESTED_MAX - 1) return sequence(common, branches);
  const name = sink.reserve("text");
  sink.set(name, branches);
  return sequence(common, rule(name));
}
