import { hostname } from "node:os";
import { BerthError } from "../base/errors.ts";
import { createClient } from "../client/rest/client.ts";
import type { ServerTarget } from "../client/rest/server-target.ts";
import type { Cli } from "./cli.ts";
import { UsageError } from "./cli-errors.ts";

/** The assistant of the server that the command line talks to. */
export interface ServerAssistant {
  /** The address of the assistant; null while the assistant does not run. */
  readonly url: string | null;
  /** The data directory of the assistant; null if the server has no assistant. */
  readonly dataDir: string | null;
}

const ANSWER_MS_MAX = 5_000;

/**
 * Asks the server of this command line for its assistant; undefined if there is no server on this machine. Throws
 * UsageError if --url or BERTH_URL names a server on another machine, whose assistant cannot be reached from here.
 */
export async function findServerAssistant(cli: Cli): Promise<ServerAssistant | undefined> {
  let target: ServerTarget | undefined;
  try {
    target = await cli.findTarget();
    const client = createClient({ baseUrl: target.url, token: target.token });
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    await client.health(signal);
    const info = await client.system.info();
    if (info.hostname !== hostname()) {
      if (!isNamed(target)) return undefined;
      throw new UsageError(
        `the server ${target.url} is on another machine, and its assistant listens only there`,
        "run this command on that machine; for a chat, you can also forward the port: ssh -L 7777:127.0.0.1:7777 HOST, then berth chat --port 7777",
      );
    }
    const { config } = await client.system.config();
    const read = (key: string) => config.find((one) => one.key === key)?.value ?? null;
    const isOff = info.assistant.state === "off";
    return {
      url: isOff ? null : info.assistant.url,
      dataDir: isOff ? null : read("assistant_data_dir"),
    };
  } catch (error) {
    const canIgnore = error instanceof BerthError && !(target && isNamed(target));
    if (canIgnore) return undefined;
    throw error;
  }
}

/** True if the user has named the server for this command. */
function isNamed({ origin }: ServerTarget): boolean {
  return origin === "--url" || origin === "BERTH_URL";
}
