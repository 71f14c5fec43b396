import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { link, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TestSessionBus } from "./test-session-bus.ts";

const script = fileURLToPath(new URL("./sandboxed-app.py", import.meta.url));

/** The result of a call: the values of the answer, or the name and the text of the error. */
export type CallResult =
  | { readonly value: readonly unknown[]; readonly error?: undefined }
  | { readonly value?: undefined; readonly error: string; readonly text: string };

/** The interfaces of the companion, whose bus names, paths and interfaces have the same names. */
export type CompanionInterface = "Agent1" | "Context1" | "Inference1" | "Overlay1" | "Remote1";

/**
 * A process that the companion identifies as a Flatpak app: its root directory has the file that Flatpak puts there. It
 * can open any number of connections to the bus. Needs root.
 */
export class SandboxedApp implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;
  readonly #waiting = new Map<number, (result: CallResult) => void>();
  #requests = 0;

  static async start(bus: TestSessionBus, id: string): Promise<SandboxedApp> {
    const runtime = bus.environment["XDG_RUNTIME_DIR"] ?? "";
    const root = await mkdtemp(join(runtime, "sandbox-"));
    await writeFile(join(root, ".flatpak-info"), `[Application]\nname=${id}\n`);
    await link(join(runtime, "bus"), join(root, "bus"));
    return new SandboxedApp(root);
  }

  private constructor(root: string) {
    this.#child = spawn("/usr/bin/python3", [script, root, "unix:path=/bus"], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { PATH: process.env["PATH"], LC_ALL: "C.UTF-8" },
    });
    this.#child.stdin?.on("error", () => {}); // The process was killed.
    this.#ended = once(this.#child, "exit").then(() => {
      throw new Error("the sandboxed app has ended");
    });
    this.#ended.catch(() => {});
    if (!this.#child.stdout) throw new Error("its output is not read");
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const { request, ...result }: { request: number } & CallResult = JSON.parse(line);
      this.#waiting.get(request)?.(result);
      this.#waiting.delete(request);
    });
  }

  /** Opens a connection, and resolves to its number. */
  async connect(): Promise<number> {
    return Number((await this.#send("connect")).value);
  }

  async connectMany(count: number): Promise<number[]> {
    return Promise.all(Array.from({ length: count }, () => this.connect()));
  }

  async disconnect(connection: number): Promise<void> {
    await this.#send("disconnect", connection);
  }

  /**
   * Calls a method of the companion. `kinds` are the types of the arguments; a dictionary of variants is given as
   * `{ name: [type, value] }`. `path` names a session instead of the interface's own object.
   */
  call(
    connection: number,
    name: CompanionInterface,
    member: string,
    kinds: readonly string[] = [],
    args: readonly unknown[] = [],
    path?: string,
  ): Promise<CallResult> {
    const owner = `dev.assistant.${name === "Remote1" ? "Remoted" : name}`;
    const object = path ?? `/dev/assistant/${name}`;
    const iface = `dev.assistant.${name}${path === undefined ? "" : ".Session"}`;
    return this.#send("call", connection, owner, object, iface, member, kinds, args);
  }

  /** Rejects if the process has ended. */
  #send(command: string, ...args: readonly unknown[]): Promise<CallResult> {
    this.#requests += 1;
    const request = this.#requests;
    this.#child.stdin?.write(`${JSON.stringify([request, command, ...args])}\n`);
    return Promise.race([
      this.#ended,
      new Promise<CallResult>((resolve) => this.#waiting.set(request, resolve)),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null)
      await once(this.#child, "exit");
  }
}

/** Returns how often each error, or `answered`, occurs among the results. Only the last part of an error's name counts. */
export function countOutcomes(results: readonly CallResult[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { error } of results) {
    const outcome = error === undefined ? "answered" : (error.split(".").at(-1) ?? "");
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}
