import { UsageError } from "../cli-errors.ts";
import { isStackWord } from "../resource-references.ts";

/**
 * Parses arguments that name stacks: `stacks`, `stack blog shop`, or `stack/blog`. Returns the names, which may be none,
 * or undefined if the arguments name something else. Throws UsageError for a mixture of stacks and other resources.
 */
export function parseStackWords(words: readonly string[]): readonly string[] | undefined {
  const [first = "", ...rest] = words;
  if (isStackWord(first)) return rest;
  if (!words.some(isStack)) return undefined;
  if (!words.every(isStack))
    throw new UsageError("stacks and other resources cannot be named together", "call it twice");
  return words.map((word) => {
    const [, name = "", ...more] = word.split("/");
    if (name === "" || more.length > 0)
      throw new UsageError(`"${word}" does not name a stack`, "write stack/NAME");
    return name;
  });
}

function isStack(word: string): boolean {
  return word.includes("/") && isStackWord(word.split("/")[0]);
}

/** Like `parseStackWords`, for verbs that need at least one name. */
export function parseStackNames(
  words: readonly string[],
  verb: string,
): readonly string[] | undefined {
  const names = parseStackWords(words);
  if (names?.length === 0) throw new UsageError(`${verb} needs a name`, `berth ${verb} stack/NAME`);
  return names;
}
