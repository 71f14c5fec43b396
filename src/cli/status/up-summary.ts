import { setTimeout } from "node:timers/promises";
import { type Client, createClient } from "../../client/rest/client.ts";
import { loadConfig } from "../../config/config.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { SystemInfo } from "../../resources/wire/system.ts";
import type { Cli } from "../cli.ts";
import { getStatusColour } from "../colours.ts";
import { formatFields } from "../output/format-sections.ts";
import { formatTable } from "../output/table.ts";
import { type ReadyFile, readLocalToken } from "../server-target.ts";
import { formatModelStatus } from "../views/models.ts";
import {
  apiUrlField,
  colourComponent,
  companionField,
  describeAssistant,
  describeIngress,
  describeOtherWriter,
  listSpecProblems,
  readServerFacts,
} from "./server-facts.ts";

const APPS_READY_MS_MAX = 60_000;
/**
 * The time limit for apps to become Ready while the ingress forwards no requests. No app becomes Ready then; the wait
 * only lets other errors of the apps appear.
 */
const UNROUTED_READY_MS_MAX = 3_000;
const POLL_MS = 200;
const ENGINE_POLLS_MAX = 15;
/**
 * The maximum number of polls until Caddy runs. Caddy starts in half a second, or within seconds in a container on a
 * busy machine.
 */
const INGRESS_POLLS_MAX = 25;
/**
 * The maximum number of polls for the daemons of the assistant. The assistant opens its ledger before it answers, which
 * takes long if the ledger is long.
 */
const DAEMON_POLLS_MAX = 25;
const DOCS_PATH = "/api/docs";

/**
 * Prints the apps and their URLs, how to reach and log in to the server, and commands to try. Waits first until
 * each app that a spec file declares is Ready or has failed.
 */
export async function printUpSummary(
  cli: Cli,
  ready: ReadyFile,
  password: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const client = createClient({ baseUrl: ready.api, token: readLocalToken(ready.data_dir) });
  const { colours } = cli;
  const hasEngine = await waitForEngine(client, signal);
  const hasRoutes = isRouting(await waitForInfo(client, isRouting, INGRESS_POLLS_MAX, signal));
  const declared = [
    ...new Set(
      (await client.specs()).files
        .flatMap((file) => file.resources)
        .filter(({ kind }) => kind === "App")
        .map(({ name }) => name),
    ),
  ];
  if (hasEngine && declared.length > 0 && cli.io.outputIsTerminal)
    await cli.print(
      colours.dim(
        `waiting for ${declared.length === 1 ? declared[0] : `${declared.length} apps`} ...`,
      ),
    );
  // Failures are not reported here, because the table below shows which apps have failed, and why.
  await Promise.allSettled(
    (hasEngine ? declared : []).map((name) =>
      client.apps.waitReady(name, {
        timeoutMs: hasRoutes ? APPS_READY_MS_MAX : UNROUTED_READY_MS_MAX,
        signal,
      }),
    ),
  );
  if (signal.aborted) return;
  await waitForInfo(client, haveDaemonsStarted, DAEMON_POLLS_MAX, signal);
  const { info, specs, apps, models: allModels } = await readServerFacts(client);
  const problems = listSpecProblems(specs);
  const tlsUrl = findTlsUrl(ready);
  const otherWriter = describeOtherWriter(info.engine);
  const models = allModels.filter(({ origin }) => origin !== "catalog");
  await cli.print(
    [
      "",
      colours.bold(`Berth ${ready.version} is running.`),
      "",
      ...(hasEngine ? [] : [colours.red(engineText(ready)), ""]),
      ...(otherWriter === null ? [] : [colours.red(otherWriter), ""]),
      appsText(cli, apps),
      modelsText(cli, models),
      ...(problems.length === 0 ? [] : [colours.red(problems.join("\n")), ""]),
      formatFields([
        [
          "API",
          tlsUrl === undefined ? ready.api : `${tlsUrl}; from this machine also ${ready.api}`,
        ],
        ["Try it in a browser", `${tlsUrl ?? ready.api}${DOCS_PATH}`],
        ["Ingress", colourComponent(describeIngress(info.ingress), colours)],
        ...apiUrlField(info.ingress, colours),
        ["Models at", colourComponent(describeAssistant(info.assistant), colours)],
        ...companionField(info.companion, colours),
        ["Log in", loginText(ready, password, cli)],
        ["Specs folder", ready.specs_dir],
      ]),
      "",
      colours.bold("Try next:"),
      nextSteps(cli, ready, apps, models),
      "",
      colours.dim("Press Ctrl-C to stop Berth; apps keep running."),
    ].join("\n"),
  );
}

/** Waits until the server is connected to its engine; returns false if that takes too long. */
async function waitForEngine(client: Client, signal: AbortSignal): Promise<boolean> {
  for (let poll = 0; poll < ENGINE_POLLS_MAX; poll += 1) {
    const { runtime } = await client.health(signal);
    if (runtime === "connected") return true;
    await setTimeout(POLL_MS, undefined, { signal });
  }
  return false;
}

/**
 * Reads the state of the server until `isSettled` returns true for it, at most `pollsMax` times; returns the last state
 * read.
 */
async function waitForInfo(
  client: Client,
  isSettled: (info: SystemInfo) => boolean,
  pollsMax: number,
  signal: AbortSignal,
): Promise<SystemInfo> {
  for (let poll = 1; ; poll += 1) {
    const info = await client.system.info();
    if (isSettled(info) || poll === pollsMax) return info;
    await setTimeout(POLL_MS, undefined, { signal });
  }
}

