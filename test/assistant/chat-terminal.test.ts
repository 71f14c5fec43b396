import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AssistantProcess, berth } from "../support/assistant-process.ts";

const program = join(import.meta.dirname, "../../bin/berth");
const interrupt = "\u0003";
const LIMIT_MS = 30_000;

/** `berth chat` in a pseudo-terminal, which script(1) makes. */
class Screen implements Disposable {
  readonly #child: ChildProcess;
  readonly ended: Promise<number | null>;
  #text = "";
  #onChange: (() => void) | undefined;

  constructor(args: readonly string[]) {
    const line = [process.execPath, program, ...args].map((word) => `'${word}'`).join(" ");
    this.#child = spawn("script", ["-qefc", line, "/dev/null"], {
      env: { ...process.env, NO_COLOR: "1", TERM: "xterm" },
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

test("a talk at a terminal: echo, an answer, a paste, and Ctrl-C", async () => {
  await using daemon = await AssistantProcess.start(["--engine", "stub"]);
  using screen = new Screen(["chat", "--assistant-url", daemon.ready.url]);
  await screen.until(/stub, up to 8192 tokens.*\r\n.*>>> /s);
  screen.type("Who are you?\r");
  expect(await screen.until(/>>> /)).toMatch(/Who are you\?\r+\n.*Stub answer: .*\r\n/s);
  screen.type("\u001b[200~one\rtwo\u001b[201~");
  // It is pasted, and waits for Enter.
  await screen.until(/\.\.\. two/);
  screen.type("\r");
  await screen.until(/Stub answer: .*>>> /s);
  screen.type(interrupt);
  await screen.until(/Ctrl-C once more/);
  screen.type(interrupt);
  expect(await screen.ended).toBe(0);

  const { code, stdout, stderr } = await berth(
    ["ledger", "tail", "--data-dir", daemon.dataDir, "--json"],
    {},
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.match(/"inference\.generate"/g)).toHaveLength(2);
});

test("what runs on a data directory is found, and a pipe gets the answer alone", async () => {
  await using daemon = await AssistantProcess.start(["--engine", "stub"]);
  const found = await berth(["chat", "Well then", "--data-dir", daemon.dataDir]);
  expect(found).toMatchObject({ code: 0, stderr: "" });
  expect(found.stdout).toMatch(/^Stub answer: [^\n]+\n$/);
  await daemon.stop();
  const gone = await berth(["chat", "Well then", "--data-dir", daemon.dataDir, "--port", "9"]);
  expect(gone).toMatchObject({ code: 1, stdout: "" });
  expect(gone.stderr).toMatch(/no assistant answers at http:\/\/127\.0\.0\.1:9\ntry: .*berth up/);
});
