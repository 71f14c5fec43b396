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
import { questionTexts } from "../../companion/question-texts.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import { showConsentQuestion } from "./show-consent-question.ts";

/** The error codes for an answer to a question that is no longer open. */
const lateCodes: readonly ErrorCode[] = ["not_found", "invalid_request"];

/** Asks the user at the terminal; undefined if there is no terminal. */
export type Prompter =
  | ((question: DecisionPrompt, signal: AbortSignal) => Promise<DecisionOutcome>)
  | undefined;

/**
 * Shows the question of a query, asks the user, and sends the answer to the companion. Without a terminal the answer is
 * no, and a hint is printed. If another client answers first, that answer counts. Rejects with the errors of
 * OverlayClient.
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
  // If an event arrives, the query has continued or ended: another client has answered, or the question has expired.
  // The prompt is then closed.
  const stopWatching = turn.onArrival(onAbort);
  try {
    const decision = await prompter(createQuestionPrompt(question), over.signal);
    if (decision !== "overtaken")
      await respond(overlay, turn, question, decision === "approve", signal);
    else if (!signal.aborted) cli.note("Another client has answered, or the question has expired.");
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
    text: questionTexts.consent,
    holdMs: 0,
    parseAnswer: (line) => (/^y(es)?$/i.test(line) ? "approve" : "decline"),
  };
}

function explainRefusal(question: OverlayQuestion): string {
  if (question.kind === "unknown") return "this version of berth does not know the question";
  if (question.kind === "call")
    return "there is no terminal for the question; run the command at a terminal";
  return `there is no terminal for the question; \`${formatConsentCommand(question)}\` allows it permanently`;
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
    // The question is no longer open. The next signal of the query reports the outcome.
    const isLate = error instanceof BerthError && lateCodes.includes(error.code);
    if (!isLate) throw error;
  }
}
