import { getServiceName, STACK_LABEL } from "../../resources/stack.ts";
import type { AppDataView, AppDetails, RevisionView } from "../../resources/wire/apps.ts";
import { getStatusColour } from "../colours.ts";
import { formatAge, formatTime } from "../format-time.ts";
import {
  formatFields,
  formatSection,
  formatShortValue,
  getInnerWidth,
  type ViewOptions,
} from "../output/format-sections.ts";
import { formatTable } from "../output/table.ts";
import { toYaml } from "../output/yaml.ts";
import { formatShortBuild } from "./builds.ts";
import { formatConditionsSection, formatGeneration } from "./conditions.ts";
import { formatEventsSection } from "./events.ts";

export function describeApp(
  app: AppDetails,
  revisions: readonly RevisionView[],
  options: ViewOptions,
): string {
  const { colours, nowMs } = options;
  const parts = [
    formatFields([
      ["Name", colours.bold(app.name)],
      ["Stack", app.stack ?? undefined],
      [
        "Status",
        `${getStatusColour(colours, app.status)(app.status)}${app.ready ? ", ready" : ""}`,
      ],
      ["Message", app.message],
      ["URL", app.url ?? "none"],
      [
        "Domains",
        app.domains.length > 0 ? app.domains : "none: only other apps can reach this app",
      ],
      ["Address", formatAddress(app)],
      ["Source", app.source ?? undefined],
      ["Last build", app.build === null ? undefined : formatShortBuild(app.build, nowMs)],
      ["Image", app.image || "(to be built)"],
      ["Data", app.data.length === 0 ? undefined : app.data.map(formatData)],
      ["Generation", formatGeneration(app.generation, app.observed_generation)],
      ["Managed by", app.managed_by],
      [
        "Labels",
        Object.entries(app.labels)
          .filter(([key]) => key !== STACK_LABEL)
          .map(([key, value]) => `${key}=${value}`),
      ],
      ["Created", formatTime(app.created_at, nowMs)],
      [
        "Restarts",
        app.restarts > 0
          ? `${app.restarts} in the current interval of the restart budget`
          : undefined,
      ],
      [
        "Next attempt",
        app.next_retry_at === null ? undefined : formatTime(app.next_retry_at, nowMs),
      ],
    ]),
    formatSection("Spec:", toYaml(app.spec), options),
    formatConditionsSection(app.conditions, "app", options),
    formatSection("Containers:", containersText(app, options), options),
  ];
  if (revisions.length > 0)
    parts.push(formatSection("Revisions:", revisionsText(revisions, options), options));
  parts.push(formatEventsSection(app.events, options));
  return parts.join("\n\n");
}

/** Formats the addresses at which other apps reach the app; undefined for an app without a port. */
function formatAddress({ name, stack, port }: AppDetails): string | undefined {
  if (port === null) return undefined;
  const all = `${name}:${port}, for other apps`;
  return stack === null ? all : `${getServiceName(name, stack)}:${port} in the stack, ${all}`;
}

/** Formats a volume or folder with its owner, and the other apps that use it. */
function formatData({ type, name, paths, stack, used_by: others }: AppDataView): string {
  const owner = stack === null ? "" : `, of stack/${stack}`;
  const users = others.length === 0 ? "" : `, also used by ${others.join(", ")}`;
  return `${type} ${name} at ${paths.join(", ")}${owner}${users}`;
}

function containersText(app: AppDetails, options: ViewOptions): string {
  if (app.containers.length === 0) return "none";
  return formatTable(
    app.containers,
    [
      { header: "NAME", value: (row) => row.name, canShrink: true },
      { header: "ROLE", value: (row) => row.role, dropOrder: 4 },
      {
        header: "STATE",
        value: (row) =>
          row.exit_code === null ? row.state : `${row.state} (exit code ${row.exit_code})`,
        colour: (text, row) => getStatusColour(options.colours, row.state)(text),
      },
      {
        header: "HEALTHY",
        value: (row) => (row.healthy === null ? "" : row.healthy ? "yes" : "no"),
      },
      { header: "GENERATION", value: (row) => String(row.generation), dropOrder: 1 },
      { header: "ADDRESS", value: (row) => row.address ?? "", dropOrder: 3 },
      { header: "STARTED", value: (row) => formatAge(row.started_at, options.nowMs), dropOrder: 2 },
    ],
    { width: getInnerWidth(options) },
  );
}

function revisionsText(revisions: readonly RevisionView[], options: ViewOptions): string {
  return formatTable(
    revisions,
    [
      { header: "REVISION", value: (row) => `${row.number}${row.current ? " (current)" : ""}` },
      {
        header: "STATE",
        value: (row) => row.state,
        colour: (text, row) => getStatusColour(options.colours, row.state)(text),
      },
      { header: "IMAGE", value: (row) => row.image ?? "", canShrink: true, dropOrder: 4 },
      { header: "COMMIT", value: (row) => row.source_revision?.slice(0, 12) ?? "", dropOrder: 1 },
      {
        header: "BUILD",
        value: (row) => (row.build_id === null ? "" : String(row.build_id)),
        dropOrder: 2,
      },
      { header: "AGE", value: (row) => formatAge(row.created_at, options.nowMs), dropOrder: 5 },
      { header: "BY", value: (row) => row.actor, dropOrder: 3 },
      { header: "MESSAGE", value: (row) => formatShortValue(row.message ?? ""), canShrink: true },
    ],
    { width: getInnerWidth(options) },
  );
}
