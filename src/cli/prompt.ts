import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { isAbortError } from "../base/errors.ts";
import { cleanText } from "./clean-output.ts";
import type { Cli } from "./cli.ts";
import { declinedError } from "./cli-errors.ts";

/** Asks a question, and resolves to true if the answer is yes. Callers check `canPrompt` first. */
export async function confirm(cli: Cli, question: string): Promise<boolean> {
  const answer = await promptFor(cli, `${question} [y/N] `, false);
  return /^y(es)?$/i.test(answer.trim());
}

export function canPrompt(cli: Cli): boolean {
  return cli.io.inputIsTerminal && cli.io.errorIsTerminal;
}

/** Asks for a line, and resolves to it without the blanks around it. Callers check `canPrompt` first. */
export async function askLine(cli: Cli, question: string): Promise<string> {
  return (await promptFor(cli, question, false)).trim();
}

/** Asks for a line that is not shown while the user types it. */
export async function askSecret(cli: Cli, question: string): Promise<string> {
  return promptFor(cli, question, true);
}

async function promptFor(cli: Cli, question: string, hidden: boolean): Promise<string> {
  let isMuted = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!isMuted) cli.io.writeTerminal(chunk.toString());
      done();
    },
  });
  const reader = createInterface({ input: cli.io.input, output, terminal: true });
  try {
    const answer = reader.question(cleanText(question, true));
    isMuted = hidden;
    return await answer;
  } catch (error) {
    throw isAbortError(error) ? declinedError("interrupted, nothing was done") : error;
  } finally {
    reader.close();
    if (hidden) cli.io.writeError("\n");
  }
}
