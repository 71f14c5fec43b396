import type { RecordedAnswer } from "./recorded-answers.ts";

/** An answer of Berth, converted to the form in which it is compared with the recorded answer of llama-server. */
export interface ObservedAnswer {
  readonly promptTokens: number;
  readonly text: string;
  readonly reason: string;
  readonly tokens: readonly ObservedToken[];
}

export interface ObservedToken {
  /** The token's bytes in hexadecimal digits, or its text if the API does not return the bytes. */
  readonly bytes: string;
  readonly logprob: number;
}

/**
 * Returns a line for each difference between the answers; `logprobMax` is the largest difference of logprobs that does
 * not count. Only tokens with whole code points are compared one by one, because llama-server reports no others; the
 * texts consist of all tokens.
 */
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
  compare("reason", recorded.end === "limit" ? "length" : "stop", observed.reason);
  const expected = recorded.tokens.filter(({ bytes }) => isWholeText(bytes));
  const tokens = observed.tokens.filter(({ bytes }) => isWholeText(bytes));
  // Berth and llama-server report different tokens for a stop text, so the number of tokens is not compared then.
  if (recorded.end !== "word") compare("tokens", expected.length, tokens.length);
  for (const [index, { bytes, logprob }] of expected.entries()) {
    const token = tokens[index];
    if (!token) break;
    compare(`token ${index}`, bytes, token.bytes);
    const difference = Math.abs(logprob - token.logprob);
    if (!(difference <= logprobMax))
      found.push(`${recorded.id}: logprob of token ${index} differs by ${difference.toFixed(5)}`);
  }
  return found;
}

/** Returns the text of a token as bytes in hexadecimal digits. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** Returns true if the bytes are a text of whole code points. A replacement character shows that they are not. */
function isWholeText(hex: string): boolean {
  const text = Buffer.from(hex, "hex").toString();
  return text !== "" && !text.includes("\ufffd");
}
