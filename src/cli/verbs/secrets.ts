import { type Command, Option } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { readPairs } from "../key-value-pairs.ts";
import { printListing } from "../output/print.ts";
import { createSecretListing } from "../views/secret-and-template-listings.ts";

export function addSecrets(program: Command, cli: Cli): void {
  const secrets = addExamples(
    program
      .command("secrets")
      .helpCommand(false)
      .summary("store passwords and keys for apps")
      .description("Stores confidential values for apps. No command shows a value again."),
    [
      ["berth secrets", "list the secrets, without values"],
      ["berth secrets set db password=-", "read a value from standard input"],
      ["berth create web --image web:1 -e PASSWORD=secret:db/password", "use it in an app"],
    ],
  );
  const list = async (options: { output?: OutputFormat }) => {
    const { secrets: found } = await (await cli.connect()).secrets.list();
    await printListing(cli, createSecretListing(found, cli.io.now()), options.output);
  };
  secrets
    .command("list", { isDefault: true })
    .alias("ls")
    .summary("list secrets and their keys")
    .addOption(outputOption())
    .action(list);
  addSet(secrets, cli);
  addUnset(secrets, cli);
  addRemove(secrets, cli);
}

function addSet(secrets: Command, cli: Cli): void {
  addExamples(
    secrets
      .command("set")
      .summary("create a secret, or set some of its values")
      .description(
        "Creates a secret, or sets some of its values and keeps the others. Apps that use it are deployed again. key=@FILE reads a file unchanged, key=- reads standard input without its last line break.",
      )
      .argument("<secret>", "name of the secret")
      .argument("<pair...>", "key=value, key=@file or key=-")
      .addOption(
        new Option(
          "--type <type>",
          "type; a registry Secret contains server, username and password for pulls",
        ).choices(["opaque", "registry"]),
      )
      .option("--replace", "remove the values of the secret that this command does not set")
      .option("--force", "change the secret even if a spec file declares it"),
    [
      ["berth secrets set db password=-", "type or pipe a value"],
      ["berth secrets set tls key=@key.pem cert=@cert.pem", "read values from files"],
      [
        "berth secrets set hub --type registry server=ghcr.io username=me password=-",
        "store a login for pulls of private images",
      ],
    ],
  ).action(
    async (
      name: string,
      pairs: string[],
      flags: { type?: "opaque" | "registry"; replace?: boolean; force?: boolean },
    ) => {
      const data = await readPairs(cli, pairs);
      const client = await cli.connect();
      const force = { force: flags.force === true };
      const { secrets: known } = await client.secrets.list();
      const existing = known.find((secret) => secret.name === name);
      const count = Object.keys(data).length;
      const values = `${count} ${count === 1 ? "value" : "values"}`;
      if (existing === undefined) {
        await client.secrets.create({
          name,
          data,
          ...(flags.type === undefined ? {} : { type: flags.type }),
        });
        return cli.print(`secret/${name} created with ${values}`);
      }
      if (flags.replace === true) {
        const type = flags.type ?? existing.type;
        await client.secrets.put(name, { data, type }, force);
        return cli.print(`secret/${name} now contains ${values}`);
      }
      if (flags.type !== undefined && flags.type !== existing.type)
        throw new UsageError(
          `secret/${name} is of type ${existing.type}`,
          "to change the type, set all values of the secret again, with --replace",
        );
      await client.secrets.patch(name, { data }, force);
      return cli.print(`secret/${name}: ${values} set`);
    },
  );
}

function addRemove(secrets: Command, cli: Cli): void {
  addExamples(
    secrets
      .command("rm")
      .summary("delete a secret, or some of its values")
      .argument("<secret>", "name of the secret")
      .argument("[key...]", "keys of the values to delete; default: the whole secret")
      .option(
        "--force",
        "change the secret even if a spec file declares it, or an app or a model uses it",
      ),
    [
      ["berth secrets rm db old-password", "delete one value"],
      ["berth secrets rm db", "delete the secret"],
    ],
  ).action(async (name: string, keys: string[], flags: { force?: boolean }) => {
    const client = await cli.connect();
    const force = { force: flags.force === true };
    if (keys.length === 0) {
      await client.secrets.delete(name, force);
      return cli.print(`secret/${name} deleted`);
    }
    await deleteValues(cli, client, name, keys, force);
  });
}

function addUnset(secrets: Command, cli: Cli): void {
  addExamples(
    secrets
      .command("unset")
      .summary("delete some values of a secret")
      .argument("<secret>", "name of the secret")
      .argument("<key...>", "keys of the values to delete")
      .option("--force", "change the secret even if a spec file declares it"),
    [["berth secrets unset db old-password", "delete one value"]],
  ).action(async (name: string, keys: string[], flags: { force?: boolean }) =>
    deleteValues(cli, await cli.connect(), name, keys, { force: flags.force === true }),
  );
}

async function deleteValues(
  cli: Cli,
  client: Client,
  name: string,
  keys: readonly string[],
  force: { readonly force: boolean },
): Promise<void> {
  const present = (await client.secrets.get(name)).keys;
  const missing = keys.filter((key) => !present.includes(key));
  if (missing.length > 0)
    throw new UsageError(
      `secret/${name} has no key ${missing.join(", ")}`,
      `its keys: ${present.join(", ")}`,
    );
  await client.secrets.patch(
    name,
    { data: Object.fromEntries(keys.map((key) => [key, null])) },
    force,
  );
  await cli.print(`secret/${name}: ${keys.join(", ")} deleted`);
}
