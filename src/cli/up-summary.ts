import { setTimeout } from "node:timers/promises";
import { type Client, createClient } from "../client/client.ts";
import type { AppItem } from "../resources/wire/apps.ts";
import type { Cli } from "./cli.ts";
import { localToken, type ReadyFile } from "./connect.ts";
import { colourOfStatus } from "./output/colours.ts";
import { fields } from "./output/sections.ts";
import { formatTable } from "./output/table.ts";

const APPS_READY_MS_MAX = 60_000;
const ENGINE_LOOK_MS = 200;
const ENGINE_LOOKS_MAX = 15;
const DOCS_PATH = "/api/docs";

/**
 * What a person wants to know after a start: which apps run and where, how to reach and log in to the
 * server, and what to try. Waits until each app that a file declares is Ready or has failed.
 */
export async function printSummary(
  cli: Cli,
  ready: ReadyFile,
  password: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const client = createClient({ baseUrl: ready.api, token: localToken(ready.data_dir) });
  const { colours } = cli;
  const hasEngine = await engineAnswers(client, signal);
  const specs = await client.specs();
  const declared = [
    ...new Set(
      specs.files
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
  // Failures show in the table, with their reasons.
  await Promise.allSettled(
    (hasEngine ? declared : []).map((name) =>
      client.apps.waitReady(name, { timeoutMs: APPS_READY_MS_MAX, signal }),
    ),
  );
  if (signal.aborted) return;
  const apps = await client.apps.listAll();
  const problems = (await client.specs()).files.flatMap((file) =>
    file.errors.map(
      ({ line, column, message }) => `${specs.folder}/${file.file}:${line}:${column}: ${message}`,
    ),
  );
  await cli.print(
    [
      "",
      colours.bold(`Berth ${ready.version} is up.`),
      "",
      ...(hasEngine ? [] : [colours.red(engineText(ready)), ""]),
      appsText(cli, apps),
      ...(problems.length === 0 ? [] : [colours.red(problems.join("\n")), ""]),
      fields([
        ["API", ready.api],
        ["Try it in a browser", `${ready.api}${DOCS_PATH}`],
        ["Log in", loginText(ready, password, cli)],
        ["Specs folder", ready.specs_dir],
      ]),
      "",
      colours.bold("Try next:"),
      nextSteps(cli, ready, apps),
      "",
      colours.dim("Ctrl-C ends Berth; apps go on."),
    ].join("\n"),
  );
}

/** The server looks for its engine while it starts; that look may still be under way. */
async function engineAnswers(client: Client, signal: AbortSignal): Promise<boolean> {
  for (let look = 0; look < ENGINE_LOOKS_MAX; look += 1) {
    const { runtime } = await client.health(signal);
    if (runtime === "connected") return true;
    await setTimeout(ENGINE_LOOK_MS, undefined, { signal });
  }
  return false;
}

function engineText(ready: ReadyFile): string {
  return `The container engine at ${ready.docker_host} does not answer, so no app can run.\nBerth goes on as soon as it does; \`bin/berth doctor\` tells what is wrong.`;
}

function appsText(cli: Cli, apps: readonly AppItem[]): string {
  if (apps.length === 0)
    return "No apps yet: save a file in the specs folder, and Berth makes what it says.\n";
  const table = formatTable(
    apps,
    [
      { header: "APP", value: (app) => app.name },
      {
        header: "STATUS",
        value: (app) => app.status,
        colour: (text, app) => colourOfStatus(cli.colours, app.status)(text),
      },
      { header: "URL", value: (app) => app.url ?? "" },
      ...(apps.some((app) => !app.ready)
        ? [
            {
              header: "MESSAGE",
              value: (app: AppItem) => (app.ready ? "" : app.message),
              shrinks: true,
            },
          ]
        : []),
    ],
    { width: cli.io.columns },
  );
  return table;
}

function loginText(ready: ReadyFile, password: string | undefined, cli: Cli): string[] {
  const isLocal = /\/\/(127\.|localhost|\[::1\])/.test(ready.api);
  const lines = ["not needed on this machine, for this user"];
  if (password !== undefined)
    lines.push(
      `others: password ${cli.colours.bold(password)} (shown this once; BERTH_PASSWORD sets another)`,
    );
  lines.push(
    isLocal
      ? "from other machines: start with --listen 0.0.0.0:7776, or use an SSH tunnel"
      : `from other machines: berth login ${ready.api}`,
  );
  return lines;
}

function nextSteps(cli: Cli, ready: ReadyFile, apps: readonly AppItem[]): string {
  const app = apps.find(({ ready: isReady, url }) => isReady && url !== null) ?? apps[0];
  const steps = [
    ...(app?.url ? [["see the app answer", `curl ${app.url}`]] : []),
    ["all that runs", "bin/berth get apps"],
    ...(app === undefined ? [] : [["what it writes", `bin/berth logs ${app.name} -f`]]),
    ...(app === undefined ? [] : [["all about it", `bin/berth describe ${app.name}`]]),
    ["change it", `edit a file in ${ready.specs_dir} and save it`],
    ["more apps", "bin/berth templates"],
  ] as const;
  const width = Math.max(...steps.map(([, command]) => command?.length ?? 0));
  return steps
    .map(([meaning, command]) => `  ${cli.colours.cyan((command ?? "").padEnd(width))}  ${meaning}`)
    .join("\n");
}
