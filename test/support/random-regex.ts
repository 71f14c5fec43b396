import type { Dice } from "./random.ts";

/** Returns a small pattern over a small alphabet, which about half of all random texts match. */
export function randomRegex(dice: Dice, depth = 3): string {
  const kind = dice.between(0, depth === 0 ? 4 : 13);
  const inner = () => randomRegex(dice, depth - 1);
  if (kind <= 2) return dice.pick(["a", "b", "c", "-", "1", "é", "😀", "\\n", "\\/", '"', "\\\\"]);
  if (kind === 3) return dice.pick(["[a-c]", "[^a]", "[^\\d\\s]", "\\w", "\\W", "\\d", ".", "\\S"]);
  if (kind === 4) return dice.pick(["^", "$", "\\b", "\\B", "\\p{Ll}", "\\P{L}", "\\u{1F600}"]);
  if (kind <= 7) return inner() + inner();
  if (kind === 8) return `(?:${inner()}|${inner()})`;
  if (kind === 9) return `(${inner()})${dice.pick(["*", "+", "?", "*?", "+?", "??"])}`;
  if (kind === 10) return `(?:${inner()}){${dice.between(0, 2)},${dice.between(2, 4)}}`;
  if (kind === 11) return `(?<n${depth}>${inner()}){${dice.between(0, 3)}${dice.pick(["", ","])}}`;
  if (kind === 12) return `(?${dice.pick(["=", "!"])}${inner()})`;
  return dice.chance(0.5) ? `^${inner()}$` : `(?<${dice.pick(["=", "!"])}${inner()})`;
}

/** Returns a random text over the alphabet of `randomRegex`. */
export function randomText(dice: Dice): string {
  const characters = ["a", "b", "c", "-", "1", "é", "😀", "\n", "/", '"', "\\", " ", "\u0001", "Z"];
  return Array.from({ length: dice.between(0, 7) }, () => dice.pick(characters)).join("");
}
