import { BerthError, type ErrorCode } from "../../../base/errors.ts";
import type { OverlayClient } from "../../../client/bus/overlay-client.ts";
import type { OverlayTurn } from "../../../client/bus/overlay-turn.ts";
import {
  type ConsentQuestion,
  type OverlayQuestion,
  parseOverlayQuestion,
} from "../../../client/bus/overlay-wire.ts";
import type { Cli } from "../../cli.ts";
import {
  choosePromptKind,
  createCallPrompt,
  getErrorStyle,
  showCall,
} from "../../companion/decide-call.ts";
import type { DecisionOutcome, DecisionPrompt } from "../../companion/decision-prompt.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import { showConsentQuestion } from "./show-consent-question.ts";

/** An answer that nobody waits for any more. */
const lateCodes: readonly ErrorCode[] = ["not_found", "invalid_request"];

/** Who decides at the terminal; undefined where nobody is there. */
export type Prompter =
  | ((question: DecisionPrompt, signal: AbortSignal) => Promise<DecisionOutcome>)
  | undefined;

/**
 * Shows what a query waits for, asks the person, and tells the companion. Where nobody can be asked the answer is
 * no, and how it can be yes is said. Where somebody else answers first, that counts. Rejects as OverlayClient does.
 */
export async function answerQuestion(
  cli: Cli,
  overlay: OverlayClient,
  turn: OverlayTurn,
  document: unknown,
  prompter: Prompter,
  signal: AbortSignal,
): Promise<void> {
  const question = parseOverlayQuestion(document);
  showQuestion(cli, question);
  if (prompter === undefined || question.kind === "unknown") {
    cli.note(cli.errorColours.yellow(`The answer is no: ${explainRefusal(question)}`));
    return respond(overlay, turn, question, false, signal);
  }
  const over = new AbortController();
  const onAbort = () => over.abort();
  signal.addEventListener("abort", onAbort, { once: true });
  // The query goes on, or ends: somebody else has answered, or it was too late.
  const stopWatching = turn.onArrival(onAbort);
  try {
    const decision = await prompter(createQuestionPrompt(question), over.signal);
    if (decision !== "overtaken")
      await respond(overlay, turn, question, decision === "approve", signal);
    else if (!signal.aborted) cli.note("It was decided elsewhere, or time is up.");
  } finally {
    stopWatching();
    signal.removeEventListener("abort", onAbort);
  }
}

function showQuestion(cli: Cli, question: OverlayQuestion): void {
  if (question.kind === "call") showCall(cli, question);
  else if (question.kind === "consent") cli.note(showConsentQuestion(question, getErrorStyle(cli)));
}

function createQuestionPrompt(
  question: Exclude<OverlayQuestion, { kind: "unknown" }>,
): DecisionPrompt {
  if (question.kind === "call")
    return createCallPrompt({ kind: choosePromptKind(question.spec), spec: question.spec });
  return {
    text: "Send it, this once? [y/N] ",
    holdMs: 0,
    parseAnswer: (line) => (/^y(es)?$/i.test(line) ? "approve" : "decline"),
  };
}

function explainRefusal(question: OverlayQuestion): string {
  if (question.kind === "unknown")
    return "it asks for something that this version of berth does not know";
  if (question.kind === "call") return "there is no terminal to ask at; run this at one";
  return `there is no terminal to ask at; \`${formatConsentCommand(question)}\` allows it for good`;
}

function formatConsentCommand({ scopes }: ConsentQuestion): string {
  return `berth remote consent ${scopes.map((scope) => sanitizeLine(scope)).join(" ")} on`;
}

async function respond(
  overlay: OverlayClient,
  turn: OverlayTurn,
  { number }: OverlayQuestion,
  isApproved: boolean,
  signal: AbortSignal,
): Promise<void> {
  try {
    await overlay.respond(turn.queryId, number, isApproved, signal);
  } catch (error) {
    // It waits no more, or is over; how it goes on comes with the query's next signal.
    const isLate = error instanceof BerthError && lateCodes.includes(error.code);
    if (!isLate) throw error;
  }
}
