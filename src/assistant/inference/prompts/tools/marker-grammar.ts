import type { CodePointRange, Expression } from "../../schema-grammar/expression.ts";

type Rules = Record<string, Expression>;

/**
 * Builds a grammar of free text, then `marker`, then `after`. Each rule ends with a reference to the next, so that
 * llama.cpp's stack does not grow with the text. If `mayEnd` is true, the text may also end without the marker. The
 * rules are named `${name}-0`, `${name}-1` and so on. Returns a reference to the first rule.
 */
export function buildTextUntilMarker(
  marker: string,
  after: Expression,
  options: { readonly name: string; readonly mayEnd: boolean; readonly rules: Rules },
): Expression {
  const { name, rules, mayEnd } = options;
  const characters = Array.from(marker);
  const letters = [...new Set(characters)];
  const rule = (seen: number): Expression => ({ kind: "rule", name: `${name}-${seen}` });
  for (let seen = 0; seen < characters.length; seen++) {
    const choices: Expression[] = mayEnd ? [{ kind: "literal", text: "" }] : [];
    const leading: string[] = [];
    for (const letter of letters) {
      const next = countMatchedPrefix(characters, seen, letter);
      if (next === 0) continue;
      leading.push(letter);
      const rest = next === characters.length ? after : rule(next);
      choices.push({ kind: "sequence", items: [{ kind: "literal", text: letter }, rest] });
    }
    choices.push({ kind: "sequence", items: [anyCharacterExcept(leading), rule(0)] });
    rules[`${name}-${seen}`] = { kind: "choice", options: choices };
  }
  return rule(0);
}

/**
 * Builds a grammar of text that does not start with a key of `beginnings`, or that continues this key with the key's
 * expression. No key may be a prefix of another.
 */
export function buildTextNotStartingWith(
  beginnings: ReadonlyMap<string, Expression>,
  options: { readonly name: string; readonly rules: Rules },
): Expression {
  const { name, rules } = options;
  let count = 0;
  const any: Expression = { kind: "repeat", item: anyCharacterExcept([]), min: 0, max: undefined };
  const ruleOf = (rests: ReadonlyMap<string, Expression>): Expression => {
    const done = rests.get("");
    if (done !== undefined) return done;
    const own = `${name}-${count++}`;
    const branches = new Map<string, Map<string, Expression>>();
    for (const [text, after] of rests) {
      const [letter = "", ...rest] = Array.from(text);
      const branch = branches.get(letter) ?? new Map<string, Expression>();
      branches.set(letter, branch.set(rest.join(""), after));
    }
    rules[own] = {
      kind: "choice",
      options: [
        { kind: "literal", text: "" },
        ...[...branches].map(
          ([letter, further]): Expression => ({
            kind: "sequence",
            items: [{ kind: "literal", text: letter }, ruleOf(further)],
          }),
        ),
        { kind: "sequence", items: [anyCharacterExcept([...branches.keys()]), any] },
      ],
    };
    return { kind: "rule", name: own };
  };
  return ruleOf(beginnings);
}

/**
 * Makes one step of the KMP algorithm: `seen` characters of the marker have matched, and `letter` follows. Returns how
 * many characters match now.
 */
function countMatchedPrefix(marker: readonly string[], seen: number, letter: string): number {
  const text = [...marker.slice(0, seen), letter];
  for (let length = Math.min(text.length, marker.length); length > 0; length--) {
    const end = text.slice(text.length - length);
    if (end.every((character, index) => character === marker[index])) return length;
  }
  return 0;
}

const LAST_CODE_POINT = 0x10ffff;

/** Returns the class of all characters except the given ones. */
function anyCharacterExcept(characters: readonly string[]): Expression {
  const points = characters.map((character) => character.codePointAt(0) ?? 0);
  const ranges: CodePointRange[] = [];
  let from = 0;
  for (const point of points.toSorted((left, right) => left - right)) {
    if (from < point) ranges.push([from, point - 1]);
    from = point + 1;
  }
  ranges.push([from, LAST_CODE_POINT]);
  return { kind: "class", ranges };
}
