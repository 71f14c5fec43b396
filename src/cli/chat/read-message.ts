import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";

/** As much as the assistant takes in one request. */
const INPUT_BYTES_MAX = 4 * 1024 * 1024;

/**
 * The message and what comes in behind it; undefined where a person is to type. Throws UsageError where there is
 * neither; `example`: how it is written.
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
  if (text === "") throw new UsageError("there is nothing to say", example);
  return text;
}
