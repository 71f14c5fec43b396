import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { declinedError } from "../cli-errors.ts";
import { followModel } from "../models/follow-model.ts";
import { canPrompt, confirm } from "../prompt.ts";

/** The assistant has answered already; a server that does not is not waited for. */
const LOOKUP_TIMEOUT_MS = 2_000;

/**
 * A model that the assistant does not have may be one of the server's, which is not in memory. At a terminal it
 * is started, if the person wants that, and the name that the assistant has for it is returned; elsewhere
 * BerthError `wrong_state` says how. Undefined where the server does not know it, or there is none.
 */
export async function startStoppedModel(cli: Cli, word: string): Promise<string | undefined> {
  const found = await findOnServer(cli, word);
  if (found === undefined) return undefined;
  const { client, model } = found;
  const { name } = model;
  if (!canPrompt(cli))
    throw new BerthError("wrong_state", `model "${name}" does not run: ${model.message}`, {
      hint: `\`berth models start ${name}\``,
    });
  const size = model.status === "absent" ? "; it has to be downloaded first" : "";
  if (!(await confirm(cli, `Model ${name} does not run${size}. Start it?`)))
    throw declinedError("nothing was started");
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
