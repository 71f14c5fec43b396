import type { Client } from "../../client/rest/client.ts";

const URL_STANDARD = "http://127.0.0.1:7777";

/** Where clients on the server's machine reach the assistant, or would once it is up. */
export async function assistantUrl(client: Client): Promise<string> {
  const { assistant } = await client.system.info();
  return assistant.url ?? URL_STANDARD;
}
