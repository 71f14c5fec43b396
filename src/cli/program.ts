import { Command, Help } from "commander";
import { readPackageVersion } from "../base/package-version.ts";
import { Cli } from "./cli.ts";
import type { CliIo } from "./io.ts";
import { addAppVerbs } from "./verbs/app-actions.ts";
import { addApply } from "./verbs/apply.ts";
import { addAsk } from "./verbs/ask.ts";
import { addAssistant } from "./verbs/assistant.ts";
import { addAudit } from "./verbs/audit.ts";
import { addBackup } from "./verbs/backup.ts";
import { addBuild } from "./verbs/build.ts";
import { addBuilds } from "./verbs/builds.ts";
import { addCall } from "./verbs/call.ts";
import { addChat } from "./verbs/chat.ts";
import { addCompletion } from "./verbs/completion.ts";
import { addConfig } from "./verbs/config.ts";
import { addConfirm } from "./verbs/confirm.ts";
import { addCreate } from "./verbs/create.ts";
import { addDelete } from "./verbs/delete.ts";
import { addDeploy } from "./verbs/deploy.ts";
import { addDescribe } from "./verbs/describe.ts";
import { addDiff } from "./verbs/diff.ts";
import { addDoctor } from "./verbs/doctor.ts";
import { addEdit } from "./verbs/edit.ts";
import { addEvents } from "./verbs/events.ts";
import { addExport } from "./verbs/export.ts";
import { addGet } from "./verbs/get.ts";
import { addImport } from "./verbs/import.ts";
import { addLedger } from "./verbs/ledger.ts";
import { addLogin } from "./verbs/login.ts";
import { addLogs } from "./verbs/logs.ts";
import { addMemory } from "./verbs/memory.ts";
import { addModels } from "./verbs/models.ts";
import { addPlan } from "./verbs/plan.ts";
import { addPrune } from "./verbs/prune.ts";
import { addRemote } from "./verbs/remote.ts";
import { addRestore } from "./verbs/restore.ts";
import { addSearch } from "./verbs/search.ts";
import { addSecrets } from "./verbs/secrets.ts";
import { addSpecs } from "./verbs/specs.ts";
import { addStatus } from "./verbs/status.ts";
import { addTemplates } from "./verbs/templates.ts";
import { addToken } from "./verbs/token.ts";
import { addTools } from "./verbs/tools.ts";
import { addUndo } from "./verbs/undo.ts";
import { addUp } from "./verbs/up.ts";
import { addValidate } from "./verbs/validate.ts";
import { addVersion } from "./verbs/version.ts";
import { addWebhooks } from "./verbs/webhooks.ts";

/** The headings of `berth` and `berth help`, in the order in which the verbs are added below. */
const groups = {
  server: "Run a server:",
  inspect: "Inspect resources and models:",
  change: "Change resources:",
  files: "Work with spec files:",
  companion: "Use your companion, on the session bus:",
  connect: "Log in, give access, and notify other programs:",
  maintain: "Maintain a server:",
  other: "Other:",
} as const;

/** Builds the whole command tree. It reads no file and opens no connection before a verb runs. */
export function buildProgram(io: CliIo): { program: Command; cli: Cli } {
  const program = new Command("berth");
  const cli = new Cli(io, program);
  program
    .description(
      "Runs your apps and your language models on one server, as your spec files declare them.",
    )
    .option("--url <url>", "talk to this server (also BERTH_URL)")
    .option(
      "--data-dir <dir>",
      "data directory of the server on this machine (also BERTH_DATA_DIR)",
    )
    .option("--config <file>", "config file (also BERTH_CONFIG)")
    .option("--no-color", "print no colours, not even on a terminal (also NO_COLOR)")
    .option("--verbose", "print the stack trace of an error")
    .version(readPackageVersion(), "-V, --version", "print the version")
    .usage("VERB [options]")
    .configureHelp({
      showGlobalOptions: true,
      subcommandTerm: usageTerm,
      visibleGlobalOptions: (command) =>
        Object.assign(new Help(), { showGlobalOptions: true })
          .visibleGlobalOptions(command)
          .filter(({ long }) => long !== "--version"),
    })
    .configureOutput({
      writeOut: (text) => cli.queueWrite(text),
      writeErr: (text) => io.writeError(text),
      getOutHelpWidth: () => io.columns ?? 100,
      getErrHelpWidth: () => io.columns ?? 100,
      getOutHasColors: () => cli.colours.isColorSupported,
      getErrHasColors: () => cli.errorColours.isColorSupported,
      outputError: (text, write) =>
        write(text.replace(/^error:/, () => cli.errorColours.red("error:"))),
    })
    .exitOverride()
    .addHelpCommand(
      new Command("help")
        .argument("[verb]")
        .summary("show the help of a verb")
        .helpGroup(groups.other),
    );

  program.commandsGroup(groups.server);
  addUp(program, cli);
  addAssistant(program, cli);
  addStatus(program, cli);
  addDoctor(program, cli);

  program.commandsGroup(groups.inspect);
  addGet(program, cli);
  addDescribe(program, cli);
  addLogs(program, cli);
  addEvents(program, cli);
  addTemplates(program, cli);
  addModels(program, cli);
  addChat(program, cli);

  program.commandsGroup(groups.change);
  addCreate(program, cli);
  addDeploy(program, cli);
  addBuilds(program, cli);
  addBuild(program, cli);
  addAppVerbs(program, cli);
  addEdit(program, cli);
  addDelete(program, cli);
  addSecrets(program, cli);

  program.commandsGroup(groups.files);
  addApply(program, cli);
  addDiff(program, cli);
  addValidate(program, cli);
  addPlan(program, cli);
  addImport(program, cli);
  addExport(program, cli);
  addSpecs(program, cli);
  addPrune(program, cli);

  program.commandsGroup(groups.companion);
  addAsk(program, cli);
  addTools(program, cli);
  addCall(program, cli);
  addConfirm(program, cli);
  addUndo(program, cli);
  addSearch(program, cli);
  addMemory(program, cli);
  addRemote(program, cli);

  program.commandsGroup(groups.connect);
  addLogin(program, cli);
  addToken(program, cli);
  addWebhooks(program, cli);

  program.commandsGroup(groups.maintain);
  addConfig(program, cli);
  addAudit(program, cli);
  addLedger(program, cli);
  addBackup(program, cli);
  addRestore(program, cli);

  program.commandsGroup(groups.other);
  addCompletion(program, cli);
  addVersion(program, cli);
  return { program, cli };
}

function usageTerm(command: Command): string {
  const argumentsText = command.registeredArguments
    .map((argument) => {
      const name = argument.name() + (argument.variadic ? "..." : "");
      return argument.required ? `<${name}>` : `[${name}]`;
    })
    .join(" ");
  return `${command.name()}${argumentsText === "" ? "" : ` ${argumentsText}`}`;
}
