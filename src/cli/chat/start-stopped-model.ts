import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { declinedError } from "../cli-errors.ts";
import { followModel } from "../models/follow-model.ts";
import { canPrompt, confirm } from "../prompt.ts";

/** The longest wait for the server's answer about the model. */
const LOOKUP_TIMEOUT_MS = 2_000;

/**
 * Starts a stopped model of the server, if the user confirms it at the terminal. Returns the name under which the
 * assistant serves the model. Without a terminal it throws BerthError `wrong_state` with a hint. Returns undefined if
 * the server does not know the model, or if there is no server.
 */
export async function startStoppedModel(cli: Cli, word: string): Promise<string | undefined> {
  const found = await findOnServer(cli, word);
  if (found === undefined) return undefined;
  const { client, model } = found;
  const { name } = model;
  if (!canPrompt(cli))
    throw new BerthError("wrong_state", `model "${name}" is not running: ${model.message}`, {
      hint: `\`berth models start ${name}\``,
    });
  const size = model.status === "absent" ? "; it must be downloaded first" : "";
  if (!(await confirm(cli, `Model ${name} is not running${size}. Start it?`)))
    throw declinedError("the model was not started");
  const write = await client.models.start(name);
  const started = write.dryRun ? write.report.name : write.model.name;
  const leaving = new AbortController();
  await followModel(cli, client, started, {
    until: "memory",
    timeoutMs: Number.POSITIVE_INFINITY,
    isQuiet: false,
    signal: leaving.signal,
  });
  return started;
}

async function findOnServer(
  cli: Cli,
  word: string,
): Promise<{ client: Client; model: ModelDetails } | undefined> {
  try {
    const client = await cli.connect();
    return { client, model: await client.models.get(word, AbortSignal.timeout(LOOKUP_TIMEOUT_MS)) };
  } catch {
    return undefined;
  }
}
