import { type Command, InvalidArgumentError } from "commander";
import { BerthError } from "../../base/errors.ts";
import type { ServedModel } from "../../client/rest/chat-client.ts";
import type { ChatBackend } from "../chat/chat-backend.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addJsonOptions,
  integerBetween,
  isJsonOutput,
  type JsonFlags,
} from "../command-options.ts";

const example = 'berth chat small "Name three rivers"';

interface ChatFlags extends JsonFlags {
  readonly model?: string;
  readonly system?: string;
  readonly temperature?: number;
  readonly maxTokens?: number;
  readonly thoughts?: boolean;
  readonly port?: number;
  readonly assistantUrl?: string;
  readonly user?: boolean;
}

export function addChat(program: Command, cli: Cli): void {
  const command = program
    .command("chat")
    .summary("chat with a model of this machine, or of a provider")
    .description(
      "Chats with a model of the assistant of the server on this machine. A model remote:PROVIDER:MODEL, and any model with --user, is reached through your companion, which asks you before data leaves this machine. With a message, as arguments or on standard input, it prints one answer and exits; otherwise it starts an interactive chat: Ctrl-C stops an answer, Ctrl-D ends the chat, /help lists the commands. The first argument is the model, unless it contains blanks, as a quoted message does. The default is the loaded model.",
    )
    .argument("[model]", "id or alias of a model")
    .argument("[message...]", "message to send")
    .option("-m, --model <name>", "model; all arguments are then the message")
    .option("--system <text>", "system message, with instructions for the model")
    .option("--temperature <number>", "sampling temperature, 0 to 2", parseTemperature)
    .option(
      "--max-tokens <number>",
      "maximum length of an answer in tokens; -1: no limit",
      parseMaxTokens,
    )
    .option("--thoughts", "show the reasoning of a model before its answer")
    .option("--port <port>", "port of the assistant", integerBetween(1, 65_535))
    .option("--assistant-url <address>", "address of the assistant (also BERTH_ASSISTANT_URL)")
    .option("--user", "chat through your companion, over the session bus");
  addExamples(addJsonOptions(command, "print the answer to one message as JSON"), [
    ["berth chat", "chat with the loaded model"],
    ["berth chat small", "chat with the model small"],
    ['berth chat small "Name three rivers"', "print one answer"],
    ["git diff | berth chat small Summarise this", "ask about standard input"],
    ["berth chat remote:openrouter:openai/gpt-4o", "chat with a provider's model: `berth remote`"],
    ['berth chat "Name three rivers" --json', "print the answer as JSON"],
  ]).action(async (first: string | undefined, rest: string[], flags: ChatFlags) => {
    const words = [...(first === undefined ? [] : [first]), ...rest];
    const { name, message } = splitModelAndMessage(words, flags.model);
    const { readMessage } = await import("../chat/read-message.ts");
    const { isRemote } = await import("../chat/chat-backend.ts");
    const isOverBus = flags.user === true || (name !== undefined && isRemote(name));
    if (isOverBus) assertNoHttpFlags(flags);
    const text = await readMessage(cli, message, example);
    const isJson = isJsonOutput(flags);
    if (text === undefined && isJson)
      throw new UsageError("--json needs a message", 'berth chat "Name three rivers" --json');
    const settings = {
      system: flags.system,
      temperature: flags.temperature,
      maxTokens: flags.maxTokens,
      shouldShowThoughts: flags.thoughts === true,
    };
    const { runChat } = await import("../chat/run-chat.ts");
    const parts = { message: text, settings, isJson };
    if (isOverBus) {
      const { withCompanion } = await import("../companion/connect-companion.ts");
      const { createBusChatBackend } = await import("../chat/overlay/bus-chat-backend.ts");
      return withCompanion(cli, (companion, signal) =>
        runChat(cli, {
          ...parts,
          openBackend: (person) => createBusChatBackend(cli, companion, person, signal),
          chooseModel: (backend) => backend.chooseModel(name),
        }),
      );
    }
    const { findAssistant } = await import("../chat/find-assistant.ts");
    const { ChatClient } = await import("../../client/rest/chat-client.ts");
    const { createHttpChatBackend } = await import("../chat/chat-backend.ts");
    const isGiven =
      flags.assistantUrl !== undefined ||
      flags.port !== undefined ||
      Boolean(cli.io.environment["BERTH_ASSISTANT_URL"]);
    if (cli.globals.url !== undefined && isGiven)
      throw new UsageError(
        "--url names a server, and --port or --assistant-url an assistant: give one of them",
        "berth chat --port 7777",
      );
    const { findServerAssistant } = await import("../server-assistant.ts");
    const served = isGiven ? null : (await findServerAssistant(cli))?.url;
    const client = new ChatClient({
      url: findAssistant({
        url: flags.assistantUrl ?? served ?? undefined,
        port: flags.port,
        dataDir: cli.globals.dataDir,
        config: cli.globals.config,
        environment: cli.io.environment,
        workingDirectory: cli.io.workingDirectory,
      }),
    });
    await runChat(cli, {
      ...parts,
      openBackend: () => createHttpChatBackend(client),
      chooseModel: (backend) =>
        chooseOrStartModel(cli, backend, name, flags.model === undefined ? words : []),
    });
  });
}

