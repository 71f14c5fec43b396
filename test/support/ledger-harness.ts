import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import type { LedgerState } from "../../src/assistant/ledger/ledger.ts";
import { bundleProgram } from "./bundle-program.ts";
import { mountFileSystem } from "./mount-file-system.ts";
import { type Tracer, trace } from "./tracer.ts";

const PROGRAM = await bundleProgram("test/support/ledger-process.mjs");
const LIMIT_MS = 60_000;

/** A state directory, a process that writes a ledger in it, and the entries that the process has acknowledged. */
export class LedgerHarness implements AsyncDisposable {
  readonly dir: string;
  /** The leaf hashes of the entries that a process has acknowledged, by entry number. */
  readonly acknowledged = new Map<number, string>();
  refusals: string[] = [];
  readonly #cleanup: (() => Promise<void> | void)[] = [];
  #child: ChildProcess | undefined;
  #lines: AsyncIterator<string> | undefined;
  readonly #program: string;

  /**
   * Creates the harness; `program` must accept the commands of ledger-process.mjs, and print `open` and its process
   * id when it is ready.
   */
  constructor(program = PROGRAM) {
    this.#program = program;
    this.dir = mkdtempSync(join(tmpdir(), "berth-ledger-faults-"));
    this.#cleanup.push(() => rmSync(this.dir, { recursive: true, force: true }));
  }

  /** Mounts a file system at `below`, a path relative to the state directory. Returns the function that unmounts it. */
  mount(below: string, args: readonly string[]): () => Promise<void> {
    const unmount = mountFileSystem(join(this.dir, below), args);
    this.#cleanup.push(() => unmount("at once"));
    return unmount;
  }

  /** Starts a writer and waits until it has opened the ledger. */
  async start(): Promise<void> {
    const child = spawn(process.execPath, [this.#program, this.dir], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    child.stdin?.on("error", () => undefined);
    if (!child.stdout) throw new Error("the writer has no output");
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const line = await this.#line();
    if (line !== `open ${child.pid}`) throw new Error(`the writer said: ${line ?? "nothing"}`);
  }

  /** Sends a command to the writer. Returns true when the writer has answered, and false if it has exited before. */
  async send(command: string): Promise<boolean> {
    this.#child?.stdin?.write(`${command}\n`);
    for (let line = await this.#line(); line !== undefined; line = await this.#line()) {
      const [word, first, leaf] = line.split(" ");
      if (word === "done") return true;
      if (word === "refused") this.refusals.push(first ?? "");
      if (word === "refused" && !command.startsWith("append")) return true;
      if (word === "ack" && leaf !== undefined) this.acknowledged.set(Number(first), leaf);
    }
    return false;
  }

  async state(): Promise<LedgerState> {
    this.#child?.stdin?.write("state\n");
    return JSON.parse((await this.#line()) ?? "null");
  }

  /** Waits until the state of the ledger satisfies `is`. `what` describes the condition in the error. */
  async waitForState(what: string, is: (state: LedgerState) => boolean): Promise<LedgerState> {
    const deadline = Date.now() + LIMIT_MS;
    for (;;) {
      const state = await this.state();
      if (is(state)) return state;
      if (Date.now() > deadline) throw new Error(`never ${what}: ${JSON.stringify(state)}`);
      await pause(50);
    }
  }

  /** Ends the writer: with the command `end`, or with SIGKILL. */
  async end(how: "end" | "kill" = "kill"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    if (how === "end") child.stdin?.write("end\n");
    else child.kill("SIGKILL");
    await ended;
  }

  /** Attaches strace to the writer and all of its threads. */
  async trace(args: readonly string[]): Promise<Tracer> {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("there is no writer to trace");
    const tracer = await trace(pid, join(this.dir, "strace.log"), ["-f", ...args]);
    this.#cleanup.push(() => tracer.detach());
    return tracer;
  }

  async #line(): Promise<string | undefined> {
    const next = await this.#lines?.next();
    return next?.done === true ? undefined : next?.value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    for (const step of this.#cleanup.toReversed()) await step();
  }
}
