import { LOG_LINES_DEFAULT } from "../base/berth-tool-manifest.ts";
import type { AppDetails, AppItem } from "../resources/wire/apps.ts";
import { maskSecretVariables, sanitizeText, sanitizeValue } from "./sanitize-value.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";

const APPS_MAX = 500;
const EVENTS_MAX = 10;
const REVISIONS_MAX = 10;
const LINE_CHARS_MAX = 2_000;
/** Longest log in a result, because a model with a small context reads it. */
const LOG_CHARS_MAX = 64 * 1024;

export async function listAppsTool(
  _args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  const { apps, total } = await context.client.apps.list({
    limit: APPS_MAX,
    signal: context.signal,
  });
  const structured = { apps: apps.map((app) => sanitizeValue(summarizeApp(app))), total };
  return { text: JSON.stringify(structured), structured };
}

function summarizeApp(app: AppItem) {
  const { name, status, ready, url, domains, image, source, port, message, created_at } = app;
  return { name, status, ready, url, domains, image, source, port, message, created_at };
}

export async function describeAppTool(
  args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  const name = String(args["name"]);
  const [app, { revisions }] = await Promise.all([
    context.client.apps.get(name, context.signal),
    context.client.apps.revisions(name, context.signal),
  ]);
  const structured = {
    ...summarizeApp(app),
    generation: app.generation,
    observed_generation: app.observed_generation,
    managed_by: app.managed_by,
    restarts: app.restarts,
    next_retry_at: app.next_retry_at,
    spec: sanitizeSpec(app),
    conditions: app.conditions,
    containers: app.containers,
    revisions: revisions.slice(0, REVISIONS_MAX).map((revision) => ({
      number: revision.number,
      current: revision.current,
      state: revision.state,
      image: revision.image,
      source_revision: revision.source_revision,
      message: revision.message,
      created_at: revision.created_at,
    })),
    build: app.build && { id: app.build.id, state: app.build.state, message: app.build.message },
    events: app.events.slice(0, EVENTS_MAX),
  };
  const shown = Object.fromEntries(
    Object.entries(structured).map(([key, value]) => [key, sanitizeValue(value)]),
  );
  return { text: JSON.stringify(shown), structured: shown };
}

function sanitizeSpec({ spec }: AppDetails): Record<string, unknown> {
  return spec.env === undefined ? { ...spec } : { ...spec, env: maskSecretVariables(spec.env) };
}

export async function appLogsTool(args: ToolArguments, context: ToolContext): Promise<ToolOutput> {
  const name = String(args["name"]);
  const { lines: requestedLines, since } = args;
  const { lines } = await context.client.apps.logs(name, {
    tail: typeof requestedLines === "number" ? requestedLines : LOG_LINES_DEFAULT,
    ...(typeof since === "string" ? { since } : {}),
    signal: context.signal,
  });
  const shown = lines.map(({ time, stream, message }) => ({
    time,
    stream,
    message: sanitizeText(message, LINE_CHARS_MAX),
  }));
  // The newest lines matter most, so the oldest lines are dropped if the log is too long.
  let chars = 0;
  const newest = shown
    .toReversed()
    .filter(({ message }) => (chars += message.length + 1) <= LOG_CHARS_MAX)
    .toReversed();
  const text = newest.map(({ time, message }) => `${time} ${message}`).join("\n");
  return {
    text: text === "" ? `app "${name}" has no log lines` : text,
    structured: { name, lines: newest, left_out: shown.length - newest.length },
  };
}
