import type { EventView } from "../../resources/wire/events.ts";
import type { ResourceView, SecretView, TemplateView } from "../../resources/wire/resources.ts";
import { formatTime } from "../format-time.ts";
import {
  formatFields,
  formatSection,
  formatShortValue,
  getInnerWidth,
  type ViewOptions,
} from "../output/format-sections.ts";
import { formatTable } from "../output/table.ts";
import { formatEventsSection } from "./events.ts";

export const describeOther = { secret: describeSecret, template: describeTemplate };

function describeSecret(
  item: SecretView,
  apps: readonly ResourceView[],
  events: readonly EventView[],
  options: ViewOptions,
): string {
  const users = apps
    .filter((app) => JSON.stringify(app.spec).includes(`"secret":${JSON.stringify(item.name)}`))
    .map((app) => `app/${app.metadata.name}`);
  return [
    formatFields([
      ["Name", options.colours.bold(item.name)],
      ["Type", item.type],
      ["Keys", item.keys.length === 0 ? "none" : item.keys],
      ["Used by", users.length === 0 ? "no app" : users],
      ["Managed by", item.managed_by],
      ["Generation", String(item.generation)],
      ["Created", formatTime(item.created_at, options.nowMs)],
    ]),
    formatEventsSection(events, options),
  ].join("\n\n");
}

function describeTemplate(
  item: TemplateView,
  events: readonly EventView[],
  options: ViewOptions,
): string {
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
                if (row.default !== undefined) return formatShortValue(row.default);
                if (row.generated) return "random";
                return row.required ? "required" : "";
              },
            },
            { header: "SECRET", value: (row) => (row.secret ? "yes" : "no") },
            { header: "DESCRIPTION", value: (row) => row.description, canShrink: true },
          ],
          { width: getInnerWidth(options) },
        );
  return [
    formatFields([
      ["ID", options.colours.bold(item.id)],
      ["Name", item.name],
      ["Category", item.category],
      ["Description", formatShortValue(item.description)],
      ["Website", item.website ?? undefined],
      ["Image", item.image],
      ["Port", item.port === null ? undefined : String(item.port)],
      ["Also creates", item.companions.map((suffix) => `NAME-${suffix}`)],
    ]),
    formatSection("Parameters:", parameters, options),
    formatSection("Create an app from it:", formatCreateCommand(item), options),
    ...(events.length === 0 ? [] : [formatEventsSection(events, options)]),
  ].join("\n\n");
}

function formatCreateCommand(item: TemplateView): string {
  const required = item.parameters
    .filter((parameter) => parameter.required && parameter.default === undefined)
    .map((parameter) => ` -p ${parameter.name}=...`);
  return `berth create NAME --template ${item.id}${required.join("")}`;
}
