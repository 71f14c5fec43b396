import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import { STACK_LABEL } from "../../resources/stack.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { ResourceView } from "../../resources/wire/resources.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  collectValues,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { matchesSelector, parseSelector, type Selector } from "../label-selector.ts";
import { listAllModels } from "../models/list-all-models.ts";
import { exportManifest } from "../output/export-manifest.ts";
import { type Listing, printDocument, printListing } from "../output/print.ts";
import { watchListing } from "../output/watch-listing.ts";
import { parseReferences } from "../resource-references.ts";
import { parseStackWords } from "../stacks/stack-words.ts";
import { createAppListing } from "../views/apps.ts";
import { createModelListing } from "../views/models.ts";
import {
  createSecretListing,
  createTemplateListing,
} from "../views/secret-and-template-listings.ts";

interface GetOptions {
  readonly output?: OutputFormat;
  readonly selector?: readonly string[];
  readonly stack?: string;
  readonly watch?: boolean;
  readonly export?: boolean;
}

export function addGet(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("get")
      .summary("list resources, or show some by name")
      .description(
        "Lists the resources of a kind, or shows some by name. Kinds: apps (a), models (m), templates (tpl), secrets (sec). Stacks (groups of apps) are listed with `berth get stacks`.",
      )
      .argument("[kind]", "kind, or KIND/NAME; without one: apps")
      .argument("[name...]", "names")
      .addOption(outputOption())
      .option(
        "-l, --selector <labels>",
        "list only resources with these labels: team=web,tier!=db",
        collectValues,
      )
      .option("--stack <name>", "list only resources of this stack")
      .option("-w, --watch", "continue, and print each change")
      .option("--export", "with -o yaml or json: omit the status, for `berth apply`"),
    [
      ["berth get apps", "list every app, its status and URL"],
      ["berth get app hello -o yaml", "print the whole resource"],
      [
        "berth get app hello -o yaml --export",
        "print the manifest of the app hello, to save it in a file",
      ],
      ["berth get apps -l team=web -o wide", "list apps with a label, with more columns"],
      ["berth get apps --stack blog", "list the apps of the stack blog"],
      ["berth get apps -w", "follow the changes of apps"],
      ["berth get stacks", "list the stacks, and how many of their apps are ready"],
    ],
  ).action(async (kindWord: string | undefined, names: string[], options: GetOptions) => {
    const words = [kindWord ?? "apps", ...names];
    const stacks = parseStackWords(words);
    if (stacks) return getStacks(cli, stacks, options);
    const references = parseReferences(words);
    const selector = parseFilter(options);
    if (options.export === true && options.output !== "yaml" && options.output !== "json")
      throw new UsageError("--export needs -o yaml or -o json");
    const client = await cli.connect();
    const groups = mergeGroups(references);
    if (options.watch === true) {
      const [group] = groups;
      if (group === undefined || groups.length > 1)
        throw new UsageError("--watch follows one kind at a time", "berth get apps -w");
      await watchListing(cli, client, group.kind, options.output, () =>
        fetchListing(client, cli, group, selector),
      );
      return;
    }
    if (isDocumentFormat(options.output)) {
      const lists = await Promise.all(
        groups.map((group) => fetchDocuments(client, group, selector, options.export === true)),
      );
      const items = lists.flat();
      const single = groups.length === 1 && groups[0]?.names.length === 1;
      await printDocument(
        cli,
        single ? items[0] : { apiVersion: "berth.dev/v1", kind: "List", items },
        options.output,
      );
      return;
    }
    for (const [index, group] of groups.entries()) {
      // Kinds have different columns, so each has a table of its own, as with kubectl.
      const listing = await fetchListing(client, cli, group, selector);
      if (index > 0 && options.output !== "name") await cli.print("");
      if (listing.names.length === 0 && selector.length > 0)
        cli.note(
          options.stack === undefined
            ? `no ${group.kind.toLowerCase()} has these labels`
            : `no ${group.kind.toLowerCase()} of the stack ${options.stack} was found`,
        );
      else await printListing(cli, listing, options.output);
    }
  });
}

/**
 * Returns the label selector that results from --selector and --stack. The stack of a resource is one of its labels.
 */
