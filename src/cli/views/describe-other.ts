import type { EventView } from "../../resources/wire/events.ts";
import type { ResourceView, SecretView, TemplateView } from "../../resources/wire/resources.ts";
import { formatTime } from "../age.ts";
import { fields, type Look, section, shortValue } from "../output/sections.ts";
import { formatTable } from "../output/table.ts";
import { eventColumns } from "./events.ts";

export const describeOther = { secret, template };

function secret(
  item: SecretView,
  apps: readonly ResourceView[],
  events: readonly EventView[],
  look: Look,
): string {
  const users = apps
    .filter((app) => JSON.stringify(app.spec).includes(`"secret":${JSON.stringify(item.name)}`))
    .map((app) => `app/${app.metadata.name}`);
  return [
    fields([
      ["Name", look.colours.bold(item.name)],
      ["Type", item.type],
      ["Keys", item.keys.length === 0 ? "none" : item.keys],
      ["Used by", users.length === 0 ? "no app" : users],
      ["Managed by", item.managed_by],
      ["Generation", String(item.generation)],
      ["Created", formatTime(item.created_at, look.nowMs)],
    ]),
    eventsSection(events, look),
  ].join("\n\n");
}

function template(item: TemplateView, events: readonly EventView[], look: Look): string {
  const parameters =
    item.parameters.length === 0
      ? "none"
      : formatTable(
          item.parameters,
          [
            { header: "NAME", value: (row) => row.name },
            {
              header: "VALUE",
              value: (row) => {
                if (row.default !== undefined) return shortValue(row.default);
                if (row.generated) return "made at random";
                return row.required ? "required" : "";
              },
            },
            { header: "SECRET", value: (row) => (row.secret ? "yes" : "no") },
            { header: "DESCRIPTION", value: (row) => row.description, shrinks: true },
          ],
          { width: look.width === undefined ? undefined : look.width - 2 },
        );
  return [
    fields([
      ["ID", look.colours.bold(item.id)],
      ["Name", item.name],
      ["Category", item.category],
      ["Description", shortValue(item.description)],
      ["Website", item.website ?? undefined],
      ["Image", item.image],
      ["Port", item.port === null ? undefined : String(item.port)],
      ["Also makes", item.companions.map((suffix) => `NAME-${suffix}`)],
    ]),
    section("Parameters:", parameters, look),
    section("Make an app of it:", createLine(item), look),
    ...(events.length === 0 ? [] : [eventsSection(events, look)]),
  ].join("\n\n");
}

function createLine(item: TemplateView): string {
  const required = item.parameters
    .filter((parameter) => parameter.required && parameter.default === undefined)
    .map((parameter) => ` -p ${parameter.name}=...`);
  return `berth create NAME --template ${item.id}${required.join("")}`;
}

export function eventsSection(events: readonly EventView[], look: Look): string {
  const body =
    events.length === 0
      ? "none"
      : formatTable([...events].toReversed(), eventColumns(look.colours, look.nowMs, false), {
          width: look.width === undefined ? undefined : look.width - 2,
        });
  return section("Events:", body, look);
}
