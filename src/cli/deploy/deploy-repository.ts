import type { GitDeploy } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { parseVariables } from "../key-value-pairs.ts";
import type { DeployFlags } from "./deploy-flags.ts";
import { appNameFromRepository } from "./derive-app-name.ts";
import { finishDeploy, readBaseline } from "./finish-deploy.ts";

/** Makes the server build an app from a repository. The app may exist already or be new. */
export async function deployRepository(
  cli: Cli,
  named: string | undefined,
  flags: DeployFlags,
): Promise<void> {
  const url = flags.git ?? "";
  const name = named ?? appNameFromRepository(url);
  const git: GitDeploy = {
    url,
    ...(flags.ref === undefined ? {} : { ref: flags.ref }),
    ...(flags.path === undefined ? {} : { path: flags.path }),
    ...(flags.credential === undefined ? {} : { credential: flags.credential }),
  };
  const fields = {
    ...(flags.domain === undefined ? {} : { domain: flags.domain }),
    ...(flags.env === undefined ? {} : { env: parseVariables(flags.env) }),
  };
  const client = await cli.connect();
  const baseline = await readBaseline(client, name);
  const options = { dryRun: flags.dryRun === true, force: flags.force === true };
  if (baseline.app === undefined) {
    if (flags.port === undefined)
      throw new UsageError(
        `app "${name}" is new, and its port is not known`,
        `name the port on which it listens: berth deploy ${name} --git ${url} --port PORT, or --no-port for a worker`,
      );
    const port = flags.port === false ? {} : { port: flags.port };
    const body = { name, ...port, ...fields, source: { git } };
    return finishDeploy(
      cli,
      client,
      name,
      await client.apps.create(body, options),
      baseline,
      flags,
    );
  }
  const port = flags.port === undefined ? {} : { port: flags.port === false ? null : flags.port };
  const changed = { ...port, ...fields };
  if (Object.keys(changed).length > 0 && !options.dryRun)
    await client.apps.patch(name, changed, options);
  const write = await client.apps.deploy(name, { git }, options);
  return finishDeploy(cli, client, name, write, baseline, flags);
}
