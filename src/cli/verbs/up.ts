import type { Command } from "commander";
import { getErrorMessage } from "../../base/errors.ts";
import type { ServerFlags } from "../../config/server-settings.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { addServerOptions, toConfigFlags } from "../server-flags.ts";

/**
 * The time that the server may take to stop after SIGTERM, so that it exits within five seconds. Work that still runs
 * then is safe to interrupt.
 */
const CLOSE_MS_MAX = 4500;

interface UpFlags extends ServerFlags {
  readonly summary?: boolean;
}

export function addUp(program: Command, cli: Cli): void {
  const command = program
    .command("up")
    .summary("start a server on this machine, in the foreground")
    .description(
      "Starts a server, which applies the files of the specs folder, reconciles apps and models, runs the assistant and, if there is a session bus, your companion, and serves the API. Prints one line `berth ready {json}` when it is ready. Ctrl-C or SIGTERM stops it, and the assistant and the companion with it; apps keep running.",
    );
  addExamples(
    addServerOptions(command)
      .option("--summary", "print the summary of apps and addresses, even without a terminal")
      .option("--no-summary", "print only the ready line"),
    [
      ["berth up", "use the specs in ./specs, and listen on http://127.0.0.1:7776"],
      ["berth up --data-dir /tmp/try --listen 127.0.0.1:0", "start a second, separate server"],
      ["berth up --api-domain berth.example.org", "serve the API at https://berth.example.org too"],
      [
        "berth up --listen 0.0.0.0:7776",
        "accept connections from other machines, whose users need the password",
      ],
    ],
  ).action(async (flags: UpFlags) => {
    if (cli.globals.url !== undefined)
      throw new UsageError(
        "up starts a server on this machine; --url names a server elsewhere",
        "berth up --listen HOST:PORT",
      );
    const { loadConfig } = await import("../../config/config.ts");
    const config = loadConfig({
      flags: toConfigFlags(cli, flags),
      environment: cli.io.environment,
      workingDirectory: cli.io.workingDirectory,
      isTerminal: cli.io.errorIsTerminal,
    });
    for (const warning of config.warnings) cli.note(cli.errorColours.yellow(warning));

    const { runServer } = await import("../../server/main.ts");
    const server = await runServer(config);
    const shutdown = new AbortController();
    const beginShutdown = (signal: NodeJS.Signals) => {
      if (shutdown.signal.aborted) {
        // A second Ctrl-C exits at once. A second SIGTERM does not: a process group may receive it twice.
        if (signal === "SIGINT") process.exit(cli.exitCode);
        return;
      }
      shutdown.abort();
      setTimeout(() => process.exit(cli.exitCode), CLOSE_MS_MAX).unref();
      void server.close();
    };
    process.on("SIGTERM", beginShutdown);
    process.on("SIGINT", beginShutdown);
    try {
      const { password, ...ready } = server.ready;
      await cli.print(`berth ready ${JSON.stringify(ready)}`);
      if (flags.summary ?? cli.io.outputIsTerminal) {
        const { printUpSummary } = await import("../status/up-summary.ts");
        try {
          await printUpSummary(cli, ready, password, shutdown.signal);
        } catch (error) {
          // A failure of the summary does not stop the server. A summary that the user interrupts needs no message.
          if (!shutdown.signal.aborted)
            cli.note(`could not print the summary: ${getErrorMessage(error)}`);
        }
      } else if (password !== undefined)
        // The summary contains the password. Without the summary, the password is printed here, because otherwise no
        // one could log in from another machine.
        cli.note(`password for logins from other machines, shown only this once: ${password}`);
      await server.closed;
    } finally {
      process.off("SIGTERM", beginShutdown);
      process.off("SIGINT", beginShutdown);
    }
  });
}
