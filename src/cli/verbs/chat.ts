import { type Command, InvalidArgumentError, Option } from "commander";
import { BerthError } from "../../base/errors.ts";
import type { ServedModel } from "../../client/rest/chat-client.ts";
import type { ChatBackend } from "../chat/chat-backend.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, integerBetween } from "../command-options.ts";

const example = 'berth chat small "Name three rivers"';

interface ChatFlags {
  readonly model?: string;
  readonly system?: string;
  readonly temperature?: number;
  readonly maxTokens?: number;
  readonly thoughts?: boolean;
  readonly json?: boolean;
  readonly output?: "json";
  readonly port?: number;
  readonly assistantUrl?: string;
  readonly user?: boolean;
}

export function addChat(program: Command, cli: Cli): void {
  const command = program
    .command("chat")
    .summary("talk to a model of this machine, or of a provider")
    .description(
      "Talks to a model of the assistant on this machine; to remote:PROVIDER:MODEL, and with --user, by way of your companion, which asks you before anything leaves the machine. With a message, or with one on standard input, it prints the answer and ends; else it is a talk: Ctrl-C stops an answer, Ctrl-D leaves, /help tells more. The first word is the model, unless it has blanks in it, as a message in quotes has; without a model it is the one that is loaded.",
    )
    .argument("[model]", "id or alias of a model")
    .argument("[message...]", "what to say")
    .option("-m, --model <name>", "the model; all words are the message then")
    .option("--system <text>", "tell the model how to be")
    .option("--temperature <number>", "0 to 2", parseTemperature)
    .option(
      "--max-tokens <number>",
      "end the answer after so many; -1: when it is done",
      parseMaxTokens,
    )
    .option("--thoughts", "show what a model thinks before it answers")
    .option("--json", "print the answer of one message as JSON; so does -o json")
    .addOption(new Option("-o, --output <format>", "print in another form").choices(["json"]))
    .option("--port <port>", "of the assistant", integerBetween(1, 65_535))
    .option("--assistant-url <address>", "of the assistant (also BERTH_ASSISTANT_URL)")
    .option("--user", "by way of your companion, over the session bus");
  addExamples(command, [
    ["berth chat", "talk to the model that is loaded"],
    ["berth chat small", "talk to the model small"],
    ['berth chat small "Name three rivers"', "one answer"],
    ["git diff | berth chat small Summarise this", "about what comes in"],
    ["berth chat remote:openrouter:openai/gpt-4o", "talk to a model of a provider: `berth remote`"],
    ['berth chat "Name three rivers" --json', "for scripts"],
  ]).action(async (first: string | undefined, rest: string[], flags: ChatFlags) => {
    if (cli.globals.url !== undefined)
      throw new UsageError(
        "chat talks to the assistant of this machine; --url names a server elsewhere",
        "ssh -L 7777:127.0.0.1:7777 HOST, and then berth chat --port 7777",
      );
    const words = [...(first === undefined ? [] : [first]), ...rest];
    const { name, message } = splitModelAndMessage(words, flags.model);
    const { readMessage } = await import("../chat/read-message.ts");
    const { isRemote } = await import("../chat/chat-backend.ts");
    const isOverBus = flags.user === true || (name !== undefined && isRemote(name));
    if (isOverBus) assertNoHttpFlags(flags);
    const text = await readMessage(cli, message, example);
    const isJson = flags.json === true || flags.output === "json";
    if (text === undefined && isJson)
      throw new UsageError("--json goes with one message", 'berth chat "Name three rivers" --json');
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
    const client = new ChatClient({
      url: findAssistant({
        url: flags.assistantUrl,
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

/** The companion has its own settings for these, or none. Throws UsageError. */
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
        `${name} does not go with --user, or with a model of a provider`,
        "port 7778 takes all parameters of the convention: docs/remote.md",
      );
}

/** Which of the words name the model, and which are the message. */
function splitModelAndMessage(
  words: readonly string[],
  model: string | undefined,
): { name: string | undefined; message: string } {
  const [first, ...rest] = words;
  if (model !== undefined || first === undefined || /\s/.test(first))
    return { name: model, message: words.join(" ") };
  return { name: first, message: rest.join(" ") };
}

/** `words`: all that was said, where its first word was taken for the model. */
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
    if (words.length < 2) throw error;
    // As likely somebody has left the quotes away.
    const hint = `where it is part of what you say: berth chat ${JSON.stringify(words.join(" "))}`;
    throw new BerthError("not_found", error.message, { hint, cause: error });
  }
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
