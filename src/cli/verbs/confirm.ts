import type { Command } from "commander";
import type { CallResult } from "../../client/bus/agent-client.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import type { Companion } from "../companion/connect-companion.ts";
import { canPrompt } from "../prompt.ts";

interface ConfirmFlags {
  readonly list?: boolean;
  readonly only?: boolean;
  readonly yes?: boolean;
  readonly decline?: boolean;
  readonly json?: boolean;
}

const interruptedMessage =
  "left; a call that was confirmed may be done all the same: `berth ledger tail --user` tells";

export function addConfirm(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("confirm")
      .summary("decide about calls of tools that wait for a person")
      .description(
        "Shows a call that waits, and asks as `berth call` does: y, or for what is destructive the tool's name; Ctrl-C declines. Without a number: every call that waits, oldest first, and each that comes after, until Ctrl-C. A call that nobody decides about ends by itself after five minutes. Exit codes as of `berth call`; a decline that was asked for with --decline is 0.",
      )
      .argument("[call-id]", "number of a call")
      .option("--list", "only list what waits")
      .option("-y, --yes", "run it without asking")
      .option("--decline", "it is not to run")
      .option("--only", "without a number: while this runs, nobody else may decide")
      .option("--json", "with --list or a number: print what the companion says, as JSON"),
    [
      ["berth confirm", "see each one and decideCall, while assistants are at work"],
      ["berth confirm --list", "what waits"],
      ["berth confirm 17", "see it and decide"],
      ["berth confirm 17 --decline", "never run it"],
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
      mode === "list" || mode === "each" ? "left" : interruptedMessage,
    );
  });
}

/** What is to be done: a number is that of a call. Throws UsageError where nothing can come of it. */
function parseMode(
  cli: Cli,
  word: string | undefined,
  flags: ConfirmFlags,
): "list" | "each" | bigint {
  const { list: isList = false, only = false, yes = false, decline = false, json = false } = flags;
  if (isList) {
    if (word !== undefined || only || yes || decline)
      throw new UsageError("--list goes with --json alone", "berth confirm --list");
    return "list";
  }
  if (word === undefined) {
    if (yes || decline || json || !canPrompt(cli))
      throw new UsageError(
        "confirm needs the number of a call, unless a person sits at a terminal to be asked",
        "berth confirm NUMBER; `berth confirm --list` has the numbers",
      );
    return "each";
  }
  if (!/^\d{1,16}$/.test(word))
    throw new UsageError(
      `"${word}" is not the number of a call`,
      "berth confirm 17; `berth confirm --list` has the numbers",
    );
  if (only) throw new UsageError("--only goes without a number");
  if (yes && decline) throw new UsageError("--yes and --decline are two answers");
  if (!yes && !decline && !canPrompt(cli))
    throw new UsageError("there is no terminal to ask at", "add --yes, or --decline");
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
  if (flags.json === true) {
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
  const { status, detail } =
    flags.yes === true || flags.decline === true
      ? await companion.agent.confirm(callId, flags.decline !== true, signal)
      : await askAndDecide(cli, companion, callId, signal);
  const callResult = parseCallDetail(detail);
  const isDeclined = flags.decline === true && callResult.code === "declined";
  if (flags.json === true) {
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    cli.exitCode = isDeclined ? 0 : callExitCodes[status];
    return cli.print(sanitizeJson({ v: 1, call_id: Number(callId), status, detail }));
  }
  if (callResult.isReplayed) cli.note("It was decided about before; this is how it ended:");
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
  // Decided about, or there is no such call: no runs nothing, and is answered with what came of it.
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

/** Until Ctrl-C, or until the bus goes away. */
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
  cli.note(cli.errorColours.dim(`${now} now; those that come are shown here, too. Ctrl-C leaves.`));
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
