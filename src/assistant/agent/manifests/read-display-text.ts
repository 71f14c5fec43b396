import { describeValue, type FaultCollector } from "./manifest-faults.ts";

export interface DisplayTextRules {
  readonly charsMax: number;
  /** Line breaks and tabs are text, too. */
  readonly isMultiline: boolean;
}

/**
 * Text that people decide by. Controls, and what turns or hides letters on a screen, could make one tool
 * look like another. Undefined, with a fault, where it is none.
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
  if (/\p{Cc}/u.test(plain)) return "holds a control character";
  // Bidirectional marks, zero-width spaces and joiners aside from those that scripts and emoji need.
  // Tags too, in which a text for models can hide behind one for people.
  if (
    /[\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u.test(
      plain,
    )
  ) {
    return "holds an invisible character, or one that turns the direction of the text";
  }
  return /\p{Cs}/u.test(text) ? "holds half a character" : undefined;
}
