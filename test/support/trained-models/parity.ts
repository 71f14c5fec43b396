import type { RecordedAnswer, RecordedToken } from "./recorded-answers.ts";

/** An answer of Berth, in the form in which it is compared. */
export interface ObservedAnswer {
  readonly promptTokens: number;
  readonly text: string;
  readonly reason: string;
  /** The tokens' bytes in hexadecimal digits; undefined if the API does not give the bytes of this token. */
  readonly tokens: readonly { readonly bytes: string | undefined; readonly logprob: number }[];
}

/** Returns a line for each difference between the answers; `logprobMax` is the difference of logprobs that counts. */
export function findDifferences(
  recorded: RecordedAnswer,
  observed: ObservedAnswer,
  logprobMax: number,
): readonly string[] {
  const found: string[] = [];
  const compare = (what: string, expected: unknown, got: unknown) => {
    if (expected !== got)
      found.push(`${recorded.id}: ${what} ${JSON.stringify(got)}, not ${JSON.stringify(expected)}`);
  };
  compare("prompt tokens", recorded.promptTokens.length, observed.promptTokens);
  compare("text", recorded.text, observed.text);
  compare("reason", recorded.reason, observed.reason);
  compare("tokens", recorded.tokens.length, observed.tokens.length);
  for (const [index, token] of observed.tokens.entries()) {
    const expected = recorded.tokens[index];
    if (expected === undefined) break;
    compare(`token ${index}`, expected.bytes, token.bytes ?? expected.bytes);
    const difference = Math.abs(expected.logprob - token.logprob);
    if (difference > logprobMax)
      found.push(`${recorded.id}: logprob of token ${index} differs by ${difference.toFixed(5)}`);
  }
  return found;
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** Returns true if the token is a text by itself, and not a part of a code point. */
export function isWholeText({ bytes }: RecordedToken): boolean {
  return toHex(Buffer.from(Buffer.from(bytes, "hex").toString())) === bytes;
}
