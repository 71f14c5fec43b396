import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";

const program = join(import.meta.dirname, "../../bin/berth");
const LIMIT_MS = 30_000;

/** A Node.js program, by default `bin/berth`, in a pseudo-terminal of script(1). */
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
    // `exec` replaces the shell, which would otherwise exit with 130 on Ctrl-C, whatever the program's exit code is.
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

  /** Resolves to the program's output up to the first match of `wanted`. The next call searches after that match. */
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
      if (deadline.aborted) throw new Error(`received only ${JSON.stringify(this.#text)}`);
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
