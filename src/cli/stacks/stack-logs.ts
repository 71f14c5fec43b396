import type { FollowLogQuery, LogQuery } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { LogLineView } from "../../resources/wire/apps.ts";

/** Returns the last lines of all apps of a stack, oldest first. */
export async function readStackLogs(
  client: Client,
  stack: string,
  query: LogQuery & { readonly tail: number },
): Promise<LogLineView[]> {
  const { members } = await client.stacks.get(stack);
  const logs = await Promise.all(members.map(({ name }) => client.apps.logs(name, query)));
  const lines = logs.flatMap(({ lines: own }) => own);
  return lines
    .toSorted((a, b) => (a.time < b.time ? -1 : Number(a.time > b.time)))
    .slice(-query.tail);
}

/**
 * Calls `print` for the last lines of all apps of a stack, and then for each new line, until the server ends the streams
 * of all apps. Lines of one app keep their order.
 */
export async function followStackLogs(
  client: Client,
  stack: string,
  query: FollowLogQuery,
  print: (line: LogLineView) => Promise<void>,
): Promise<void> {
  const { members } = await client.stacks.get(stack);
  await Promise.all(
    members.map(async ({ name }) => {
      for await (const line of client.apps.followLogs(name, query)) await print(line);
    }),
  );
}
