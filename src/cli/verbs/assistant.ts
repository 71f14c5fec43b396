import { type Command, Option } from "commander";
import type { CompanionReady } from "../../assistant/daemons/companion-daemon.ts";
import type { RunningDaemon } from "../../assistant/daemons/daemon-lifetime.ts";
import type { AssistantReady } from "../../assistant/daemons/system-instance.ts";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { assistantSettings } from "../../config/assistant-settings.ts";
import type { CompanionFlags } from "../../config/companion-config.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, addSettingOptions } from "../command-options.ts";

/**
 * The time that the daemon may take to stop after SIGTERM, so that it exits within five seconds. Work that still runs
 * then is safe to interrupt.
 */
const CLOSE_MS_MAX = 4500;

export function addAssistant(program: Command, cli: Cli): void {
  const command = program
    .command("assistant")
    .summary("run language models on this machine, in the foreground")
    .description(
      "Starts the assistant: a chat-completions endpoint on 127.0.0.1:7777 for any OpenAI client. It records every request in the ledger before a model sees it (`berth ledger verify`). With --user it starts your companion instead: the same endpoint on 7778, and the names dev.assistant.* on the session bus with tools of apps, confirmation, undo, search, and a memory for each app. Prints one line `berth ready {json}` when it is ready. Ctrl-C or SIGTERM stops it. --data-dir is the data directory of this daemon (also BERTH_ASSISTANT_DATA_DIR), with models, ledger and sockets; --config is the settings file of a companion, default: ~/.config/berth/companion.yaml.",
    );
  addExamples(
    addSettingOptions(
      command
        .option("--system", "the instance of this machine: local models, port 7777 (the default)")
        .option("--user", "the companion of one person: the session bus, and port 7778")
        // The Berth server that starts this daemon passes its own id, by which it later recognises the daemons that it
        // started.
        .addOption(new Option("--started-by <program>").hideHelp()),
      assistantSettings,
    ),
    [
      ["berth assistant --model ./some-model.gguf", "serve one model"],
      [
        "berth assistant --model chat=./a.gguf --alias gpt-4o=chat",
        "serve a model under two names",
      ],
      ["berth assistant --engine stub", "test clients without a model"],
      ["berth assistant --user", "run the companion, next to a system instance"],
      ["berth assistant install", "start the companion at each login and on demand"],
    ],
  ).action(async (flags: CompanionFlags) => {
    assertLocal(cli);
    if (flags.user !== true && (flags.upstream !== undefined || cli.globals.config !== undefined))
      throw new UsageError("--upstream and --config are options of the companion: add --user");
    const { sendToParent } = await import("../../base/parent-message.ts");
    const isSupervised = flags.startedBy !== undefined;
    // A system instance keeps running, with its models, after its parent exits; a companion ends with its parent.
    const endsWithParent = isSupervised && flags.user === true;
    const shutdown = new AbortController();
    const beginShutdown = () => {
      if (shutdown.signal.aborted) return;
      shutdown.abort();
      setTimeout(() => process.exit(cli.exitCode), CLOSE_MS_MAX).unref();
    };
    // A signal during the start closes the daemon as soon as it has started. SIGTERM may arrive twice, for a
    // process group and from a parent that forwards it; a second Ctrl-C exits at once.
    process.on("SIGTERM", beginShutdown);
    process.once("SIGINT", beginShutdown);
    if (endsWithParent) process.once("disconnect", beginShutdown);
    if (endsWithParent && process.send && !process.connected) beginShutdown();
    try {
      const daemon = await startDaemon(cli, flags);
      shutdown.signal.addEventListener("abort", () => void daemon.close());
      if (shutdown.signal.aborted) {
        await daemon.close();
        return;
      }
      if (isSupervised) await sendToParent({ type: "ready", url: daemon.ready.url });
      await cli.print(`berth ready ${JSON.stringify(daemon.ready)}`);
      if (cli.io.outputIsTerminal) await printReadySummary(cli, daemon.ready, shutdown.signal);
      await daemon.closed;
    } catch (error) {
      const failure = describeStartFailure(error);
      if (isSupervised && failure) await sendToParent({ type: "failed", ...failure });
      throw error;
    } finally {
      process.off("SIGTERM", beginShutdown);
      process.off("SIGINT", beginShutdown);
      process.off("disconnect", beginShutdown);
    }
  });
  addInstall(command, cli);
  addUninstall(command, cli);
}

