import type { Tier } from "../port.ts";
import type { AppManifest, ManifestFault, ToolDeclaration } from "../tool-manifest.ts";

/** The status of one manifest. */
export interface ManifestReport {
  /** Path of the file, shown only to the user of this machine. Undefined for a built-in manifest. */
  readonly file: string | undefined;
  /** App id, derived from the file name. */
  readonly appId: string;
  /** The value `shadowed` means that another manifest of the same app has a higher priority. */
  readonly status: "taken" | "rejected" | "shadowed";
  /** The manifest that is used instead; undefined unless the status is `shadowed`. */
  readonly shadowedBy: string | undefined;
  readonly tools: readonly ReportedTool[];
  readonly faults: readonly ManifestFault[];
}

export interface ReportedTool {
  readonly name: string;
  readonly tier: Tier;
  /** Name of the tool that reverts this tool; undefined if calls of this tool cannot be undone. */
  readonly undo: string | undefined;
}

/** A file or built-in manifest that may define an app; lists of candidates are ordered by priority. */
export interface ManifestCandidate {
  readonly appId: string;
  readonly file: string | undefined;
  readonly manifest: AppManifest | undefined;
  readonly tools: readonly ToolDeclaration[];
  readonly faults: readonly ManifestFault[];
}

/** The fault of a file whose app id belongs to an app that ships with Berth. */
const builtInIdFault: ManifestFault = {
  pointer: "/app_id",
  message: "belongs to an app that ships with Berth, so the file is not used: choose another id",
  severity: "error",
};

/** The fault of a file whose app id looks like the id of an app that ships with Berth. */
const lookAlikeFault: ManifestFault = {
  pointer: "/app_id",
  message:
    "looks like the id of an app that ships with Berth, so the file is not used: choose another id",
  severity: "error",
};

/** Returns the fault of an app id that is one of the built-in ids, or that people could take for one of them. */
export function findBuiltInIdFault(
  appId: string,
  builtInIds: readonly string[],
): ManifestFault | undefined {
  if (builtInIds.includes(appId)) return builtInIdFault;
  const shape = toShape(appId);
  return builtInIds.some((id) => toShape(id) === shape) ? lookAlikeFault : undefined;
}

const alike: Readonly<Record<string, string>> = {
  0: "o",
  1: "l",
  i: "l",
  5: "s",
  "-": "_",
  vv: "w",
  rn: "m",
};

/** Returns the same text for ids that differ only in characters that look the same, or in their case. */
function toShape(appId: string): string {
  return appId.toLowerCase().replaceAll(/[01i5-]|vv|rn/g, (part) => alike[part] ?? part);
}

/**
 * Reports on all candidates. The first candidate of each app shadows the others, even if it is rejected: a broken file
 * of the user must not silently bring back the manifest that it replaces.
 */
export function buildManifestReports(
  candidates: readonly ManifestCandidate[],
): readonly ManifestReport[] {
  const first = new Map<string, ManifestCandidate>();
  return candidates.map((candidate) => {
    const { appId, file, manifest, faults } = candidate;
    const winner = first.get(appId);
    if (winner === undefined) first.set(appId, candidate);
    const status = winner ? "shadowed" : manifest ? "taken" : "rejected";
    const shadowedBy = winner && (winner.file ?? "Berth itself");
    const tools = candidate.tools.map(({ name, tier, undo }) => ({ name, tier, undo: undo?.tool }));
    return { file, appId, status, shadowedBy, tools, faults };
  });
}
