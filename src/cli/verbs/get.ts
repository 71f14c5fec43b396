import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { ResourceView } from "../../resources/wire/resources.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { parseReferences } from "../kind-names.ts";
import { allModels } from "../models/all-models.ts";
import { collect, type OutputFormat, outputOption, withExamples } from "../options.ts";
import { exported } from "../output/exported.ts";
import { type Listing, printDocument, printListing } from "../output/print.ts";
import { watchListing } from "../output/watch.ts";
import { matchesSelector, parseSelector, type Selector } from "../selector.ts";
import { appListing } from "../views/apps.ts";
import { modelListing } from "../views/models.ts";
import { secretListing, templateListing } from "../views/others.ts";

interface GetOptions {
  readonly output?: OutputFormat;
  readonly selector?: readonly string[];
  readonly watch?: boolean;
  readonly export?: boolean;
}

export function addGet(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("get")
      .summary("list resources, or show some of them")
      .description(
        "Lists resources of a kind, or shows some by name. Kinds: apps (a), models (m), templates (tpl), secrets (sec).",
      )
      .argument("[kind]", "kind, or KIND/NAME; without one: apps")
      .argument("[name...]", "names")
      .addOption(outputOption())
      .option("-l, --selector <labels>", "only with these labels: team=web,tier!=db", collect)
      .option("-w, --watch", "go on, and print each change")
      .option("--export", "with -o yaml or json: without status, fit for `berth apply`"),
    [
      ["berth get apps", "every app, its status and URL"],
      ["berth get app hello -o yaml", "all that is known of one"],
      ["berth get app hello -o yaml --export", "its manifest, to keep in a file"],
      ["berth get apps -l team=web -o wide", "some, with more columns"],
      ["berth get apps -w", "follow what happens"],
    ],
  ).action(async (kindWord: string | undefined, names: string[], options: GetOptions) => {
    const references = parseReferences([kindWord ?? "apps", ...names]);
    const selector = parseSelector(options.selector ?? []);
    if (options.export === true && options.output !== "yaml" && options.output !== "json")
      throw new UsageError("--export needs -o yaml or -o json");
    const client = await cli.connect();
    const groups = merge(references);
    if (options.watch === true) {
      const [group] = groups;
      if (group === undefined || groups.length > 1)
        throw new UsageError("--watch follows one kind at a time", "berth get apps -w");
      await watchListing(cli, client, group.kind, options.output, () =>
        listingOf(client, cli, group, selector),
      );
      return;
    }
    if (options.output === "json" || options.output === "yaml") {
      const lists = await Promise.all(
        groups.map((group) => documentsOf(client, group, selector, options.export === true)),
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
      // Kinds have different columns: a table each, as kubectl does.
      const listing = await listingOf(client, cli, group, selector);
      if (index > 0 && options.output !== "name") await cli.print("");
      if (listing.names.length === 0 && selector.length > 0)
        cli.note(`no ${group.kind.toLowerCase()} has these labels`);
      else await printListing(cli, listing, options.output);
    }
  });
}

interface Group {
  readonly kind: Kind;
  readonly names: readonly string[];
}

function merge(references: readonly Group[]): Group[] {
  const byKind = new Map<Kind, string[]>();
  for (const { kind, names } of references)
    byKind.set(kind, [...(byKind.get(kind) ?? []), ...names]);
  return [...byKind].map(([kind, names]) => ({ kind, names: [...new Set(names)] }));
}

/** What -o json and -o yaml show: resources, but the catalog's entries as the API has them. */
async function documentsOf(
  client: Client,
  group: Group,
  selector: Selector,
  isExport: boolean,
): Promise<unknown[]> {
  if (group.kind === "Template" && selector.length === 0 && !isExport)
    return group.names.length === 0
      ? (await client.templates.list()).templates
      : Promise.all(group.names.map((name) => client.templates.get(name)));
  const items = await resourcesOf(client, group, selector);
  return isExport ? items.map((item) => exported(item)) : items;
}

/** In the order of the names; throws NotFound for the first that is not there. */
async function resourcesOf(
  client: Client,
  group: Group,
  selector: Selector,
): Promise<ResourceView[]> {
  const items =
    group.names.length > 0
      ? await Promise.all(group.names.map((name) => client.resources.get(group.kind, name)))
      : (await client.resources.list(group.kind)).items;
  return items.filter((item) => matchesSelector(selector, item.metadata.labels));
}

async function listingOf(
  client: Client,
  cli: Cli,
  group: Group,
  selector: Selector,
): Promise<Listing> {
  const wanted = async () => {
    if (group.names.length === 0 && selector.length === 0) return undefined;
    // Built-in templates are no resources of the store.
    if (group.kind === "Template" && selector.length === 0) {
      const found = await Promise.all(group.names.map((name) => client.templates.get(name)));
      return found.map(({ id }) => id);
    }
    const items = await resourcesOf(client, group, selector);
    return items.map((item) => item.metadata.name);
  };
  const names = await wanted();
  const pick = <T>(rows: readonly T[], nameOf: (row: T) => string) =>
    names === undefined
      ? rows
      : names.flatMap((name) => rows.filter((row) => nameOf(row) === name));
  const now = cli.io.now();
  if (group.kind === "App")
    return appListing(pick<AppItem>(await client.apps.listAll(), byName), cli.colours, now);
  if (group.kind === "Model")
    return modelListing(
      pick(names === undefined ? await declaredModels(client) : await allModels(client), byName),
      cli.colours,
    );
  if (group.kind === "Secret")
    return secretListing(pick((await client.secrets.list()).secrets, byName), now);
  return templateListing(pick((await client.templates.list()).templates, (row) => row.id));
}

/** What `berth models ls` shows beside them is no resource. */
async function declaredModels(client: Client): Promise<readonly ModelView[]> {
  return (await allModels(client)).filter(({ origin }) => origin === "resource");
}

const byName = (row: { readonly name: string }) => row.name;