function addInstall(assistant: Command, cli: Cli): void {
  addExamples(
    assistant
      .command("install")
      .summary("start the companion at each login, and on demand")
      .description(
        "Writes a systemd user unit and D-Bus service files, so that the companion starts at each login and when a program calls one of its names. Accepts the flags of `berth assistant --user`, and stores them in the unit. Run it again after Berth was moved or updated.",
      )
      .option("--no-start", "write the files, but start nothing now"),
    [
      ["berth assistant install", "use the models of the system instance"],
      [
        "berth assistant install --engine llama --model ./some-model.gguf",
        "use a model of the companion itself",
      ],
    ],
  ).action(async ({ start }: { start: boolean }) => {
    assertLocal(cli);
    const { loadCompanionConfig } = await import("../../config/companion-config.ts");
    const { collectDaemonFlags } = await import("../companion/install/daemon-flags.ts");
    const { installCompanion } = await import("../companion/install/install-companion.ts");
    const flags = collectDaemonFlags(assistant, cli.globals, cli.io.workingDirectory);
    // The flags are validated first, because a unit with flags that the daemon refuses would never start.
    loadCompanionConfig(createDaemonInput(cli, assistant.opts<CompanionFlags>()));
    await installCompanion(cli, { flags, shouldStart: start });
  });
}

function addUninstall(assistant: Command, cli: Cli): void {
  addExamples(
    assistant
      .command("uninstall")
      .summary("stop the companion, and remove the files of its installation")
      .description(
        "Stops the companion, and removes its unit and its service files. Its data stays: ledger, keys, memory and settings.",
      ),
    [["berth assistant uninstall", "stop and uninstall the companion"]],
  ).action(async () => {
    assertLocal(cli);
    const { uninstallCompanion } = await import("../companion/install/install-companion.ts");
    await uninstallCompanion(cli);
  });
}

function assertLocal(cli: Cli): void {
  if (cli.globals.url !== undefined)
    throw new UsageError(
      "`berth assistant` starts a daemon on this machine, and cannot be used with --url",
    );
}

function createDaemonInput(cli: Cli, flags: CompanionFlags) {
  return {
    flags: { ...flags, dataDir: cli.globals.dataDir, config: cli.globals.config },
    environment: cli.io.environment,
    workingDirectory: cli.io.workingDirectory,
    isTerminal: cli.io.errorIsTerminal,
  };
}

/** Prints the summary for a user at a terminal. A failure is only noted: the daemon keeps running. */
async function printReadySummary(
  cli: Cli,
  ready: AssistantReady | CompanionReady,
  signal: AbortSignal,
): Promise<void> {
  try {
    if (ready.instance === "user") {
      const { printCompanionSummary } = await import("../status/companion-summary.ts");
      await printCompanionSummary(cli, ready);
    } else {
      const { printAssistantSummary } = await import("../status/assistant-summary.ts");
      await printAssistantSummary(cli, ready, signal);
    }
  } catch (error) {
    if (!signal.aborted) cli.note(`could not print the summary: ${getErrorMessage(error)}`);
  }
}

async function startDaemon(
  cli: Cli,
  flags: CompanionFlags,
): Promise<RunningDaemon<AssistantReady | CompanionReady>> {
  const input = createDaemonInput(cli, flags);
  if (flags.user === true) {
    if (flags.system === true) throw new UsageError("--system and --user exclude each other");
    const { loadCompanionConfig } = await import("../../config/companion-config.ts");
    const { runCompanion } = await import("../../assistant/daemons/companion-daemon.ts");
    return runCompanion(loadCompanionConfig(input));
  }
  const { loadAssistantConfig } = await import("../../config/assistant-config.ts");
  const { runSystemInstance } = await import("../../assistant/daemons/system-instance.ts");
  return runSystemInstance(loadAssistantConfig(input));
}

/**
 * Returns the message and the hint of an expected error; undefined for any other error, because its message may name
 * paths of this machine.
 */
function describeStartFailure(
  error: unknown,
): { message: string; hint: string | null } | undefined {
  if (error instanceof BerthError) return { message: error.message, hint: error.hint ?? null };
  const isExpected = error instanceof Error && error.name === "AssistantError";
  return isExpected ? { message: error.message, hint: null } : undefined;
}
