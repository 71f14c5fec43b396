import { BerthError } from "../base/errors.ts";
import type { AppDetails, CreateAppBody, GitDeploy } from "../resources/wire/apps.ts";
import { changeApp, createChangeOutput, findApp, waitForProgress } from "./app-change.ts";
import { requireWrittenApp } from "./run-app-tools.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";

/** The arguments of `deploy_app`, as its schema declares them. */
interface DeployArguments {
  readonly name: string;
  readonly image?: string;
  readonly git?: GitDeploy;
  readonly template?: string;
  readonly port?: number;
  readonly domain?: string;
  readonly env?: Record<string, string>;
}

export async function deployAppTool(
  args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the tool's schema has been checked
  const deployArguments = args as unknown as DeployArguments;
  const { name } = deployArguments;
  const before = await findApp(name, context);
  assertDeployArguments(deployArguments, before);
  const { undoId, app } = await changeApp(name, before, context, () =>
    before === null
      ? createApp(deployArguments, context)
      : deployExistingApp(deployArguments, context),
  );
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, before === null ? "created" : "deployed", progress, {
    undo_id: undoId,
    created: before === null,
    changed: app.generation !== before?.generation,
  });
}

export async function rollBackAppTool(
  args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  const name = String(args["name"]);
  const { revision } = args;
  const before = await context.client.apps.get(name, context.signal);
  const { undoId, app } = await changeApp(name, before, context, async () => ({
    app: requireWrittenApp(
      await context.client.apps.rollback(
        name,
        typeof revision === "number" ? revision : undefined,
        context,
      ),
    ),
  }));
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, "rolled back", progress, {
    undo_id: undoId,
    from_revision: before.revisions.attempted,
    changed: app.generation !== before.generation,
  });
}

/**
 * Throws BerthError for arguments that the schema cannot exclude: wrong combinations, and settings of an app that
 * already exists.
 */
function assertDeployArguments(deployArguments: DeployArguments, before: AppDetails | null): void {
  const { name, image, git, template, port, domain, env } = deployArguments;
  const sources = [image, git, template].filter((source) => source !== undefined).length;
  const settings = Object.entries({ port, domain, env }).filter(([, value]) => value !== undefined);
  const named = settings.map(([key]) => key).join(", ");
  if (sources > 1) throw invalidRequestError("set only one of image, git and template");
  if (before !== null && template !== undefined)
    throw invalidRequestError(
      `app "${name}" already exists: a template creates a new app, so choose another name`,
    );
  if (before !== null && named !== "")
    throw invalidRequestError(
      `app "${name}" already exists, and keeps its settings: omit ${named}`,
    );
  if (before === null && sources === 0)
    throw invalidRequestError(
      `there is no app "${name}": give image, git or template to create it`,
    );
  if (template !== undefined && named !== "")
    throw invalidRequestError(`the template determines the settings: omit ${named}`);
}

async function createApp(
  { name, image, git, template, port, domain, env }: DeployArguments,
  { client, signal }: ToolContext,
) {
  if (template !== undefined) {
    const app = requireWrittenApp(
      await client.apps.fromTemplate({ template_id: template, name }, { signal }),
    );
    const others = (app.created ?? []).filter(
      ({ kind, name: its }) => kind !== "App" || its !== name,
    );
    return { app, created: others };
  }
  const body: CreateAppBody = {
    name,
    ...(image === undefined ? {} : { image }),
    ...(git === undefined ? {} : { source: { git } }),
    ...(port === undefined ? {} : { port }),
    ...(domain === undefined ? {} : { domain }),
    ...(env === undefined ? {} : { env }),
  };
  return { app: requireWrittenApp(await client.apps.create(body, { signal })) };
}

async function deployExistingApp(
  { name, image, git }: DeployArguments,
  { client, signal }: ToolContext,
) {
  const body = { ...(image === undefined ? {} : { image }), ...(git === undefined ? {} : { git }) };
  return { app: requireWrittenApp(await client.apps.deploy(name, body, { signal })) };
}

function invalidRequestError(message: string): BerthError {
  return new BerthError("invalid_request", message);
}
