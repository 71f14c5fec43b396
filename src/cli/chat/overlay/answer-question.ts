import { BerthError, type ErrorCode } from "../../../base/errors.ts";
import type { OverlayClient } from "../../../client/bus/overlay-client.ts";
import type { OverlayTurn } from "../../../client/bus/overlay-turn.ts";
import {
  type ConsentQuestion,
  type OverlayQuestion,
  overlayQuestion,
} from "../../../client/bus/overlay-wire.ts";
import type { Cli } from "../../cli.ts";
import type { Decision, Question } from "../../companion/ask-decision.ts";
import { kindOf, lookOf, questionOf, showCall } from "../../companion/decide.ts";
import { shownLine } from "../../companion/untrusted-text.ts";
import { showConsentQuestion } from "./show-consent-question.ts";

/** An answer that nobody waits for any more. */
const lateCodes: readonly ErrorCode[] = ["not_found", "invalid_request"];

/** Who decides at the terminal; undefined where nobody is there. */
export type Person = ((question: Question, signal: AbortSignal) => Promise<Decision>) | undefined;

/**
 * Shows what a query waits for, asks the person, and tells the companion. Where nobody can be asked the answer is
 * no, and how it can be yes is said. Where somebody else answers first, that counts. Rejects as OverlayClient does.
 */
export async function answerQuestion(
  cli: Cli,
  overlay: OverlayClient,
  turn: OverlayTurn,
  document: unknown,
  person: Person,
  signal: AbortSignal,
): Promise<void> {
  const question = overlayQuestion(document);
  show(cli, question);
  if (person === undefined || question.kind === "unknown") {
    cli.note(cli.errorColours.yellow(`The answer is no: ${whyNot(question)}`));
    return respond(overlay, turn, question, false, signal);
  }
  const over = new AbortController();
  const onAbort = () => over.abort();
  signal.addEventListener("abort", onAbort, { once: true });
  // The query goes on, or ends: somebody else has answered, or it was too late.
  const stopLooking = turn.onArrival(onAbort);
  try {
    const decision = await person(questionFor(question), over.signal);
    if (decision !== "overtaken")
      await respond(overlay, turn, question, decision === "approve", signal);
    else if (!signal.aborted) cli.note("It was decided elsewhere, or time is up.");
  } finally {
    stopLooking();
    signal.removeEventListener("abort", onAbort);
  }
}

function show(cli: Cli, question: OverlayQuestion): void {
  if (question.kind === "call") showCall(cli, question);
  else if (question.kind === "consent") cli.note(showConsentQuestion(question, lookOf(cli)));
}

function questionFor(question: Exclude<OverlayQuestion, { kind: "unknown" }>): Question {
  if (question.kind === "call")
    return questionOf({ kind: kindOf(question.spec), spec: question.spec });
  return {
    text: "Send it, this once? [y/N] ",
    holdMs: 0,
    judge: (line) => (/^y(es)?$/i.test(line) ? "approve" : "decline"),
  };
}

function whyNot(question: OverlayQuestion): string {
  if (question.kind === "unknown")
    return "it asks for something that this version of berth does not know";
  if (question.kind === "call") return "there is no terminal to ask at; run this at one";
  return `there is no terminal to ask at; \`${allowing(question)}\` allows it for good`;
}

function allowing({ scopes }: ConsentQuestion): string {
  return `berth remote consent ${scopes.map((scope) => shownLine(scope)).join(" ")} on`;
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
