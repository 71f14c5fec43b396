import { setTimeout as delay } from "node:timers/promises";
import { BerthError } from "../../base/errors.ts";
import type { AgentClient, CallResult } from "../../client/bus/agent-client.ts";
import {
  type ConfirmationSpec,
  parseCallDetail,
  parseParkedCalls,
} from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import type { Companion } from "./connect-companion.ts";
import { askDecision, type DecisionPrompt } from "./decision-prompt.ts";
import type { ParkedCallWatcher } from "./parked-call-watcher.ts";
import { questionTexts } from "./question-texts.ts";
import { showConfirmationSpec } from "./show-confirmation-spec.ts";
import { sanitizeLine } from "./untrusted-text.ts";

export interface PromptedCall {
  readonly callId: bigint;
  readonly kind: "chip" | "modal";
  readonly spec: ConfirmationSpec;
}

/**
 * Returns `modal` if the call is destructive, or is treated as destructive because of its provenance; otherwise `chip`.
 */
export function choosePromptKind(spec: ConfirmationSpec): PromptedCall["kind"] {
  return spec.effectiveTier === "destructive" ? "modal" : "chip";
}

export interface CallDecision {
  readonly result: CallResult;
  /** True after Ctrl-C or the loss of the terminal: no further question can be asked. */
  readonly isInterrupted: boolean;
}

/** The longest wait for the companion after Ctrl-C. If it does not answer, the call expires. */
const DECLINE_MS_MAX = 3000;

/**
 * Shows a call that waits for confirmation at the terminal, asks the user, and sends the decision to the companion.
 * Ctrl-C declines the call, and so does an abort of the signal during the question. If another client decides first, a
 * note says so, and the result of that decision is returned. Rejects with the errors of `confirmCall`.
 */
export async function decideCall(
  cli: Cli,
  { agent, bus }: Companion,
  watcher: ParkedCallWatcher,
  call: PromptedCall,
  signal: AbortSignal,
): Promise<CallDecision> {
  const { callId } = call;
  showCall(cli, call);
  const over = new AbortController();
  const watching = AbortSignal.any([signal, over.signal]);
  let endedAs: string | undefined;
  const ended = (async () => {
    endedAs = await watcher.waitForEnd(callId, watching).catch(() => undefined);
    over.abort();
  })();
  void bus.closed.then(() => over.abort());
  const decision = await askDecision(cli, createCallPrompt(call), watching);
  const isInterrupted = decision === "interrupted" || signal.aborted;
  over.abort();
  await ended;
  if (isInterrupted) {
    const end = await agent.confirm(callId, false, AbortSignal.timeout(DECLINE_MS_MAX));
    return { result: end, isInterrupted };
  }
  if (decision === "overtaken") {
    // Another client has decided about the call, so this request only fetches the result. It sends `false`, which is
    // the safe decision if the call should still wait.
    const end = await agent.confirm(callId, false, signal);
    if (endedAs !== undefined)
      cli.note(describeOutsideDecision(endedAs, parseCallDetail(end.detail).code));
    return { result: end, isInterrupted };
  }
  const end = await confirmCall(cli, agent, callId, decision === "approve", signal);
  return { result: end, isInterrupted };
}

/** Prints all details of the call on standard error. */
export function showCall(cli: Cli, { callId, spec }: Pick<PromptedCall, "callId" | "spec">): void {
  cli.note(showConfirmationSpec(callId, spec, getErrorStyle(cli)));
  if (spec.holdMs > 0)
    cli.note(
      cli.errorColours.yellow(
        `  Read the call first; the question follows in ${spec.holdMs / 1000} s.`,
      ),
    );
}

function describeOutsideDecision(status: string, code: string): string {
  if (code === "expired") return "The call has expired.";
  if (code === "restarted") return "The companion was restarted.";
  return `Another client has decided: ${sanitizeLine(status)}.`;
}

/** Sends the decision. If only another client may confirm, prints that the call still waits. */
export async function confirmCall(
  cli: Cli,
  agent: AgentClient,
  callId: bigint,
  approve: boolean,
  signal: AbortSignal,
): Promise<CallResult> {
  try {
    return await agent.confirm(callId, approve, signal);
  } catch (error) {
    if (error instanceof BerthError && error.code === "forbidden")
      cli.note(`call ${callId} still waits for a client that may confirm it`);
    throw error;
  }
}

/**
 * Confirms a call without a question, for `--yes`. If the companion accepts the confirmation only after the call's hold
 * time, waits for that time and confirms the call then.
 */
export async function confirmWithoutQuestion(
  cli: Cli,
  agent: AgentClient,
  callId: bigint,
  signal: AbortSignal,
): Promise<CallResult> {
  try {
    return await confirmCall(cli, agent, callId, true, signal);
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== "wrong_state") throw error;
    const parked = parseParkedCalls(await agent.listParked(signal));
    const spec = parked.find((call) => call.callId === callId)?.spec;
    await delay(spec?.holdMs ?? 0, undefined, { signal }).catch(() => signal.throwIfAborted());
    return confirmCall(cli, agent, callId, true, signal);
  }
}

/** The style of questions and remarks, which are printed on standard error. */
export function getErrorStyle(cli: Cli): ViewOptions {
  return { colours: cli.errorColours, nowMs: cli.io.now(), width: cli.io.errorColumns };
}

export function createCallPrompt({
  kind,
  spec,
}: Pick<PromptedCall, "kind" | "spec">): DecisionPrompt {
  if (kind === "chip")
    return {
      text: questionTexts.call,
      holdMs: spec.holdMs,
      parseAnswer: (line) => (/^y(es)?$/i.test(line) ? "approve" : "decline"),
    };
  const tool = sanitizeLine(spec.tool);
  return {
    text: questionTexts.destructiveCall,
    holdMs: spec.holdMs,
    parseAnswer: (line) => {
      if (line === spec.tool) return "approve";
      return line === "" || /^no?$/i.test(line) ? "decline" : { remark: `That is not ${tool}.` };
    },
  };
}
