import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { isDocumentFormat, type OutputFormat } from "../command-options.ts";
import { printDocument } from "../output/print.ts";

/**
 * Prints an app at the end of a successful wait: its phase and its address, and what the user should know about its
 * image.
 */
export async function reportReadyApp(
  cli: Cli,
  app: AppDetails,
  output: OutputFormat | undefined,
): Promise<void> {
  if (isDocumentFormat(output)) return printDocument(cli, app, output);
  if (output === "name") return cli.print(`app/${app.name}`);
  const isRunning = app.status === "running";
  const address = app.url === null || !isRunning ? "" : ` at ${app.url}`;
  await cli.print(`app/${app.name} is ${cli.colours.green(app.status)}${address}`);
  const image = app.resolved_image;
  if (isRunning && image?.engine_only === true)
    cli.note(
      `no registry has ${image.reference}: app/${app.name} runs the image of that name that is stored on this engine only`,
    );
}
