import type { AppItem } from "../../resources/wire/apps.ts";
import { formatAge } from "../age.ts";
import { type Colors, colourOfStatus } from "../colours.ts";
import { type Listing, listing } from "../output/print.ts";

/** What a person asks of a list of apps: does it run, where, and if not, why. */
export function appListing(apps: readonly AppItem[], colours: Colors, nowMs: number): Listing {
  return listing<AppItem>({
    rows: apps,
    columns: [
      { header: "NAME", value: (app) => app.name },
      {
        header: "STATUS",
        value: (app) => app.status,
        colour: (text, app) => colourOfStatus(colours, app.status)(text),
      },
      { header: "READY", value: (app) => (app.ready ? "yes" : "no") },
      { header: "IMAGE", value: (app) => app.image, shrinks: true },
      { header: "URL", value: (app) => app.url ?? "" },
      { header: "AGE", value: (app) => formatAge(app.created_at, nowMs), volatile: true },
    ],
    wideColumns: [
      { header: "DOMAINS", value: (app) => app.domains.join(", "), shrinks: true },
      { header: "SOURCE", value: (app) => app.source ?? "", shrinks: true },
      { header: "PORT", value: (app) => (app.port === null ? "" : String(app.port)) },
      {
        header: "GENERATION",
        value: (app) =>
          app.generation === app.observed_generation
            ? String(app.generation)
            : `${app.generation} (seen ${app.observed_generation})`,
      },
      { header: "MANAGED BY", value: (app) => app.managed_by, shrinks: true },
      { header: "MESSAGE", value: (app) => app.message, shrinks: true },
    ],
    name: (app) => `app/${app.name}`,
    document: { apps, total: apps.length },
    empty:
      "no apps yet; make one with `berth apply -f FILE`, `berth create NAME --image IMAGE`, or a file in the specs folder",
  });
}
