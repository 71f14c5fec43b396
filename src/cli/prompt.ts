import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { isAbortError } from "../base/errors.ts";
import type { Cli } from "./cli.ts";
import { declinedError } from "./cli-errors.ts";

/** True after a clear yes. Only to be asked where a person sits at both ends. */
export async function confirm(cli: Cli, question: string): Promise<boolean> {
  const answer = await promptFor(cli, `${question} [y/N] `, false);
  return /^y(es)?$/i.test(answer.trim());
}

export function canPrompt(cli: Cli): boolean {
  return cli.io.inputIsTerminal && cli.io.errorIsTerminal;
}

/** What a person typed, without blanks around it. Only to be asked where a person sits at both ends. */
export async function askLine(cli: Cli, question: string): Promise<string> {
  return (await promptFor(cli, question, false)).trim();
}

/** A line that is not shown while it is typed. */
export async function askSecret(cli: Cli, question: string): Promise<string> {
  return promptFor(cli, question, true);
}

async function promptFor(cli: Cli, question: string, hidden: boolean): Promise<string> {
  let isMuted = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!isMuted) cli.io.writeError(chunk.toString());
      done();
    },
  });
  const reader = createInterface({ input: cli.io.input, output, terminal: true });
  try {
    const answer = reader.question(question);
    isMuted = hidden;
    return await answer;
  } catch (error) {
    throw isAbortError(error) ? declinedError("interrupted, nothing was done") : error;
  } finally {
    reader.close();
    if (hidden) cli.io.writeError("\n");
  }
}
