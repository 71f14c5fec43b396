import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { LedgerState } from "../../src/assistant/ledger/ledger.ts";

const PROGRAM = fileURLToPath(new URL("./ledger-process.mjs", import.meta.url));
const LIMIT_MS = 60_000;

/** A state directory, the processes that write the ledger in it, and what they were told to keep. */
export class LedgerWorld implements AsyncDisposable {
  readonly dir: string;
  /** Leaf of each entry that was acknowledged, by any process, by its number. */
  readonly acknowledged = new Map<number, string>();
  refusals: string[] = [];
  readonly #cleanup: (() => Promise<void> | void)[] = [];
  #child: ChildProcess | undefined;
  #lines: AsyncIterator<string> | undefined;

  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), "berth-ledger-faults-"));
    this.#cleanup.push(() => rmSync(this.dir, { recursive: true, force: true }));
  }

  /** Puts a file system there, as root may. `below` is a folder of the state directory. Gives back what takes it away. */
  mount(below: string, args: readonly string[]): () => Promise<void> {
    const target = join(this.dir, below);
    mkdirSync(target, { recursive: true });
    runAsRoot("mount", [...args, target]);
    let isMounted = true;
    const unmount = async () => {
      for (const deadline = Date.now() + LIMIT_MS; isMounted; ) {
        try {
          runAsRoot("umount", [target]);
          isMounted = false;
        } catch (error) {
          // The writer tries to open its files now and then.
          if (Date.now() > deadline) throw error;
          await pause(20);
        }
      }
    };
    this.#cleanup.push(unmount);
    return unmount;
  }

  /** Starts a writer, and waits until it is open. */
  async start(): Promise<void> {
    const child = spawn(process.execPath, [PROGRAM, this.dir], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    child.stdin?.on("error", () => undefined);
    if (!child.stdout) throw new Error("the writer has no output");
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const line = await this.#line();
    if (line !== `open ${child.pid}`) throw new Error(`the writer said: ${line ?? "nothing"}`);
  }

  /** True when it has answered; false where it was killed before. */
  async ask(command: string): Promise<boolean> {
    this.#child?.stdin?.write(`${command}\n`);
    for (let line = await this.#line(); line !== undefined; line = await this.#line()) {
      const [word, first, leaf] = line.split(" ");
      if (word === "done") return true;
      if (word === "refused") this.refusals.push(first ?? "");
      if (word === "refused" && command === "checkpoint") return true;
      if (word === "ack" && leaf !== undefined) this.acknowledged.set(Number(first), leaf);
    }
    return false;
  }

  async state(): Promise<LedgerState> {
    this.#child?.stdin?.write("state\n");
    return JSON.parse((await this.#line()) ?? "null");
  }

  /** Waits until its state is as wanted. */
  async until(what: string, is: (state: LedgerState) => boolean): Promise<LedgerState> {
    const deadline = Date.now() + LIMIT_MS;
    for (;;) {
      const state = await this.state();
      if (is(state)) return state;
      if (Date.now() > deadline) throw new Error(`never ${what}: ${JSON.stringify(state)}`);
      await pause(50);
    }
  }

  /** Ends it as a person does; without an argument, as the system does. */
  async end(how: "end" | "kill" = "kill"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    if (how === "end") child.stdin?.write("end\n");
    else child.kill("SIGKILL");
    await ended;
  }

  /**
   * Attaches strace to the writer, waits until it has all of its threads, and gives back what ends it.
   * `log` is where it writes what it saw, one line for each call, with the thread before it.
   */
  async trace(
    args: readonly string[],
  ): Promise<{ log(): Promise<string>; detach(): Promise<void> }> {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("there is no writer to trace");
    const log = join(this.dir, "strace.log");
    rmSync(log, { force: true });
    const words = ["-f", "-p", String(pid), "-o", log, ...args];
    const strace = spawn("strace", words, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = new Promise((resolve) => strace.once("exit", resolve));
    let said = "";
    await new Promise<void>((resolve, reject) => {
      strace.once("error", (error) =>
        reject(new Error(`these tests need strace (apt-get install strace): ${error.message}`)),
      );
      strace.once("exit", (code) =>
        reject(new Error(`strace ended with ${code}; it has to be allowed to trace: ${said}`)),
      );
      strace.stderr.setEncoding("utf8").on("data", (text: string) => {
        said += text;
        // Attaching goes thread by thread, and says so when it has them all.
        if (/attached( with \d+ threads)?\n/.test(said)) resolve();
      });
    });
    const detach = async () => {
      if (strace.exitCode === null && strace.signalCode === null) strace.kill("SIGINT");
      await ended;
    };
    this.#cleanup.push(detach);
    return { log: () => readFile(log, "utf8"), detach };
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

function runAsRoot(program: string, args: readonly string[]): void {
  const isRoot = process.getuid?.() === 0;
  const [command, words] = isRoot ? [program, args] : ["sudo", ["-n", program, ...args]];
  try {
    execFileSync(command, words, { stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    throw new Error(`these tests have to be allowed to ${program} (as root, or by sudo)`, {
      cause: error,
    });
  }
}
