/** Evaluates a string literal of the template language, which has Python's escapes. Throws for incomplete escapes. */
export function readStringLiteral(literal: string): string {
  return literal
    .slice(1, -1)
    .replaceAll(
      /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/gu,
      (escape, octal?: string, byte?: string, short?: string, long?: string, letter = "") => {
        const digits = byte ?? short ?? long;
        if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
        if (digits !== undefined) return String.fromCodePoint(Number.parseInt(digits, 16));
        if ("xuUN".includes(letter))
          throw new SyntaxError(`a string contains the incomplete escape ${escape}`);
        // An unknown escape stands for itself.
        return simpleEscapes[letter] ?? escape;
      },
    );
}

const simpleEscapes: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
