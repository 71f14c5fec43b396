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
export const builtInIdFault: ManifestFault = {
  pointer: "/app_id",
  message: "belongs to an app that ships with Berth, so the file is not used: choose another id",
  severity: "error",
};

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
