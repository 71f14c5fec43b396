import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { isDocumentFormat, type OutputFormat } from "../command-options.ts";
import type { Listing } from "./print.ts";

/**
 * Prints a listing, then a line for each resource whose line has changed, until the server ends the stream or
 * the user presses Ctrl-C. Changes in a burst are listed together.
 */
export async function watchListing(
  cli: Cli,
  client: Client,
  kind: Kind,
  format: OutputFormat | undefined,
  list: () => Promise<Listing>,
): Promise<void> {
  if (isDocumentFormat(format))
    throw new UsageError(`--watch cannot be combined with -o ${format}`, "berth events -w -o json");
  const abort = new AbortController();
  // The stream is opened before the first listing, so that no change is missed between the two.
  const changes = client.events.watch({ kind, signal: abort.signal });
  let pending = changes.next();
  const shown = new Map<string, string>();
  const widths: number[] = [];
  let header: string | undefined;
  try {
    for (;;) {
      const current = await list();
      const [first = "", ...lines] = current
        .table(format, cli.io.columns, widths)
        .trimEnd()
        .split("\n");
      const now = new Map(current.names.map((name, index) => [name, index]));
      const output: string[] = [];
      if (format !== "name" && header !== first && current.names.length > 0) {
        output.push(first);
        header = first;
      }
      for (const [name, index] of now) {
        const fingerprint = current.fingerprints[index] ?? "";
        if (shown.get(name) !== fingerprint)
          output.push(format === "name" ? name : (lines[index] ?? ""));
        shown.set(name, fingerprint);
      }
      for (const name of shown.keys()) {
        if (now.has(name)) continue;
        output.push(cli.colours.dim(`${name} was deleted`));
        shown.delete(name);
      }
      if (output.length > 0) await cli.print(output.join("\n"));
      const change = await pending;
      if (change.done === true) {
        cli.note("the server has ended the stream");
        return;
      }
      pending = changes.next();
    }
  } finally {
    abort.abort();
    // This function has aborted the stream, so the pending read rejects.
    await pending.catch(() => {});
  }
}
