import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TestSessionBus } from "./test-session-bus.ts";

const script = fileURLToPath(new URL("./session-client.py", import.meta.url));

/**
 * A client of the inference bus in a separate Python process (session-client.py), with its own connection to the bus
 * and its own read ends of the pipes.
 */
export class SessionClient implements AsyncDisposable {
  readonly uniqueName: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  static async start(bus: TestSessionBus): Promise<SessionClient> {
    const child = spawn("/usr/bin/python3", [script], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { PATH: process.env["PATH"], LC_ALL: "C.UTF-8", ...bus.environment },
    });
    child.stdin.on("error", () => {}); // The process was killed.
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const first = await lines.next();
    if (first.done === true) throw new Error("session-client.py did not start");
    return new SessionClient(child, lines, String(JSON.parse(first.value)));
  }

  private constructor(child: ChildProcess, lines: AsyncIterator<string>, uniqueName: string) {
    this.#child = child;
    this.#lines = lines;
    this.uniqueName = uniqueName;
  }

  /** Sends a command to the script, and returns the result. Rejects with the D-Bus name of an error as the message. */
  async ask(command: string, ...args: readonly unknown[]): Promise<unknown> {
    this.#child.stdin?.write(`${JSON.stringify([command, ...args])}\n`);
    const line = await this.#lines.next();
    if (line.done === true) throw new Error("session-client.py has ended");
    const answer: { value?: unknown; error?: string } = JSON.parse(line.value);
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.value;
  }

  async open(options: Readonly<Record<string, string | number>> = {}): Promise<string> {
    const opened = await this.ask("open", options);
    if (typeof opened === "object" && opened !== null && "path" in opened)
      return String(opened.path);
    throw new Error("no session was opened");
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null)
      await once(this.#child, "exit");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
