import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const examples = new URL("../../examples/", import.meta.url);

/** One of the programs in `examples/`, started as a user starts it. */
export class ExampleApp implements AsyncDisposable {
  readonly stderr: string[] = [];
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;

  /** Starts the program. Resolves when it reports that it listens; rejects with its output if it exits before that. */
  static async start(
    program: string,
    options: {
      readonly runtimeDir: string;
      readonly args?: readonly string[];
      readonly environment?: Readonly<Record<string, string>>;
    },
  ): Promise<ExampleApp> {
    const app = new ExampleApp(
      spawn(process.execPath, [examplePath(program), ...(options.args ?? [])], {
        stdio: ["ignore", "ignore", "pipe"],
        env: {
          PATH: process.env["PATH"],
          XDG_RUNTIME_DIR: options.runtimeDir,
          ...options.environment,
        },
      }),
    );
    await app.#listening();
    return app;
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#closed = once(child, "close");
  }

  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  /** Kills the program with SIGKILL, as a crash would end it. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#closed;
  }

  async #listening(): Promise<void> {
    const { stderr } = this.#child;
    if (!stderr) throw new Error("its output is not read");
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: stderr })
        .on("line", (line) => {
          this.stderr.push(line);
          if (line.endsWith(" listens")) resolve();
        })
        .once("close", () => reject(new Error(this.stderr.join("\n"))));
    });
  }
}

export function examplePath(name: string): string {
  return new URL(name, examples).pathname;
}

export async function readExample(name: string): Promise<Buffer> {
  return await readFile(new URL(name, examples));
}
