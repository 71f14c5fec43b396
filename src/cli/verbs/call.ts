import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import type { Companion } from "../companion/connect.ts";
import { collect, withExamples } from "../options.ts";
import { canAsk } from "../prompt.ts";

interface CallFlags {
  readonly provenance?: readonly string[];
  readonly actor?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const left = "left; the call may be done all the same: `berth ledger tail --user` tells";

export function addCall(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("call")
      .summary("call a tool of an app, and confirm it where that is asked for")
      .description(
        "Calls a tool and prints its result. What changes something is shown first, and asks: y, or for what is destructive the tool's name; Ctrl-C declines. Without a terminal, and without --yes, such a call is left waiting for `berth confirm`. Exit codes: 0 done, 1 the companion could not be asked, 2 usage, 3 no answer in time, 4 the tool failed, 5 denied, 6 waiting.",
      )
      .argument("<app-id>", "id of an app")
      .argument("<tool>", "name of a tool")
      .argument(
        "[arguments...]",
        "JSON, KEY=TEXT and KEY:=JSON pairs, @FILE, or - for what comes in",
      )
      .option(
        "--provenance <label>",
        "what led to this call, such as file:inbox; can be given again. Default: user at a terminal, else unknown, which asks for more",
        collect,
      )
      .option("--actor <text>", "who wants it, in words; shown to whoever confirms")
      .option("-y, --yes", "confirm it without asking")
      .option("--json", "print what the companion says, as JSON"),
    [
      ["berth call dev.berth.apps list_apps", "a read tool: runs at once"],
      ["berth call dev.berth.apps deploy_app name=web image=nginx:1 port:=80", "asks, and runs"],
      [`berth call dev.berth.apps stop_app '{"name": "web"}' --yes`, "runs without asking"],
      ["berth call dev.berth.apps deploy_app - --json < app.json", "for scripts"],
    ],
  ).action(async (appId: string, tool: string, words: string[], flags: CallFlags) => {
    const { callArguments } = await import("../companion/call-arguments.ts");
    const argsJson = await callArguments(cli, words);
    // With standard input read to its end there is nobody left to be asked.
    const isAsking = flags.yes !== true && words[0] !== "-" && canAsk(cli);
    const provenance = flags.provenance ?? (cli.io.inputIsTerminal ? ["user"] : undefined);
    const request = { appId, tool, argsJson, actor: flags.actor, provenance };
    const { withCompanion } = await import("../companion/connect.ts");
    await withCompanion(
      cli,
      (companion, signal) => perform(cli, companion, request, flags, isAsking, signal),
      left,
    );
  });
}

async function perform(
  cli: Cli,
  companion: Companion,
  request: Parameters<Companion["agent"]["requestCall"]>[0],
  flags: CallFlags,
  isAsking: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { ParkedCalls } = await import("../companion/parked-calls.ts");
  const { callDetail } = await import("../../client/bus/agent-wire.ts");
  const { shownJson } = await import("../companion/untrusted-text.ts");
  const { callExitCodes, showEnd } = await import("../companion/show-result.ts");
  const { confirmCall, decide, lookOf } = await import("../companion/decide.ts");
  const { agent } = companion;
  using parked = await ParkedCalls.watch(agent);
  const { callId, disposition, detail } = await agent.requestCall(request, signal);
  const finish = async (status: "executed" | "failed" | "denied", document: unknown) => {
    if (flags.json !== true) return showEnd(cli, callId, status, callDetail(document));
    cli.exitCode = callExitCodes[status];
    await cli.print(
      shownJson({ v: 1, call_id: Number(callId), disposition, status, detail: document }),
    );
  };
  if (disposition !== "confirm-chip" && disposition !== "confirm-modal")
    return finish(disposition, detail);
  if (flags.yes === true) {
    const end = await confirmCall(cli, agent, callId, true, signal);
    return finish(end.status, end.detail);
  }
  const spec = await parked.spec(callId, signal);
  if (isAsking && spec !== undefined) {
    const kind = disposition === "confirm-chip" ? "chip" : "modal";
    const { end } = await decide(cli, companion, parked, { callId, kind, spec }, signal);
    return finish(end.status, end.detail);
  }
  cli.exitCode = callExitCodes.parked;
  if (spec !== undefined) {
    const { showSpec } = await import("../companion/show-spec.ts");
    cli.note(showSpec(callId, spec, lookOf(cli)));
  }
  const hint = `berth confirm ${callId}`;
  if (flags.json === true)
    return cli.print(
      shownJson({ v: 1, call_id: Number(callId), disposition, status: "parked", detail }),
    );
  await cli.print(`call ${callId} waits to be confirmed: ${hint}, or ${hint} --decline`);
}
