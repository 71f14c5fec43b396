import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";

const program = join(import.meta.dirname, "../../bin/berth");
const LIMIT_MS = 30_000;

/** A Node program, `bin/berth` unless another is named, in a pseudo-terminal, which script(1) makes. */
export class Screen implements Disposable {
  readonly #child: ChildProcess;
  readonly ended: Promise<number | null>;
  #text = "";
  #onChange: (() => void) | undefined;

  constructor(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    script = program,
  ) {
    // exec: a shell that stays would end by Ctrl-C itself, with 130, whatever the program ends with.
    const line = `exec ${[process.execPath, script, ...args].map((word) => `'${word}'`).join(" ")}`;
    this.#child = spawn("script", ["-qefc", line, "/dev/null"], {
      env: { ...process.env, NO_COLOR: "1", TERM: "xterm", ...environment },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#text += text;
      this.#onChange?.();
    });
    this.ended = new Promise((resolve) => this.#child.once("close", resolve));
  }

  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  /** Resolves with what came up to a match, which the next one begins behind. */
  async until(wanted: RegExp): Promise<string> {
    const deadline = AbortSignal.timeout(LIMIT_MS);
    for (;;) {
      const match = wanted.exec(this.#text);
      if (match) {
        const end = match.index + match[0].length;
        const seen = this.#text.slice(0, end);
        this.#text = this.#text.slice(end);
        return seen;
      }
      if (deadline.aborted) throw new Error(`only ${JSON.stringify(this.#text)} came`);
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
        deadline.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}
