import type { Command } from "commander";
import type { AppWriteResult, WriteOptions } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { Cli } from "../cli.ts";
import { addExamples, addWaitOptions, integerBetween, outputOption } from "../command-options.ts";
import { type AppWriteFlags, reportAppWrite } from "../deploy/report-app-write.ts";
import { parseAppName } from "../resource-references.ts";
import { parseStackNames } from "../stacks/stack-words.ts";

interface ActionFlags extends AppWriteFlags {
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly to?: number;
}

interface AppAction {
  readonly verb: "start" | "stop" | "restart" | "retry";
  readonly summary: string;
  readonly description: string;
  readonly done: string;
  readonly already: string;
  readonly example: string;
  readonly call: (
    client: Client,
    name: string,
    options: WriteOptions,
    flags: ActionFlags,
  ) => Promise<AppWriteResult>;
}

const actions: readonly AppAction[] = [
  {
    verb: "start",
    summary: "start a stopped app",
    description: "Starts a stopped app. An app that runs is left unchanged.",
    done: "is starting",
    already: "already runs",
    example: "start hello, and wait until it is ready",
    call: (client, name, options) => client.apps.start(name, options),
  },
  {
    verb: "stop",
    summary: "stop an app, and keep it stopped",
    description:
      "Stops an app. It stays stopped, even after a restart of the server, until `berth start`.",
    done: "is stopping",
    already: "is already stopped",
    example: "stop hello, and wait until it has stopped",
    call: (client, name, options) => client.apps.stop(name, options),
  },
  {
    verb: "restart",
    summary: "replace the containers of an app",
    description: "Replaces the containers of an app with new ones of the same spec.",
    done: "is restarting",
    already: "is already restarting",
    example: "restart hello, and wait until it is ready again",
    call: (client, name, options) => client.apps.restart(name, options),
  },
  {
    verb: "retry",
    summary: "retry a failed app now",
    description:
      "Tries an app again at once if it has failed, was reverted, or is waiting for its next attempt. A spec that is in quarantine, because it failed before, is tried again too.",
    done: "is retried",
    already: "is already being retried",
    example: "retry hello, and wait for the result",
    call: (client, name, options) => client.apps.retry(name, options),
  },
];

export function addAppVerbs(program: Command, cli: Cli): void {
  for (const action of actions) {
    const command = addCommonOptions(
      program.command(action.verb).summary(action.summary).description(action.description),
    );
    addExamples(command, [
      [`berth ${action.verb} hello`, `${action.verb} the app hello`],
      [`berth ${action.verb} hello --wait`, action.example],
    ]).action(async (words: string[], flags: ActionFlags) => {
      const { verb } = action;
      const stacks = verb === "retry" ? undefined : parseStackNames(words, verb);
      if (verb === "retry" || !stacks) return performAction(cli, words, action, flags);
      const { changeStacks } = await import("../stacks/stack-verbs.ts");
      await changeStacks(cli, stacks, verb, flags);
    });
  }
  const rollback = addCommonOptions(
    program
      .command("rollback")
      .summary("go back to an earlier revision of an app")
      .description(
        "Deploys an earlier revision of an app again; without --to, the last earlier revision that was stable (Ready for 10 s). `berth describe NAME` lists the revisions.",
      ),
  ).option("--to <revision>", "number of the revision", integerBetween(1, 2 ** 31));
  addExamples(rollback, [
    ["berth rollback hello", "deploy the last stable revision"],
    ["berth rollback hello --to 3 --wait", "deploy revision 3, and wait until it is ready"],
  ]).action(async (words: string[], flags: ActionFlags) => {
    await performAction(
      cli,
      words,
      {
        done:
          flags.to === undefined ? "is rolling back" : `is rolling back to revision ${flags.to}`,
        already: "already has that revision",
        call: (client, name, options) => client.apps.rollback(name, flags.to, options),
      },
      flags,
    );
  });
}

function addCommonOptions(command: Command): Command {
  return addWaitOptions(
    command
      .argument("<app...>", "names of apps; for start, stop and restart also stack/NAME")
      .option("--dry-run", "print what would happen, and change nothing")
      .option("--force", "change the field even if a spec file owns it")
      .addOption(outputOption()),
  );
}

async function performAction(
  cli: Cli,
  words: readonly string[],
  action: Pick<AppAction, "call" | "done" | "already">,
  flags: ActionFlags,
): Promise<void> {
  const names = words.map((word) => parseAppName(word));
  const client = await cli.connect();
  for (const name of names) {
    const write = await action.call(
      client,
      name,
      { dryRun: flags.dryRun === true, force: flags.force === true },
      flags,
    );
    await reportAppWrite(cli, client, name, write, action, flags);
  }
}
