import type { Command } from "commander";
import type { Client } from "../client/rest/client.ts";
import type { ServerTarget } from "../client/rest/server-target.ts";
import { type Colors, createColours } from "./colours.ts";
import type { CliIo } from "./io.ts";

/** Options that every verb accepts. They may precede or follow the options of the verb. */
export interface GlobalOptions {
  readonly url?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly color: boolean;
  readonly verbose?: boolean;
}

/**
 * The context of a verb: streams, flags and the server to talk to. Each run of the command line has its own context.
 *
 * Schemas and validators take longer to load than most verbs take to run, and Tab completion needs
 * neither: the command tree does not import them, and verbs load them when they run.
 */
export class Cli {
  readonly io: CliIo;
  readonly program: Command;
  /** The exit code of the process, unless the verb throws. */
  exitCode = 0;
  readonly #writes: Promise<void>[] = [];

  constructor(io: CliIo, program: Command) {
    this.io = io;
    this.program = program;
  }

  get globals(): GlobalOptions {
    return this.program.opts<GlobalOptions>();
  }

  /** The colours for standard output. */
  get colours(): Colors {
    return createColours(this.io.outputIsTerminal, this.io.environment, this.globals.color);
  }

  /** The colours for standard error. */
  get errorColours(): Colors {
    return createColours(this.io.errorIsTerminal, this.io.environment, this.globals.color);
  }

  /**
   * Finds the server to talk to. Throws BerthError if no server is configured. Sends no request, so only the first call
   * shows whether the server answers.
   */
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

  /** Writes a text to standard output, with a line break at its end. */
  async print(text: string): Promise<void> {
    await this.io.write(text.endsWith("\n") ? text : `${text}\n`);
  }

  /**
   * Writes without waiting, for callers that cannot wait, such as the code that prints help. `flushWrites` waits, and
   * reports errors.
   */
  queueWrite(text: string): void {
    this.#writes.push(this.io.write(text));
  }

  /** Resolves when all queued writes are done; rejects if the reader has closed its end. */
  async flushWrites(): Promise<void> {
    await Promise.all(this.#writes);
  }

  /** Writes a remark for the user to standard error, because a remark is not part of the result. */
  note(text: string): void {
    this.io.writeError(`${text}\n`);
  }
}
