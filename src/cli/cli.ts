import type { Command } from "commander";
import type { Client } from "../client/rest/client.ts";
import type { ServerTarget } from "../client/rest/server-target.ts";
import { type Colors, createColours } from "./colours.ts";
import type { CliIo } from "./io.ts";

/** Options that stand before or behind any verb. */
export interface GlobalOptions {
  readonly url?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly color: boolean;
  readonly verbose?: boolean;
}

/**
 * What a verb works with. One for each run of the command line.
 *
 * Schemas and validators take longer to load than most verbs take to run, and Tab completion needs
 * neither: the command tree imports nothing of them, and verbs load them when they run.
 */
export class Cli {
  readonly io: CliIo;
  readonly program: Command;
  /** What the process ends with, unless an error says otherwise. */
  exitCode = 0;
  readonly #writes: Promise<void>[] = [];

  constructor(io: CliIo, program: Command) {
    this.io = io;
    this.program = program;
  }

  get globals(): GlobalOptions {
    return this.program.opts<GlobalOptions>();
  }

  /** For standard output. */
  get colours(): Colors {
    return createColours(this.io.outputIsTerminal, this.io.environment, this.globals.color);
  }

  /** For standard error. */
  get errorColours(): Colors {
    return createColours(this.io.errorIsTerminal, this.io.environment, this.globals.color);
  }

  /** Throws where no server can be found; whether one answers shows with the first call. */
  async findTarget(): Promise<ServerTarget> {
    const { findServerTarget } = await import("./server-target.ts");
    return findServerTarget({
      url: this.globals.url,
      dataDir: this.globals.dataDir,
      config: this.globals.config,
      environment: this.io.environment,
      workingDirectory: this.io.workingDirectory,
    });
  }

  async connect(): Promise<Client> {
    const target = await this.findTarget();
    const { createClient } = await import("../client/rest/client.ts");
    return createClient({ baseUrl: target.url, token: target.token });
  }

  /** One line or more on standard output: the answer. */
  async print(text: string): Promise<void> {
    await this.io.write(text.endsWith("\n") ? text : `${text}\n`);
  }

  /** For callers that cannot wait, such as the printer of help; `written` tells how it went. */
  queueWrite(text: string): void {
    this.#writes.push(this.io.write(text));
  }

  /** Resolves when all of writeSoon is out; rejects where the reader has gone. */
  async flushWrites(): Promise<void> {
    await Promise.all(this.#writes);
  }

  /** A remark for the person in front, on standard error: not part of the answer. */
  note(text: string): void {
    this.io.writeError(`${text}\n`);
  }
}
