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
 * How long a call waits for an app to be ready. A call may take 60 s in all, of which the rest is for the
 * requests around the wait.
 */
const WAIT_MS = 45_000;

export function addToolsServe(tools: Command, cli: Cli): void {
  addExamples(
    tools
      .command("serve")
      .summary("offer Berth's own tools to your companion")
      .description(
        "Serves the tools of dev.berth.apps, by which an assistant runs the apps of the server, on a socket of this session. Your companion starts this by itself when one of them is called. They act with a token of their own, of scope write, which is made at the first call: `berth token ls` shows it, `berth token revoke dev.berth.apps` locks the assistant out.",
      )
      .option(
        "--state-dir <dir>",
        "where the token is kept, and what was there before each change; default: the folder tools of the companion's data",
      )
      .option("--until-input-ends", "end with whoever holds the other end of standard input")
      .option(
        "--forget-token",
        "let the assistant in again after its token was revoked: a new one is made at the next call",
      ),
    [
      ["berth tools serve", "until Ctrl-C"],
      ["berth tools serve --forget-token", "after `berth token revoke dev.berth.apps`"],
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
        had ? "forgotten; a new token is made at the next call" : "there was no token to forget",
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
      "XDG_RUNTIME_DIR names no folder: there is no session",
      {
        hint: "log in to one; on a server `loginctl enable-linger` and a login make one",
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

/** Resolves at the first signal to end, or when nobody holds the other end of the input. */
function waitForEnd(cli: Cli, untilInputEnds: boolean): Promise<void> {
  return new Promise((resolve) => {
    const stop = cli.io.onInterrupt(() => resolve());
    process.once("SIGTERM", () => {
      stop();
      resolve();
    });
    if (!untilInputEnds) return;
    cli.io.input.once("end", resolve).once("close", resolve).resume();
  });
}
