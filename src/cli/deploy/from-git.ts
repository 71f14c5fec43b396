import type { GitDeploy } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { variablesOf } from "../pairs.ts";
import { nameOfRepository } from "./app-names.ts";
import { finishDeploy, lookBefore } from "./finish.ts";
import type { DeployFlags } from "./flags.ts";

/** Has the server build from a repository: of an app that is there, or of a new one. */
export async function deployRepository(
  cli: Cli,
  named: string | undefined,
  flags: DeployFlags,
): Promise<void> {
  const url = flags.git ?? "";
  const name = named ?? nameOfRepository(url);
  const git: GitDeploy = {
    url,
    ...(flags.ref === undefined ? {} : { ref: flags.ref }),
    ...(flags.path === undefined ? {} : { path: flags.path }),
    ...(flags.credential === undefined ? {} : { credential: flags.credential }),
  };
  const fields = {
    ...(flags.port === undefined ? {} : { port: flags.port }),
    ...(flags.domain === undefined ? {} : { domain: flags.domain }),
    ...(flags.env === undefined ? {} : { env: variablesOf(flags.env) }),
  };
  const client = await cli.connect();
  const before = await lookBefore(client, name);
  const options = { dryRun: flags.dryRun === true, force: flags.force === true };
  if (before.app === undefined) {
    if (flags.port === undefined)
      throw new UsageError(
        `app "${name}" is new, and its port is not known`,
        `say on which port it listens: berth deploy ${name} --git ${url} --port PORT`,
      );
    const body = { name, ...fields, source: { git } };
    return finishDeploy(cli, client, name, await client.apps.create(body, options), before, flags);
  }
  if (Object.keys(fields).length > 0 && !options.dryRun)
    await client.apps.patch(name, fields, options);
  const write = await client.apps.deploy(name, { git }, options);
  return finishDeploy(cli, client, name, write, before, flags);
}
