import { describeValue, type FaultCollector } from "./manifest-faults.ts";

export interface DisplayTextRules {
  readonly charsMax: number;
  /** If true, line breaks and tabs are allowed. */
  readonly isMultiline: boolean;
}

/**
 * Reads a text that people rely on to decide about a tool. Rejects control characters and characters that are
 * invisible or reorder text, which could make one tool look like another. Returns undefined and adds a fault if the
 * text is rejected.
 */
export function readDisplayText(
  value: unknown,
  pointer: string,
  rules: DisplayTextRules,
  faults: FaultCollector,
): string | undefined {
  if (typeof value !== "string") {
    faults.error(pointer, `must be text, not ${describeValue(value)}`);
    return undefined;
  }
  const problem = findTextProblem(value, rules);
  if (problem === undefined) return value;
  faults.error(pointer, problem);
  return undefined;
}

function findTextProblem(
  text: string,
  { charsMax, isMultiline }: DisplayTextRules,
): string | undefined {
  if (text.trim() === "") return "must not be empty";
  if (text.length > charsMax) return `is longer than ${charsMax} characters`;
  const plain = isMultiline ? text.replaceAll(/[\t\n\r]/g, "") : text;
  if (/\p{Cc}/u.test(plain)) return "contains a control character";
  // Matches bidirectional marks, zero-width characters and tag characters, because they can hide text for models inside
  // text for people. Joiners that scripts and emoji need are allowed.
  if (
    /[\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u.test(
      plain,
    )
  ) {
    return "contains an invisible character, or one that reverses the direction of the text";
  }
  return /\p{Cs}/u.test(text) ? "contains half a surrogate pair" : undefined;
}
