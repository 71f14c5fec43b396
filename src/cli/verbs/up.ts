import type { Command } from "commander";
import { getErrorMessage } from "../../base/errors.ts";
import type { ServerFlags } from "../../config/server-settings.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { addServerOptions, toConfigFlags } from "../server-flags.ts";

/** SIGTERM ends the server within five seconds; what has not ended by then is safe to cut off. */
const CLOSE_MS_MAX = 4500;

interface UpFlags extends ServerFlags {
  readonly summary?: boolean;
}

export function addUp(program: Command, cli: Cli): void {
  const command = program
    .command("up")
    .summary("start a server on this machine, in the foreground")
    .description(
      "Starts a server: it follows the specs folder, keeps apps and models as they should be, starts the assistant, where there is a session bus the companion of the person too, and serves the API. Prints one line `berth ready {json}` when it is up. Ctrl-C or SIGTERM ends it, and the assistant and the companion with it; apps go on.",
    );
  addExamples(
    addServerOptions(command)
      .option("--summary", "show what runs and where, also without a terminal")
      .option("--no-summary", "show the ready line alone"),
    [
      ["berth up", "with the specs of ./specs, on http://127.0.0.1:7776"],
      ["berth up --data-dir /tmp/try --listen 127.0.0.1:0", "another one beside it"],
      ["berth up --listen 0.0.0.0:7776", "open to the network; the password then protects it"],
    ],
  ).action(async (flags: UpFlags) => {
    if (cli.globals.url !== undefined)
      throw new UsageError(
        "up starts a server here; --url names one elsewhere",
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
        // A second Ctrl-C. SIGTERM to a whole group arrives twice if another process passes it on as well.
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
          // The server is up all the same; but a summary that a Ctrl-C cut short is no news.
          if (!shutdown.signal.aborted)
            cli.note(`the summary is missing: ${getErrorMessage(error)}`);
        }
      } else if (password !== undefined)
        // Shown once, wherever it is seen: nobody could log in from elsewhere otherwise.
        cli.note(`password for logins from elsewhere, shown this once: ${password}`);
      await server.closed;
    } finally {
      process.off("SIGTERM", beginShutdown);
      process.off("SIGINT", beginShutdown);
    }
  });
}
