import type { ChatMessage, ServedModel } from "../../client/rest/chat-client.ts";
import type { Cli } from "../cli.ts";
import { formatError } from "../cli-errors.ts";
import { formatTable } from "../output/table.ts";
import { chatPrompts } from "./answer-lines.ts";
import type { ChatBackend } from "./chat-backend.ts";
import { addChatHint } from "./chat-error-hints.ts";
import { type ChatSettings, createChatRequest } from "./chat-settings.ts";
import type { LineReader } from "./line-reader.ts";
import { MessageLines } from "./message-lines.ts";
import { describeCutOff } from "./one-shot.ts";
import { printAnswer } from "./print-answer.ts";

const help = [
  ["/clear", "start a new chat"],
  ["/system TEXT", "set the system prompt; without TEXT: show it; `/system -` removes it"],
  ["/model NAME", "continue with another model; without NAME: show the current one"],
  ["/models", "list the models"],
  ["/exit", "end the chat, like Ctrl-D"],
  [
    '"""',
    "begins and ends a message of several lines; alternatively, end each line but the last with \\",
  ],
  ["Ctrl-C", "stops an answer; twice at the prompt: ends the chat"],
] as const;

export interface ChatSessionOptions {
  readonly cli: Cli;
  readonly backend: ChatBackend;
  readonly reader: LineReader;
  readonly settings: ChatSettings;
  /** The model with which the chat begins. The user can change it. */
  readonly model: ServedModel;
}

/** A chat at a terminal. Each request contains the earlier messages. */
export class ChatSession {
  readonly #options: ChatSessionOptions;
  readonly #messages: ChatMessage[] = [];
  #model: ServedModel;
  #system: string | undefined;

  constructor(options: ChatSessionOptions) {
    this.#options = options;
    this.#model = options.model;
    this.#system = options.settings.system;
  }

  async run(): Promise<void> {
    const lines = new MessageLines();
    let isLeaving = false;
    this.#remark(`${this.#aboutModel()}. /help lists commands, Ctrl-D ends the chat.`);
    for (;;) {
      const typed = await this.#options.reader.next(
        lines.isOpen ? chatPrompts.continuation : chatPrompts.message,
      );
      if (typed.type === "end") {
        this.#options.cli.io.writeError("\n");
        return;
      }
      if (typed.type === "interrupt") {
        this.#options.cli.io.writeError("\n");
        const hadText = typed.hadText || lines.isOpen;
        lines.clear();
        if (isLeaving && !hadText) return;
        isLeaving = !hadText;
        if (isLeaving) this.#remark("(press Ctrl-C again, or Ctrl-D, to end the chat)");
        continue;
      }
      isLeaving = false;
      const message = lines.add(typed.text, typed.isPasted);
      if (message === undefined || message.trim() === "") continue;
      const command = /^\/([a-z?]*)(?:\s+(.*))?$/is.exec(message.trim());
      if (command === null) isLeaving = await this.#sendMessage(message);
      else if ((await this.#runCommand(command[1] ?? "", (command[2] ?? "").trim())) === "leave")
        return;
    }
  }

  /**
   * Sends a message and prints the answer. Returns true if the user stopped the answer; another Ctrl-C then ends the
   * chat.
   */
  async #sendMessage(message: string): Promise<boolean> {
    const stopping = new AbortController();
    const done = this.#options.reader.onInterrupt(() => stopping.abort());
    const messages = [...this.#messages, { role: "user", content: message } as const];
    try {
      const request = createChatRequest(
        this.#model.id,
        messages,
        this.#system,
        this.#options.settings,
      );
      const { text, end, denied } = await printAnswer(
        this.#options.cli,
        this.#options.backend.answer(request, stopping.signal),
        {
          shouldShowThoughts: this.#options.settings.shouldShowThoughts,
          isSilent: false,
          waitingText: this.#model.state === "resident" ? "..." : `loading ${this.#model.id} ...`,
        },
        stopping.signal,
      );
      // The part of a stopped answer that was received stays in the chat, so that the next message can refer to it.
      if (text !== "")
        this.#messages.push(...messages.slice(-1), { role: "assistant", content: text });
      if (denied !== undefined) this.#remark(`(${denied})`);
      else if (end === undefined) this.#remark("(stopped)");
      else if (end.finishReason === "length") this.#remark(describeCutOff(this.#options.settings));
      if (end !== undefined) this.#model = { ...this.#model, state: "resident" };
      return end === undefined && denied === undefined;
    } catch (error) {
      // The message of a failed request is not added to the chat, so that the user can send it again.
      this.#explain(addChatHint(error, true));
      return false;
    } finally {
      done();
    }
  }

  async #runCommand(command: string, rest: string): Promise<"leave" | "stay"> {
    switch (command.toLowerCase()) {
      case "exit":
      case "bye":
      case "quit":
        return "leave";
      case "help":
      case "?": {
        const width = Math.max(...help.map(([name]) => name.length));
        await this.#options.cli.print(
          help.map(([name, meaning]) => `  ${name.padEnd(width)}  ${meaning}`).join("\n"),
        );
        return "stay";
      }
      case "clear":
        this.#messages.length = 0;
        this.#remark("a new chat has started");
        return "stay";
      case "system":
        if (rest === "") this.#remark(this.#system ?? "there is no system prompt");
        else {
          this.#system = rest === "-" ? undefined : rest;
          this.#remark(rest === "-" ? "the system prompt is removed" : "the system prompt is set");
        }
        return "stay";
      case "model":
        if (rest === "") this.#remark(this.#aboutModel());
        else await this.#changeModel(rest);
        return "stay";
      case "models":
        await this.#listModels();
        return "stay";
      default:
        this.#options.cli.note(`there is no command /${command}; /help lists the commands`);
        return "stay";
    }
  }

  async #changeModel(name: string): Promise<void> {
    try {
      this.#model = await this.#options.backend.chooseModel(name);
      this.#remark(this.#aboutModel());
    } catch (error) {
      this.#explain(addChatHint(error, true));
    }
  }

  async #listModels(): Promise<void> {
    try {
      const models = await this.#options.backend.listModels();
      await this.#options.cli.print(
        formatTable(
          models,
          [
            { header: "", value: ({ id }) => (id === this.#model.id ? "*" : " ") },
            { header: "MODEL", value: ({ id }) => id },
            { header: "ALIASES", value: ({ aliases }) => aliases.join(", "), canShrink: true },
            { header: "KIND", value: ({ kind }) => kind },
            { header: "STATE", value: ({ state }) => state },
            { header: "CONTEXT", value: (model) => String(model.context_length ?? "") },
          ],
          { width: this.#options.cli.io.columns },
        ),
      );
    } catch (error) {
      this.#explain(addChatHint(error, true));
    }
  }

  #aboutModel(): string {
    const { id, context_length: tokens } = this.#model;
    return tokens === null ? id : `${id}, up to ${tokens} tokens`;
  }

  #remark(text: string): void {
    this.#options.cli.note(this.#options.cli.errorColours.dim(text));
  }

  #explain(error: unknown): void {
    const { io, errorColours, globals } = this.#options.cli;
    io.writeError(formatError(error, errorColours, globals.verbose === true));
  }
}
