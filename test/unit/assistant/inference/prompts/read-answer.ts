import type {
  AnswerDelta,
  AnswerEnd,
} from "../../../../../src/assistant/inference/prompts/answer-parser.ts";
import type { AnswerStreamParser } from "../../../../../src/assistant/inference/prompts/plan-prompt.ts";
import type { TokenLogprob } from "../../../../../src/assistant/inference/runner.ts";

export interface ReadAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  }[];
  readonly calledTools: boolean;
  readonly deltas: readonly AnswerDelta[];
  readonly logprobs: readonly TokenLogprob[];
}

/** Assembles an answer from its deltas as a client does. `isCut`: the token limit ended the answer. */
export function readAnswer(
  plan: { createParser(): AnswerStreamParser },
  pieces: readonly string[],
  isCut = false,
): ReadAnswer {
  const reader = plan.createParser();
  return assembleAnswer(
    pieces.flatMap((piece) => reader.push(piece, undefined)),
    reader.end(isCut),
  );
}

/** Assembles an answer whose pieces have one logprob each. */
export function readAnswerWithLogprobs(
  plan: { createParser(): AnswerStreamParser },
  pieces: readonly string[],
  isCut = false,
): ReadAnswer {
  const reader = plan.createParser();
  return assembleAnswer(
    pieces.flatMap((text) => reader.push(text, [{ text, bytes: [], logprob: -1, top: [] }])),
    reader.end(isCut),
  );
}

function assembleAnswer(streamed: readonly AnswerDelta[], end: AnswerEnd): ReadAnswer {
  const deltas = [...streamed, ...end.deltas];
  const calls: { id: string; name: string; arguments: string }[] = [];
  let text = "";
  let reasoning = "";
  const logprobs: TokenLogprob[] = [];
  for (const delta of deltas) {
    if (delta.type === "text") {
      text += delta.text;
      logprobs.push(...(delta.logprobs ?? []));
    } else if (delta.type === "reasoning") reasoning += delta.text;
    else {
      if (delta.start !== undefined) calls.push({ ...delta.start, arguments: "" });
      const call = calls[delta.index];
      if (call === undefined || delta.index !== calls.length - 1)
        throw new Error("a call of no start");
      call.arguments += delta.arguments;
    }
  }
  if (JSON.stringify(calls) !== JSON.stringify(end.calls))
    throw new Error("calls differ at the end");
  return { text, reasoning, calls, calledTools: end.calledTools, deltas, logprobs };
}