/** Throws UsageError for a flag that only the HTTP endpoint supports. */
function assertNoHttpFlags(flags: ChatFlags): void {
  const wrong = [
    [flags.port, "--port"],
    [flags.assistantUrl, "--assistant-url"],
    [flags.temperature, "--temperature"],
    [flags.maxTokens, "--max-tokens"],
    [flags.thoughts, "--thoughts"],
  ] as const;
  for (const [value, name] of wrong)
    if (value !== undefined)
      throw new UsageError(
        `${name} cannot be combined with --user, or with a model of a provider`,
        "port 7778 accepts all parameters of the chat-completions API: docs/remote.md",
      );
}

/** Splits the arguments into the name of the model and the message. */
function splitModelAndMessage(
  words: readonly string[],
  model: string | undefined,
): { name: string | undefined; message: string } {
  const [first, ...rest] = words;
  if (model !== undefined || first === undefined || /\s/.test(first))
    return { name: model, message: words.join(" ") };
  return { name: first, message: rest.join(" ") };
}

/**
 * Chooses the model, or offers to start it if it is stopped. Without --model, `words` contains all arguments, because
 * the first one may belong to the message; with --model it is empty.
 */
async function chooseOrStartModel(
  cli: Cli,
  backend: ChatBackend,
  name: string | undefined,
  words: readonly string[],
): Promise<ServedModel> {
  try {
    return await backend.chooseModel(name);
  } catch (error) {
    if (name === undefined || !isNotFound(error)) throw error;
    const { startStoppedModel } = await import("../chat/start-stopped-model.ts");
    const started = await startStoppedModel(cli, name);
    if (started !== undefined) return backend.chooseModel(started);
    if (words.length === 0) throw error;
    // The word that is not the name of a model may be a message, or the beginning of a message without quotes. It may
    // as well be the misspelt name of a model, so it is not sent to another model.
    const command = await suggestMessageCommand(backend, words);
    if (command === undefined) throw error;
    const hint = [`to send it as a message: ${command}`, error.hint ?? ""]
      .filter(Boolean)
      .join("; ");
    throw new BerthError("not_found", error.message, { hint, cause: error });
  }
}

/** Returns the command that sends the words as a message; undefined if there is no model for it. */
async function suggestMessageCommand(
  backend: ChatBackend,
  words: readonly string[],
): Promise<string | undefined> {
  const message = JSON.stringify(words.join(" "));
  // A single word would again be taken as the name of a model, even in quotes, so the command names
  // the model with -m.
  if (words.length > 1) return `berth chat ${message}`;
  const standard = await backend.chooseModel(undefined).catch(() => undefined);
  return standard && `berth chat -m ${standard.id} ${message}`;
}

function isNotFound(error: unknown): error is BerthError {
  return error instanceof BerthError && error.code === "not_found";
}

function parseTemperature(text: string): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value > 2)
    throw new InvalidArgumentError("it must be a number from 0 to 2");
  return value;
}

function parseMaxTokens(text: string): number {
  return text === "-1" ? -1 : integerBetween(1, 10_000_000)(text);
}
