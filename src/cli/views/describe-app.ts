import type { AppDetails, RevisionView } from "../../resources/wire/apps.ts";
import { formatAge, formatTime } from "../age.ts";
import { colourOfStatus } from "../colours.ts";
import { fields, type Look, section, shortValue } from "../output/sections.ts";
import { formatTable } from "../output/table.ts";
import { toYaml } from "../output/yaml.ts";
import { shortBuild } from "./builds.ts";
import { conditionColumns } from "./conditions.ts";
import { eventColumns } from "./events.ts";

export function describeApp(
  app: AppDetails,
  revisions: readonly RevisionView[],
  look: Look,
): string {
  const { colours, nowMs } = look;
  const parts = [
    fields([
      ["Name", colours.bold(app.name)],
      ["Status", `${colourOfStatus(colours, app.status)(app.status)}${app.ready ? ", ready" : ""}`],
      ["Message", app.message],
      ["URL", app.url ?? "none"],
      ["Domains", app.domains],
      ["Source", app.source ?? undefined],
      ["Last build", app.build === null ? undefined : shortBuild(app.build, nowMs)],
      ["Image", app.image || "(to be built)"],
      ["Generation", generationText(app)],
      ["Managed by", app.managed_by],
      ["Labels", Object.entries(app.labels).map(([key, value]) => `${key}=${value}`)],
      ["Created", formatTime(app.created_at, nowMs)],
      ["Restarts", app.restarts > 0 ? `${app.restarts} of the running restart budget` : undefined],
      ["Next try", app.next_retry_at === null ? undefined : formatTime(app.next_retry_at, nowMs)],
    ]),
    section("Spec:", toYaml(app.spec), look),
    section(
      "Conditions:",
      app.conditions.length === 0
        ? "none yet: no controller has looked at the app"
        : formatTable(app.conditions, conditionColumns(look), { width: inner(look) }),
      look,
    ),
    section("Containers:", containersText(app, look), look),
  ];
  if (revisions.length > 0) parts.push(section("Revisions:", revisionsText(revisions, look), look));
  parts.push(
    section(
      "Events:",
      app.events.length === 0
        ? "none"
        : formatTable([...app.events].toReversed(), eventColumns(colours, nowMs, false), {
            width: inner(look),
          }),
      look,
    ),
  );
  return parts.join("\n\n");
}

const inner = (look: Look) => (look.width === undefined ? undefined : look.width - 2);

function generationText(app: AppDetails): string {
  return app.generation === app.observed_generation
    ? String(app.generation)
    : `${app.generation}, of which the controller has seen ${app.observed_generation}`;
}

function containersText(app: AppDetails, look: Look): string {
  if (app.containers.length === 0) return "none";
  return formatTable(
    app.containers,
    [
      { header: "NAME", value: (row) => row.name, shrinks: true },
      { header: "ROLE", value: (row) => row.role },
      {
        header: "STATE",
        value: (row) =>
          row.exit_code === null ? row.state : `${row.state} (exit code ${row.exit_code})`,
        colour: (text, row) => colourOfStatus(look.colours, row.state)(text),
      },
      {
        header: "HEALTHY",
        value: (row) => (row.healthy === null ? "" : row.healthy ? "yes" : "no"),
      },
      { header: "GENERATION", value: (row) => String(row.generation) },
      { header: "ADDRESS", value: (row) => row.address ?? "" },
      { header: "STARTED", value: (row) => formatAge(row.started_at, look.nowMs) },
    ],
    { width: inner(look) },
  );
}

function revisionsText(revisions: readonly RevisionView[], look: Look): string {
  return formatTable(
    revisions,
    [
      { header: "REVISION", value: (row) => `${row.number}${row.current ? " (current)" : ""}` },
      {
        header: "STATE",
        value: (row) => row.state,
        colour: (text, row) => colourOfStatus(look.colours, row.state)(text),
      },
      { header: "IMAGE", value: (row) => row.image ?? "", shrinks: true },
      { header: "COMMIT", value: (row) => row.source_revision?.slice(0, 12) ?? "" },
      { header: "BUILD", value: (row) => (row.build_id === null ? "" : String(row.build_id)) },
      { header: "AGE", value: (row) => formatAge(row.created_at, look.nowMs) },
      { header: "BY", value: (row) => row.actor },
      { header: "MESSAGE", value: (row) => shortValue(row.message ?? ""), shrinks: true },
    ],
    { width: inner(look) },
  );
}
