import { formatBytes } from "../../base/units.ts";
import type { BuildList, BuildView } from "../../resources/wire/builds.ts";
import { formatAge, formatDurationMs, formatTime } from "../age.ts";
import { type Colors, colourOfStatus } from "../colours.ts";
import { type Listing, listing } from "../output/print.ts";
import { fields, type Look, section, shortValue } from "../output/sections.ts";

export function buildListing(
  app: string,
  { builds, total }: BuildList,
  colours: Colors,
  nowMs: number,
): Listing {
  return listing<BuildView>({
    rows: builds,
    columns: [
      { header: "BUILD", value: (build) => String(build.id) },
      {
        header: "STATE",
        value: (build) => build.state,
        colour: (text, build) => colourOfStatus(colours, build.state)(text),
      },
      { header: "REVISION", value: (build) => build.revision.slice(0, 12) },
      { header: "SOURCE", value: (build) => build.source, shrinks: true },
      { header: "TOOK", value: (build) => durationOf(build), volatile: true },
      { header: "AGE", value: (build) => formatAge(build.created_at, nowMs), volatile: true },
      { header: "MESSAGE", value: (build) => shortValue(build.message ?? ""), shrinks: true },
    ],
    wideColumns: [
      { header: "IMAGE", value: (build) => build.image, shrinks: true },
      { header: "SIZE", value: (build) => sizeOf(build) ?? "" },
      { header: "GENERATION", value: (build) => String(build.generation) },
    ],
    name: (build) => String(build.id),
    document: { builds, total },
    empty: `app "${app}" has no builds yet`,
  });
}

export function describeBuild(build: BuildView, look: Look): string {
  const { colours, nowMs } = look;
  const head = fields([
    ["Build", colours.bold(String(build.id))],
    ["App", build.app],
    ["State", colourOfStatus(colours, build.state)(build.state)],
    ["Source", build.source],
    ["Revision", build.revision],
    ["Image", build.image],
    ["Size", sizeOf(build)],
    ["Generation", String(build.generation)],
    ["Created", formatTime(build.created_at, nowMs)],
    ["Took", durationOf(build)],
  ]);
  return build.message === null ? head : `${head}\n\n${section("Message:", build.message, look)}`;
}

/** `12 succeeded, 5m ago, at 0123456789ab` */
export function shortBuild(build: BuildView, nowMs: number): string {
  const revision = build.revision.slice(0, 12);
  return `${build.id} ${build.state}, ${formatAge(build.created_at, nowMs)} ago, at ${revision}`;
}

function durationOf({ started_at, finished_at }: BuildView): string {
  if (started_at === null || finished_at === null) return "";
  return formatDurationMs(Date.parse(finished_at) - Date.parse(started_at));
}

function sizeOf({ image_bytes }: BuildView): string | undefined {
  return image_bytes === null ? undefined : formatBytes(image_bytes);
}
