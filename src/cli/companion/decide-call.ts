import { BerthError } from "../../base/errors.ts";
import type { AgentClient, CallResult } from "../../client/bus/agent-client.ts";
import { type ConfirmationSpec, parseCallDetail } from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import type { Companion } from "./connect-companion.ts";
import { askDecision, type DecisionPrompt } from "./decision-prompt.ts";
import type { ParkedCallWatcher } from "./parked-call-watcher.ts";
import { showConfirmationSpec } from "./show-confirmation-spec.ts";
import { sanitizeLine } from "./untrusted-text.ts";

export interface PromptedCall {
  readonly callId: bigint;
  readonly kind: "chip" | "modal";
  readonly spec: ConfirmationSpec;
}

/** A modal for what destroys, or counts as that because of what led to it. */
export function choosePromptKind(spec: ConfirmationSpec): PromptedCall["kind"] {
  return spec.effectiveTier === "destructive" ? "modal" : "chip";
}

export interface CallDecision {
  readonly result: CallResult;
  /** By Ctrl-C, or the terminal has gone: nobody is there to be asked anything more. */
  readonly isInterrupted: boolean;
}

/** Whoever pressed Ctrl-C does not wait long for the companion to hear of it; the call expires by itself. */
const DECLINE_MS_MAX = 3000;

/**
 * Shows a parked call to the person at the terminal, asks, and tells the companion. Ctrl-C declines, as
 * whoever presses it does not want the call; so does the signal while the question stands. Where somebody
 * else decides first, that is said, and the answer is what came of it. Rejects as `confirmCall` does.
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
    // It is decided, so that this asks for the answer only; and if it were not, no is the safe one.
    const end = await agent.confirm(callId, false, signal);
    if (endedAs !== undefined)
      cli.note(describeOutsideDecision(endedAs, parseCallDetail(end.detail).code));
    return { result: end, isInterrupted };
  }
  const end = await confirmCall(cli, agent, callId, decision === "approve", signal);
  return { result: end, isInterrupted };
}

/** All of what a person decides about, on standard error. */
export function showCall(cli: Cli, { callId, spec }: Pick<PromptedCall, "callId" | "spec">): void {
  cli.note(showConfirmationSpec(callId, spec, getErrorStyle(cli)));
  if (spec.holdMs > 0)
    cli.note(cli.errorColours.yellow(`  Read it: you are asked in ${spec.holdMs / 1000} s.`));
}

function describeOutsideDecision(status: string, code: string): string {
  if (code === "expired") return "Time is up.";
  if (code === "restarted") return "The companion was started anew.";
  return `Somebody else decided: ${sanitizeLine(status)}.`;
}

/** As AgentClient; where the companion lets only others confirm, the call is said to wait for them. */
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
      cli.note(`call ${callId} still waits, for somebody who may confirm it`);
    throw error;
  }
}

/** Of questions and remarks, which go to standard error. */
export function getErrorStyle(cli: Cli): ViewOptions {
  return { colours: cli.errorColours, nowMs: cli.io.now(), width: cli.io.errorColumns };
}

export function createCallPrompt({
  kind,
  spec,
}: Pick<PromptedCall, "kind" | "spec">): DecisionPrompt {
  if (kind === "chip")
    return {
      text: "Run it? [y/N] ",
      holdMs: spec.holdMs,
      parseAnswer: (line) => (/^y(es)?$/i.test(line) ? "approve" : "decline"),
    };
  const tool = sanitizeLine(spec.tool);
  return {
    text: "Type the tool's name to run it, nothing to decline: ",
    holdMs: spec.holdMs,
    parseAnswer: (line) => {
      if (line === spec.tool) return "approve";
      return line === "" || /^no?$/i.test(line) ? "decline" : { remark: `That is not ${tool}.` };
    },
  };
}