function parseFilter({ selector = [], stack }: GetOptions): Selector {
  const own =
    stack === undefined ? [] : [{ key: STACK_LABEL, operator: "=", value: stack } as const];
  return [...own, ...parseSelector(selector)];
}

async function getStacks(cli: Cli, names: readonly string[], options: GetOptions): Promise<void> {
  if (options.watch === true || options.export === true || parseFilter(options).length > 0)
    throw new UsageError(
      "`berth get stacks` cannot be used with --watch, --export, --selector or --stack",
      "berth get apps -w",
    );
  const client = await cli.connect();
  const [only, ...others] = await Promise.all(names.map((name) => client.stacks.get(name)));
  if (only && others.length === 0 && isDocumentFormat(options.output))
    return printDocument(cli, only, options.output);
  const { createStackListing } = await import("../stacks/stack-views.ts");
  const stacks = only ? [only, ...others] : (await client.stacks.list()).stacks;
  await printListing(cli, createStackListing(stacks, cli.colours), options.output);
}

interface ResourceGroup {
  readonly kind: Kind;
  readonly names: readonly string[];
}

function mergeGroups(references: readonly ResourceGroup[]): ResourceGroup[] {
  const byKind = new Map<Kind, string[]>();
  for (const { kind, names } of references)
    byKind.set(kind, [...(byKind.get(kind) ?? []), ...names]);
  return [...byKind].map(([kind, names]) => ({ kind, names: [...new Set(names)] }));
}

/** Fetches the documents that -o json and -o yaml print: resources, and for templates the entries of the catalog. */
async function fetchDocuments(
  client: Client,
  group: ResourceGroup,
  selector: Selector,
  isExport: boolean,
): Promise<unknown[]> {
  if (group.kind === "Template" && selector.length === 0 && !isExport)
    return group.names.length === 0
      ? (await client.templates.list()).templates
      : Promise.all(group.names.map((name) => client.templates.get(name)));
  const items = await fetchResources(client, group, selector);
  return isExport ? items.map((item) => exportManifest(item)) : items;
}

/** Fetches resources in the order of the names. Throws ApiError 404 for the first that does not exist. */
async function fetchResources(
  client: Client,
  group: ResourceGroup,
  selector: Selector,
): Promise<ResourceView[]> {
  const items =
    group.names.length > 0
      ? await Promise.all(group.names.map((name) => client.resources.get(group.kind, name)))
      : (await client.resources.list(group.kind)).items;
  return items.filter((item) => matchesSelector(selector, item.metadata.labels));
}

async function fetchListing(
  client: Client,
  cli: Cli,
  group: ResourceGroup,
  selector: Selector,
): Promise<Listing> {
  const resolveNames = async () => {
    if (group.names.length === 0 && selector.length === 0) return undefined;
    // Templates are looked up in the catalog, because built-in templates are not stored as resources.
    if (group.kind === "Template" && selector.length === 0) {
      const found = await Promise.all(group.names.map((name) => client.templates.get(name)));
      return found.map(({ id }) => id);
    }
    const items = await fetchResources(client, group, selector);
    return items.map((item) => item.metadata.name);
  };
  const names = await resolveNames();
  const pick = <T>(rows: readonly T[], nameOf: (row: T) => string) =>
    names === undefined
      ? rows
      : names.flatMap((name) => rows.filter((row) => nameOf(row) === name));
  const now = cli.io.now();
  if (group.kind === "App")
    return createAppListing(pick<AppItem>(await client.apps.listAll(), getName), cli.colours, now);
  if (group.kind === "Model")
    return createModelListing(
      pick(
        names === undefined ? await listDeclaredModels(client) : await listAllModels(client),
        getName,
      ),
      cli.colours,
    );
  if (group.kind === "Secret")
    return createSecretListing(pick((await client.secrets.list()).secrets, getName), now);
  return createTemplateListing(pick((await client.templates.list()).templates, (row) => row.id));
}

/** Lists the Models in the store. (`berth models ls` also shows files of the assistant and entries of the catalog.) */
async function listDeclaredModels(client: Client): Promise<readonly ModelView[]> {
  return (await listAllModels(client)).filter(({ origin }) => origin === "resource");
}

const getName = (row: { readonly name: string }) => row.name;
