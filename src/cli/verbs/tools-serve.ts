import { isAbsolute, join, resolve } from "node:path";
import type { Command } from "commander";
import type { AssistantToken } from "../../tool-server/assistant-token.ts";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";

interface ServeFlags {
  readonly stateDir?: string;
  readonly untilInputEnds?: boolean;
  readonly forgetToken?: boolean;
}

/**
 * The time that a call of a tool waits for an app to become ready. A call may take 60 s in total; the rest of this time
 * is for the other requests that the tool sends to the server.
 */
const WAIT_MS = 45_000;

export function addToolsServe(tools: Command, cli: Cli): void {
  addExamples(
    tools
      .command("serve")
      .summary("serve Berth's own tools to your companion")
      .description(
        "Serves the tools of dev.berth.apps, with which an assistant manages the apps of the server, on a socket of this session. Your companion starts this command when one of them is called. The tools use a token of their own, of scope write, which the first call creates: `berth token ls` lists it, `berth token revoke dev.berth.apps` locks the assistant out.",
      )
      .option(
        "--state-dir <dir>",
        "folder for the token and the undo records; default: the folder `tools` in the companion's data directory",
      )
      .option("--until-input-ends", "stop when standard input is closed")
      .option(
        "--forget-token",
        "delete the stored token, for example after it was revoked; the next call creates a new one",
      ),
    [
      ["berth tools serve", "serve the tools until Ctrl-C"],
      ["berth tools serve --forget-token", "restore access after the token was revoked"],
    ],
  ).action(async (flags: ServeFlags) => {
    const { resolveCompanionDataDir } = await import("../../base/assistant-paths.ts");
    const { AssistantToken: Token } = await import("../../tool-server/assistant-token.ts");
    const { environment, workingDirectory } = cli.io;
    const stateDir =
      flags.stateDir === undefined
        ? join(resolveCompanionDataDir({ environment, workingDirectory }), "tools")
        : resolve(workingDirectory, flags.stateDir);
    const token = new Token({
      file: join(stateDir, "token.json"),
      findTarget: () => cli.findTarget(),
    });
    if (flags.forgetToken === true) {
      const had = await token.forget();
      return cli.print(
        had ? "token deleted; the next call creates a new one" : "there was no token to delete",
      );
    }
    await serveTools(cli, stateDir, token, flags.untilInputEnds === true);
  });
}

async function serveTools(
  cli: Cli,
  stateDir: string,
  token: AssistantToken,
  untilInputEnds: boolean,
): Promise<void> {
  const { BERTH_APPS_ID } = await import("../../base/berth-tool-manifest.ts");
  const { BerthError, getErrorMessage } = await import("../../base/errors.ts");
  const { ToolDispatcher } = await import("../../tool-server/tool-dispatcher.ts");
  const { ToolServer } = await import("../../tool-server/tool-server.ts");
  const { getAppSocketPath } = await import("../../tool-server/tool-socket.ts");
  const { UndoRecords } = await import("../../tool-server/undo-records.ts");
  const runtimeDir = cli.io.environment["XDG_RUNTIME_DIR"];
  if (!runtimeDir || !isAbsolute(runtimeDir))
    throw new BerthError(
      "invalid_request",
      "XDG_RUNTIME_DIR names no folder: there is no user session",
      {
        hint: "log in to start a session; on a server, run `loginctl enable-linger` first",
      },
    );
  const calls = new ToolDispatcher({
    token,
    records: new UndoRecords(join(stateDir, "undo")),
    waitMs: WAIT_MS,
    onUnexpected: (error) => cli.note(`a call failed: ${getErrorMessage(error)}`),
  });
  await using server = new ToolServer({ calls });
  const stopped = waitForEnd(cli, untilInputEnds);
  await server.listen(getAppSocketPath(runtimeDir, BERTH_APPS_ID));
  cli.note(`${BERTH_APPS_ID} is served`);
  await stopped;
}

/** Resolves at the first SIGINT or SIGTERM, or when standard input is closed. */
function waitForEnd(cli: Cli, untilInputEnds: boolean): Promise<void> {
  return new Promise((end) => {
    const stop = cli.io.onInterrupt(() => end());
    process.once("SIGTERM", () => {
      stop();
      end();
    });
    if (!untilInputEnds) return;
    cli.io.input.once("end", end).once("close", end).resume();
  });
}
