import { formatBytes } from "../../base/units.ts";
import type { BuildList, BuildView } from "../../resources/wire/builds.ts";
import { type Colors, getStatusColour } from "../colours.ts";
import { formatAge, formatDurationMs, formatTime } from "../format-time.ts";
import {
  formatFields,
  formatSection,
  formatShortValue,
  type ViewOptions,
} from "../output/format-sections.ts";
import { createListing, type Listing } from "../output/print.ts";

export function createBuildListing(
  app: string,
  { builds, total }: BuildList,
  colours: Colors,
  nowMs: number,
): Listing {
  return createListing<BuildView>({
    rows: builds,
    columns: [
      { header: "BUILD", value: (build) => String(build.id) },
      {
        header: "STATE",
        value: (build) => build.state,
        colour: (text, build) => getStatusColour(colours, build.state)(text),
      },
      { header: "REVISION", value: (build) => build.revision.slice(0, 12), dropOrder: 3 },
      { header: "SOURCE", value: (build) => build.source, canShrink: true, dropOrder: 4 },
      {
        header: "TOOK",
        value: (build) => formatBuildDuration(build),
        isVolatile: true,
        dropOrder: 1,
      },
      {
        header: "AGE",
        value: (build) => formatAge(build.created_at, nowMs),
        isVolatile: true,
        dropOrder: 2,
      },
      {
        header: "MESSAGE",
        value: (build) => formatShortValue(build.message ?? ""),
        canShrink: true,
      },
    ],
    wideColumns: [
      { header: "IMAGE", value: (build) => build.image, canShrink: true },
      { header: "SIZE", value: (build) => formatImageSize(build) ?? "" },
      { header: "GENERATION", value: (build) => String(build.generation) },
    ],
    name: (build) => String(build.id),
    document: { builds, total },
    empty: `app "${app}" has no builds yet`,
  });
}

export function describeBuild(build: BuildView, options: ViewOptions): string {
  const { colours, nowMs } = options;
  const head = formatFields([
    ["Build", colours.bold(String(build.id))],
    ["App", build.app],
    ["State", getStatusColour(colours, build.state)(build.state)],
    ["Source", build.source],
    ["Revision", build.revision],
    ["Image", build.image],
    ["Size", formatImageSize(build)],
    ["Generation", String(build.generation)],
    ["Created", formatTime(build.created_at, nowMs)],
    ["Took", formatBuildDuration(build)],
  ]);
  return build.message === null
    ? head
    : `${head}\n\n${formatSection("Message:", build.message, options)}`;
}

/** Formats a build on one line: `12 succeeded, 5m ago, at 0123456789ab`. */
export function formatShortBuild(build: BuildView, nowMs: number): string {
  const revision = build.revision.slice(0, 12);
  return `${build.id} ${build.state}, ${formatAge(build.created_at, nowMs)} ago, at ${revision}`;
}

function formatBuildDuration({ started_at, finished_at }: BuildView): string {
  if (started_at === null || finished_at === null) return "";
  return formatDurationMs(Date.parse(finished_at) - Date.parse(started_at));
}

function formatImageSize({ image_bytes }: BuildView): string | undefined {
  return image_bytes === null ? undefined : formatBytes(image_bytes);
}
