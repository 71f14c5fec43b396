import type { AppItem } from "../../resources/wire/apps.ts";
import { type Colors, getStatusColour } from "../colours.ts";
import { formatAge } from "../format-time.ts";
import { createListing, type Listing } from "../output/print.ts";

export function createAppListing(
  apps: readonly AppItem[],
  colours: Colors,
  nowMs: number,
): Listing {
  return createListing<AppItem>({
    rows: apps,
    columns: [
      { header: "NAME", value: (app) => app.name },
      {
        header: "STATUS",
        value: (app) => app.status,
        colour: (text, app) => getStatusColour(colours, app.status)(text),
      },
      { header: "READY", value: (app) => (app.ready ? "yes" : "no") },
      { header: "IMAGE", value: (app) => app.image, canShrink: true, dropOrder: 1 },
      { header: "URL", value: (app) => app.url ?? "", dropOrder: 3 },
      {
        header: "AGE",
        value: (app) => formatAge(app.created_at, nowMs),
        isVolatile: true,
        dropOrder: 2,
      },
    ],
    wideColumns: [
      { header: "STACK", value: (app) => app.stack ?? "" },
      { header: "DOMAINS", value: (app) => app.domains.join(", "), canShrink: true },
      { header: "SOURCE", value: (app) => app.source ?? "", canShrink: true },
      { header: "PORT", value: (app) => (app.port === null ? "" : String(app.port)) },
      {
        header: "GENERATION",
        value: (app) =>
          app.generation === app.observed_generation
            ? String(app.generation)
            : `${app.generation} (observed ${app.observed_generation})`,
      },
      { header: "MANAGED BY", value: (app) => app.managed_by, canShrink: true },
      { header: "MESSAGE", value: (app) => app.message, canShrink: true },
    ],
    name: (app) => `app/${app.name}`,
    document: { apps, total: apps.length },
    empty:
      "no apps yet; create one with `berth apply -f FILE`, `berth create NAME --image IMAGE`, or a file in the specs folder",
  });
}
