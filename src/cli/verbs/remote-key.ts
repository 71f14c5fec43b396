import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { askSecret, canPrompt } from "../prompt.ts";

/** The maximum number of bytes of a key that the companion accepts. */
const KEY_BYTES_MAX = 16 * 1024;
/**
 * The maximum number of bytes that the command reads as a key. It exceeds KEY_BYTES_MAX, so that a file that is not a
 * key is reported as a key that is too long.
 */
const INPUT_BYTES_MAX = 1024 * 1024;

export function addRemoteKey(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("key")
      .summary("set or delete the key of a provider")
      .description(
        "Asks for the key without showing it, or reads it from standard input. The companion receives it through a pipe, so it appears in no argument, in no shell history, and not on the bus. No command prints it.",
      )
      .argument("<provider>", "id of a provider")
      .option("--clear", "delete the stored key"),
    [
      ["berth remote key openrouter", "ask for the key"],
      ["pass show openrouter | berth remote key openrouter", "read the key from a password store"],
      ["berth remote key openrouter --clear", "delete the key for good"],
    ],
  ).action(async (id: string, flags: { clear?: boolean }) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    if (flags.clear === true)
      return withCompanion(cli, async ({ remote: client }, signal) => {
        await client.clearKey(id, signal);
        await cli.print(`the key of ${id} is deleted`);
      });
    const { findProvider } = await import("../companion/remote/find-provider.ts");
    const { createSecretPipe } = await import("../companion/remote/secret-pipe.ts");
    await withCompanion(
      cli,
      async ({ remote: client }, signal) => {
        // The companion must answer and know the provider before the user is asked for a key.
        await findProvider(client, id, signal);
        const key = await readKey(cli, id);
        signal.throwIfAborted();
        await client.setKeyFd(id, await createSecretPipe(key, cli.io.environment), signal);
        await cli.print(`the key of ${id} is stored; no command can read it again`);
      },
      "interrupted; `berth remote` shows if the key was stored",
      { canPassFds: true },
    );
  });
}

/**
 * Reads a provider's key from a prompt or from standard input. Throws UsageError if the key is not valid; the message
 * never contains the key.
 */
async function readKey(cli: Cli, id: string): Promise<string> {
  const key = canPrompt(cli)
    ? await askSecret(cli, `Key for ${id}: `)
    : await readKeyFromInput(cli);
  const trimmed = key.trim();
  if (trimmed === "") throw new UsageError("the key is empty", `berth remote key ${id} < FILE`);
  if (/\s/.test(trimmed))
    throw new UsageError("the key is not valid: it contains blanks or line breaks");
  if (Buffer.byteLength(trimmed) > KEY_BYTES_MAX)
    throw new UsageError(`the key is not valid: it has more than ${KEY_BYTES_MAX / 1024} KiB`);
  return trimmed;
}

async function readKeyFromInput(cli: Cli): Promise<string> {
  const { readAll } = await import("../read-input.ts");
  const bytes = await readAll(cli.io.input, INPUT_BYTES_MAX);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError("the key is not valid: it is not UTF-8 text");
  }
}
