import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  addJsonOptions,
  collectValues,
  isJsonOutput,
  type JsonFlags,
} from "../command-options.ts";
import type { Companion } from "../companion/connect-companion.ts";
import { canPrompt } from "../prompt.ts";

interface CallFlags extends JsonFlags {
  readonly provenance?: readonly string[];
  readonly actor?: string;
  readonly yes?: boolean;
}

const interruptedMessage =
  "interrupted; the call may still run to its end: see `berth ledger tail --user`";

export function addCall(program: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      program
        .command("call")
        .summary("call a tool of an app, after confirmation if it changes something")
        .description(
          "Calls a tool and prints its result. Before a call that changes something, it shows the call and asks for y, or for the name of the tool if the call is destructive; Ctrl-C declines. Without a terminal, and without --yes, such a call waits for `berth confirm`. Exit codes: 0 done, 1 the companion could not be asked, 2 usage, 3 no answer in time, 4 the tool failed, 5 denied, 6 waiting.",
        )
        .argument("<app-id>", "id of an app")
        .argument("<tool>", "name of a tool")
        .argument(
          "[arguments...]",
          "JSON, KEY=TEXT and KEY:=JSON pairs, @FILE, or - for standard input",
        )
        .option(
          "--provenance <label>",
          "origin of this call, such as file:inbox; can be repeated. Default: user on a terminal, else unknown, which needs stricter confirmation",
          collectValues,
        )
        .option("--actor <text>", "description of the caller, shown with the confirmation")
        .option("-y, --yes", "confirm it without asking"),
    ),
    [
      ["berth call dev.berth.apps list_apps", "run a read tool, which needs no confirmation"],
      ["berth call dev.berth.apps deploy_app name=web image=nginx:1 port:=80", "ask, then run"],
      [`berth call dev.berth.apps stop_app '{"name": "web"}' --yes`, "run without asking"],
      ["berth call dev.berth.apps deploy_app - --json < app.json", "run from a script"],
    ],
  ).action(async (appId: string, tool: string, words: string[], flags: CallFlags) => {
    const { readCallArguments } = await import("../companion/call-arguments.ts");
    const argsJson = await readCallArguments(cli, words);
    // The arguments were read from standard input to its end, so the user's decision cannot be read from there.
    const isAsking = flags.yes !== true && words[0] !== "-" && canPrompt(cli);
    const provenance = flags.provenance ?? (cli.io.inputIsTerminal ? ["user"] : undefined);
    const request = { appId, tool, argsJson, actor: flags.actor, provenance };
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(
      cli,
      (companion, signal) =>
        performCall(cli, companion, request, flags, { words, isAsking }, signal),
      interruptedMessage,
    );
  });
}

async function performCall(
  cli: Cli,
  companion: Companion,
  request: Parameters<Companion["agent"]["requestCall"]>[0],
  flags: CallFlags,
  { words, isAsking }: { readonly words: readonly string[]; readonly isAsking: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { ParkedCallWatcher } = await import("../companion/parked-call-watcher.ts");
  const { parseCallDetail } = await import("../../client/bus/agent-wire.ts");
  const { sanitizeJson } = await import("../companion/untrusted-text.ts");
  const { callExitCodes, showCallResult } = await import("../companion/show-result.ts");
  const { confirmWithoutQuestion, decideCall, getErrorStyle } = await import(
    "../companion/decide-call.ts"
  );
  const { agent } = companion;
  using parked = await ParkedCallWatcher.watch(agent);
  const { callId, disposition, detail } = await agent.requestCall(request, signal);
  const finish = async (status: "executed" | "failed" | "denied", document: unknown) => {
    if (!isJsonOutput(flags))
      return showCallResult(cli, callId, status, parseCallDetail(document), words);
    cli.exitCode = callExitCodes[status];
    await cli.print(
      sanitizeJson({ v: 1, call_id: Number(callId), disposition, status, detail: document }),
    );
  };
  if (disposition !== "confirm-chip" && disposition !== "confirm-modal")
    return finish(disposition, detail);
  if (flags.yes === true) {
    const end = await confirmWithoutQuestion(cli, agent, callId, signal);
    return finish(end.status, end.detail);
  }
  const spec = await parked.waitForSpec(callId, signal);
  if (isAsking && spec !== undefined) {
    const kind = disposition === "confirm-chip" ? "chip" : "modal";
    const { result: end } = await decideCall(
      cli,
      companion,
      parked,
      { callId, kind, spec },
      signal,
    );
    return finish(end.status, end.detail);
  }
  cli.exitCode = callExitCodes.parked;
  if (spec !== undefined) {
    const { showConfirmationSpec } = await import("../companion/show-confirmation-spec.ts");
    cli.note(showConfirmationSpec(callId, spec, getErrorStyle(cli)));
  }
  const hint = `berth confirm ${callId}`;
  if (isJsonOutput(flags))
    return cli.print(
      sanitizeJson({ v: 1, call_id: Number(callId), disposition, status: "parked", detail }),
    );
  await cli.print(`call ${callId} waits for confirmation: ${hint}, or ${hint} --decline`);
}