/** True if the ingress forwards requests, or no ingress is wanted. */
function isRouting({ ingress }: SystemInfo): boolean {
  return ingress.ready || ingress.mode === "off";
}

/**
 * Returns true once assistant and companion have started or cannot start; the companion is started after the assistant.
 */
function haveDaemonsStarted({ assistant, companion }: SystemInfo): boolean {
  return (
    assistant.state !== "starting" && (assistant.url === null || companion.state !== "starting")
  );
}

function modelsText(cli: Cli, models: readonly ModelView[]): string {
  if (models.length === 0)
    return "No models yet: `bin/berth models ls --all` lists the catalog, `bin/berth models pull ORG/NAME` downloads one.\n";
  return formatTable(
    models,
    [
      { header: "MODEL", value: ({ name }) => name },
      {
        header: "STATUS",
        value: (model) => formatModelStatus(model),
        colour: (text, { status }) => getStatusColour(cli.colours, status)(text),
      },
      { header: "ID", value: ({ id, name }) => (id === name ? "" : id), canShrink: true },
      ...(models.some(({ error }) => error !== null)
        ? [{ header: "MESSAGE", value: (model: ModelView) => model.error ?? "", canShrink: true }]
        : []),
    ],
    { width: cli.io.columns },
  );
}

function engineText(ready: ReadyFile): string {
  return `The container engine at ${ready.docker_host} does not answer, so no app can run.\nBerth continues as soon as it answers; \`bin/berth doctor\` shows what is wrong.`;
}

function appsText(cli: Cli, apps: readonly AppItem[]): string {
  if (apps.length === 0)
    return "No apps yet: save a spec file in the specs folder, and Berth creates what it declares.\n";
  const table = formatTable(
    apps,
    [
      { header: "APP", value: (app) => app.name },
      {
        header: "STATUS",
        value: (app) => app.status,
        colour: (text, app) => getStatusColour(cli.colours, app.status)(text),
      },
      { header: "URL", value: (app) => app.url ?? "" },
      ...(apps.some((app) => !app.ready)
        ? [
            {
              header: "MESSAGE",
              value: (app: AppItem) => (app.ready ? "" : app.message),
              canShrink: true,
            },
          ]
        : []),
    ],
    { width: cli.io.columns },
  );
  return table;
}

/**
 * Returns `api_url` if it is the HTTPS address of the API's own port. Returns undefined if `api_url` is absent or is
 * the address at the ingress.
 */
function findTlsUrl({ api, api_url: url }: ReadyFile): string | undefined {
  return url === api.replace(/^http:/, "https:") ? url : undefined;
}

function loginText(ready: ReadyFile, password: string | undefined, cli: Cli): string[] {
  const isLocal = /\/\/(127\.|localhost|\[::1\])/.test(ready.api);
  const url = ready.api_url ?? (isLocal ? undefined : ready.api);
  const lines = ["not needed for this user on this machine"];
  if (password !== undefined)
    lines.push(
      `others: password ${cli.colours.bold(password)} (shown only this once; BERTH_PASSWORD sets another)`,
    );
  lines.push(
    url === undefined
      ? "from other machines: start with --api-domain NAME, or use an SSH tunnel"
      : `from other machines: berth login ${url}`,
  );
  return lines;
}

/**
 * Returns the command that exports the data directory as a variable, if the server was started with --data-dir: the
 * command line finds a server through the environment.
 */
function dataDirStep({ io }: Cli, { data_dir: dataDir }: ReadyFile): [string, string][] {
  const { environment, workingDirectory } = io;
  const defaultDataDir = loadConfig({ flags: {}, environment, workingDirectory }).dataDir;
  return dataDir === defaultDataDir
    ? []
    : [["in other terminals, so that they find this server", `export BERTH_DATA_DIR=${dataDir}`]];
}

function nextSteps(
  cli: Cli,
  ready: ReadyFile,
  apps: readonly AppItem[],
  models: readonly ModelView[],
): string {
  const app = apps.find(({ ready: isReady, url }) => isReady && url !== null) ?? apps[0];
  const steps = [
    ...dataDirStep(cli, ready),
    ...(app?.url ? [["send the app a request", `curl ${app.url}`]] : []),
    ["list all apps", "bin/berth get apps"],
    ...(app === undefined ? [] : [["follow its log", `bin/berth logs ${app.name} -f`]]),
    ...(app === undefined ? [] : [["show its details", `bin/berth describe ${app.name}`]]),
    ["change it", `edit a file in ${ready.specs_dir} and save it`],
    ["build a folder and deploy it", "bin/berth deploy examples/hello --name page"],
    ["list app templates", "bin/berth templates"],
    modelStep(models),
  ] as const;
  const width = Math.max(...steps.map(([, command]) => command?.length ?? 0));
  return steps
    .map(([meaning, command]) => `  ${cli.colours.cyan((command ?? "").padEnd(width))}  ${meaning}`)
    .join("\n");
}

function modelStep(models: readonly ModelView[]): [string, string] {
  const chatModels = models.filter(({ kind }) => kind !== "embedding");
  const running = chatModels.find(({ running: isRunning }) => isRunning);
  if (running !== undefined) return ["chat with a model", `bin/berth chat ${running.name}`];
  const loadable = chatModels.find(({ status }) => status === "ready");
  if (loadable !== undefined) return ["load a model", `bin/berth models start ${loadable.name}`];
  return ["list available models", "bin/berth models ls --all"];
}
