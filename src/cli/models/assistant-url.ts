import type { Client } from "../../client/rest/client.ts";

const URL_STANDARD = "http://127.0.0.1:7777";

/**
 * Resolves to the assistant's address on the server's machine, or to the default address while the assistant does not
 * run.
 */
export async function assistantUrl(client: Client): Promise<string> {
  const { assistant } = await client.system.info();
  return assistant.url ?? URL_STANDARD;
}
