import type { Command } from "commander";
import type { CallResult } from "../../client/bus/agent-client.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";
import type { Companion } from "../companion/connect-companion.ts";
import { canPrompt } from "../prompt.ts";

interface ConfirmFlags extends JsonFlags {
  readonly list?: boolean;
  readonly only?: boolean;
  readonly yes?: boolean;
  readonly decline?: boolean;
}

const interruptedMessage =
  "interrupted; a confirmed call may still run to its end: see `berth ledger tail --user`";

export function addConfirm(program: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      program
        .command("confirm")
        .summary("confirm or decline tool calls that wait for you")
        .description(
          "Shows a waiting call, and asks as `berth call` does: for y, or for the name of the tool if the call is destructive; Ctrl-C declines. Without a number, it shows every waiting call, oldest first, and then each new one, until Ctrl-C. A call without a decision ends by itself after five minutes. The exit codes are those of `berth call`; a call declined with --decline exits with 0.",
        )
        .argument("[call-id]", "number of a call")
        .option("--list", "only list the waiting calls")
        .option("-y, --yes", "confirm the call without asking")
        .option("--decline", "decline the call")
        .option("--only", "without a number: let no other program decide while this one runs"),
      "with --list or a number: print the answer of the companion as JSON",
    ),
    [
      ["berth confirm", "show each waiting call, and decide"],
      ["berth confirm --list", "list the waiting calls"],
      ["berth confirm 17", "show call 17, and decide"],
      ["berth confirm 17 --decline", "decline call 17"],
    ],
  ).action(async (word: string | undefined, flags: ConfirmFlags) => {
    const mode = parseMode(cli, word, flags);
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(
      cli,
      async (companion, signal) => {
        if (mode === "list") return listWaiting(cli, companion, flags, signal);
        if (mode === "each") return decideEach(cli, companion, flags.only === true, signal);
        return decideOne(cli, companion, mode, flags, signal);
      },
      mode === "list" || mode === "each" ? "interrupted" : interruptedMessage,
    );
  });
}

/**
 * Returns the mode of `berth confirm` for these arguments: the list of calls, one question for each call, or the call
 * with this id. Throws UsageError if the arguments contradict each other.
 */
function parseMode(
  cli: Cli,
  word: string | undefined,
  flags: ConfirmFlags,
): "list" | "each" | bigint {
  const { list: isList = false, only = false, yes = false, decline = false } = flags;
  if (isList) {
    if (word !== undefined || only || yes || decline)
      throw new UsageError("--list can only be combined with --json", "berth confirm --list");
    return "list";
  }
  if (word === undefined) {
    if (yes || decline || isJsonOutput(flags) || !canPrompt(cli))
      throw new UsageError(
        "without a terminal, confirm needs the number of a call",
        "berth confirm NUMBER; `berth confirm --list` shows the numbers",
      );
    return "each";
  }
  if (!/^\d{1,16}$/.test(word))
    throw new UsageError(
      `"${word}" is not the number of a call`,
      "berth confirm 17; `berth confirm --list` shows the numbers",
    );
  if (only) throw new UsageError("--only cannot be combined with a number");
  if (yes && decline) throw new UsageError("--yes and --decline exclude each other");
  if (!yes && !decline && !canPrompt(cli))
    throw new UsageError("there is no terminal on which to ask", "add --yes or --decline");
  return BigInt(word);
}

async function listWaiting(
  cli: Cli,
  { agent }: Companion,
  flags: ConfirmFlags,
  signal: AbortSignal,
): Promise<void> {
  const { parseParkedCalls } = await import("../../client/bus/agent-wire.ts");
  const document = await agent.listParked(signal);
  const calls = parseParkedCalls(document);
  if (isJsonOutput(flags)) {
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    return cli.print(sanitizeJson(document));
  }
  if (calls.length === 0) return cli.note("no call waits");
  const { showParkedCalls } = await import("../companion/show-parked-calls.ts");
  await cli.print(
    showParkedCalls(calls, { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns }),
  );
}

async function decideOne(
  cli: Cli,
  companion: Companion,
  callId: bigint,
  flags: ConfirmFlags,
  signal: AbortSignal,
): Promise<void> {
  const { callExitCodes, showCallResult } = await import("../companion/show-result.ts");
  const { parseCallDetail } = await import("../../client/bus/agent-wire.ts");
  const { confirmWithoutQuestion } = await import("../companion/decide-call.ts");
  const { status, detail } =
    flags.yes === true
      ? await confirmWithoutQuestion(cli, companion.agent, callId, signal)
      : flags.decline === true
        ? await companion.agent.confirm(callId, false, signal)
        : await askAndDecide(cli, companion, callId, signal);
  const callResult = parseCallDetail(detail);
  const isDeclined = flags.decline === true && callResult.code === "declined";
  if (isJsonOutput(flags)) {
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    cli.exitCode = isDeclined ? 0 : callExitCodes[status];
    return cli.print(sanitizeJson({ v: 1, call_id: Number(callId), status, detail }));
  }
  if (callResult.isReplayed) cli.note("The call was decided before; this is its result:");
  if (isDeclined) return cli.print(`call ${callId} is declined`);
  await showCallResult(cli, callId, status, callResult);
}

async function askAndDecide(
  cli: Cli,
  companion: Companion,
  callId: bigint,
  signal: AbortSignal,
): Promise<CallResult> {
  const { ParkedCallWatcher } = await import("../companion/parked-call-watcher.ts");
  const { decideCall, choosePromptKind } = await import("../companion/decide-call.ts");
  const { agent } = companion;
  using parked = await ParkedCallWatcher.watch(agent);
  await parked.catchUp(agent, signal);
  const spec = parked.find(callId);
  // The call does not wait any more, so declining it does nothing, and returns the result of the earlier decision.
  if (spec === undefined) return agent.confirm(callId, false, signal);
  const { result: end } = await decideCall(
    cli,
    companion,
    parked,
    { callId, kind: choosePromptKind(spec), spec },
    signal,
  );
  return end;
}

/** Asks about one call after another until Ctrl-C, or until the connection to the bus ends. */
async function decideEach(
  cli: Cli,
  companion: Companion,
  isOnly: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { agent, bus } = companion;
  const { ParkedCallWatcher } = await import("../companion/parked-call-watcher.ts");
  const { decideCall, choosePromptKind } = await import("../companion/decide-call.ts");
  const { showCallResult } = await import("../companion/show-result.ts");
  const { parseCallDetail } = await import("../../client/bus/agent-wire.ts");
  const { busConnectionLost } = await import("../../client/bus/connection-errors.ts");
  using parked = await ParkedCallWatcher.watch(agent);
  if (isOnly) await agent.registerConfirmer(signal);
  const waiting = await parked.catchUp(agent, signal);
  const now =
    waiting === 0 ? "No call waits" : waiting === 1 ? "1 call waits" : `${waiting} calls wait`;
  cli.note(cli.errorColours.dim(`${now} now; new calls appear here. Press Ctrl-C to quit.`));
  const busClosed = bus.closed.then(() => {
    signal.throwIfAborted();
    throw busConnectionLost();
  });
  for (;;) {
    const [callId, spec] = await Promise.race([parked.takeNext(signal), busClosed]);
    const call = { callId, kind: choosePromptKind(spec), spec };
    const { result: end, isInterrupted } = await decideCall(cli, companion, parked, call, signal);
    await showCallResult(cli, callId, end.status, parseCallDetail(end.detail));
    cli.exitCode = 0;
    if (isInterrupted) return;
  }
}
