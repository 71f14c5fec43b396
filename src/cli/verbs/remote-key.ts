import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { askSecret, canPrompt } from "../prompt.ts";

/** As much as the companion reads of one. */
const KEY_BYTES_MAX = 16 * 1024;
/** More than a key, so that what is no key at all is told as such. */
const INPUT_BYTES_MAX = 1024 * 1024;

export function addRemoteKey(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("key")
      .summary("set the key of a provider, or forget it")
      .description(
        "Asks for the key without showing it, or takes it from standard input. It goes to the companion through a pipe: it is in no argument, in no shell history, and not on the bus. Nothing gives it back.",
      )
      .argument("<provider>", "id of a provider")
      .option("--clear", "forget the key that there is"),
    [
      ["berth remote key openrouter", "asks"],
      ["pass show openrouter | berth remote key openrouter", "from a password store"],
      ["berth remote key openrouter --clear", "no byte of it is left"],
    ],
  ).action(async (id: string, flags: { clear?: boolean }) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    if (flags.clear === true)
      return withCompanion(cli, async ({ remote: client }, signal) => {
        await client.clearKey(id, signal);
        await cli.print(`the key of ${id} is forgotten`);
      });
    const { findProvider } = await import("../companion/remote/find-provider.ts");
    const { createSecretPipe } = await import("../companion/remote/secret-pipe.ts");
    await withCompanion(
      cli,
      async ({ remote: client }, signal) => {
        // Before a key is asked for: is there a companion at all, and such a provider?
        await findProvider(client, id, signal);
        const key = await readKey(cli, id);
        signal.throwIfAborted();
        await client.setKeyFd(id, await createSecretPipe(key, cli.io.environment), signal);
        await cli.print(`the key of ${id} is kept; nobody can read it again`);
      },
      "interrupted; `berth remote` tells whether the key was kept",
      { canPassFds: true },
    );
  });
}

/** Throws UsageError, in which the key is not. */
async function readKey(cli: Cli, id: string): Promise<string> {
  const key = canPrompt(cli)
    ? await askSecret(cli, `Key for ${id}: `)
    : await readKeyFromInput(cli);
  const trimmed = key.trim();
  if (trimmed === "") throw new UsageError("there is no key", `berth remote key ${id} < FILE`);
  if (/\s/.test(trimmed))
    throw new UsageError("that is no key: there are blanks or line breaks in it");
  if (Buffer.byteLength(trimmed) > KEY_BYTES_MAX)
    throw new UsageError(`that is no key: it has more than ${KEY_BYTES_MAX / 1024} KiB`);
  return trimmed;
}

async function readKeyFromInput(cli: Cli): Promise<string> {
  const { readAll } = await import("../read-input.ts");
  const bytes = await readAll(cli.io.input, INPUT_BYTES_MAX);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError("that is no key: it is not UTF-8 text");
  }
}
