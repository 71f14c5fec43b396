import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";

/** The maximum size of a request to the assistant. */
const INPUT_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Returns the message, followed by the text of standard input. At a terminal, standard input is not read, and the
 * result is undefined if there is no message: the user will type it. Throws UsageError, with `example` as its hint, if
 * both texts are empty.
 */
export async function readMessage(
  cli: Cli,
  message: string,
  example: string,
): Promise<string | undefined> {
  if (cli.io.inputIsTerminal) return message === "" ? undefined : message;
  const { readAll } = await import("../read-input.ts");
  const input = (await readAll(cli.io.input, INPUT_BYTES_MAX)).toString("utf8").trim();
  const text = [message, input].filter((part) => part !== "").join("\n\n");
  if (text === "") throw new UsageError("the message is empty", example);
  return text;
}
