import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { parseManifests } from "../../resources/parse-manifests.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { formatChanges } from "../output/change-lines.ts";
import { exportManifest } from "../output/export-manifest.ts";
import { canPrompt, confirm } from "../prompt.ts";
import { formatReference, parseReferences } from "../resource-references.ts";

/** Adds the verb `edit`, which opens a manifest in $VISUAL or $EDITOR and applies the saved text. */
export function addEdit(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("edit")
      .summary("change a resource in your editor")
      .description(
        "Opens the manifest of a resource in $VISUAL or $EDITOR, validates the saved text, and applies it. If the text is not valid, you can edit it again.",
      )
      .argument("<kind>", "kind, KIND/NAME, or the name of an app")
      .argument("[name]", "name of the resource")
      .option("--force", "take over fields that spec files own"),
    [["berth edit app hello", "edit the app hello"]],
  ).action(async (kindWord: string, name: string | undefined, flags: { force?: boolean }) => {
    const words = name === undefined ? [kindWord] : [kindWord, name];
    const [reference] = parseReferences(words, true);
    const wanted = reference?.names[0];
    if (reference === undefined || wanted === undefined || reference.names.length > 1)
      throw new UsageError("edit needs one name", "berth edit app NAME");
    if (reference.kind === "Secret")
      throw new UsageError(
        "values of a secret cannot be read back, so there is nothing to edit",
        `berth secrets set ${wanted} key=value`,
      );
    const { parseManifests: parseDocuments } = await import("../../resources/parse-manifests.ts");
    const { toYaml } = await import("../output/yaml.ts");
    const client = await cli.connect();
    const before = toYaml(exportManifest(await client.resources.get(reference.kind, wanted)));
    const folder = mkdtempSync(join(tmpdir(), "berth-edit-"));
    const file = join(folder, `${wanted}.yaml`);
    writeFileSync(file, before, { mode: 0o600 });
    try {
      const manifests = await editManifests(cli, file, before, parseDocuments);
      if (manifests === undefined)
        await cli.print(`${formatReference(reference.kind, wanted)} unchanged`);
      else await applyEdited(cli, client, manifests, flags.force === true);
    } catch (error) {
      // The user's text is kept if the server refuses it.
      if (readFileSync(file, "utf8") === before) rmSync(folder, { recursive: true, force: true });
      else cli.note(`your text is kept in ${file}`);
      throw error;
    }
    rmSync(folder, { recursive: true, force: true });
  });
}

/** Resolves to the manifests of the edited text once it is valid; undefined if the user left the text unchanged. */
async function editManifests(
  cli: Cli,
  file: string,
  before: string,
  parse: typeof parseManifests,
): Promise<Manifest[] | undefined> {
  for (;;) {
    await openEditor(cli, file);
    const text = readFileSync(file, "utf8");
    if (text === before) return undefined;
    const parsed = parse(text);
    if (parsed.errors.length === 0 && parsed.documents.length > 0)
      return parsed.documents.map(({ manifest }) => manifest);
    const problems = parsed.errors.map(
      ({ line, column, message }) => `  ${file}:${line}:${column}: ${message}`,
    );
    cli.note(`the saved text is not valid:\n${problems.join("\n") || "  it declares no resource"}`);
    if (!canPrompt(cli) || !(await confirm(cli, "Edit it again?")))
      throw new BerthError("invalid_spec", "nothing was changed");
  }
}

async function applyEdited(
  cli: Cli,
  client: Client,
  manifests: Manifest[],
  force: boolean,
): Promise<void> {
  const answer = await client.apply({ manifests, manager: "cli", ...(force ? { force } : {}) });
  for (const result of answer.results)
    await cli.print(
      [
        `${formatReference(result.kind, result.name)} ${result.action}`,
        ...formatChanges(result.changes, cli.colours).map((line) => `  ${line}`),
      ].join("\n"),
    );
}

/** Runs the editor through a shell, because it may be a command line such as `code --wait`. */
function openEditor(cli: Cli, file: string): Promise<void> {
  const { environment } = cli.io;
  const editor = environment["VISUAL"] || environment["EDITOR"] || "vi";
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: "inherit" });
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0) resolve();
      else
        reject(
          new BerthError("invalid_request", `the editor "${editor}" exited with code ${code}`, {
            hint: "set EDITOR to the editor that you use",
          }),
        );
    });
  });
}
