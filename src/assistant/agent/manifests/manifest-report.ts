import type { Tier } from "../port.ts";
import type { AppManifest, ManifestFault, ToolDeclaration } from "../tool-manifest.ts";

/** The status of one manifest. */
export interface ManifestReport {
  /** Path of the file, shown only to the user of this machine. Undefined for a built-in manifest. */
  readonly file: string | undefined;
  /** App id, taken from the file name. */
  readonly appId: string;
  /** shadowed: a manifest with a higher priority declares the same app. */
  readonly status: "taken" | "rejected" | "shadowed";
  /** The manifest that shadows this one. */
  readonly shadowedBy: string | undefined;
  readonly tools: readonly ReportedTool[];
  readonly faults: readonly ManifestFault[];
}

export interface ReportedTool {
  readonly name: string;
  readonly tier: Tier;
  /** The tool that reverts it; undefined if there is none. */
  readonly undo: string | undefined;
}

/** A possible manifest of an app; lists of these are ordered by priority. */
export interface ManifestCandidate {
  readonly appId: string;
  readonly file: string | undefined;
  readonly manifest: AppManifest | undefined;
  readonly tools: readonly ToolDeclaration[];
  readonly faults: readonly ManifestFault[];
}

/**
 * Reports on all candidates. The first candidate of each app is in use even if it is rejected: if the user's own
 * file is broken, the manifest that it replaces does not come back unasked.
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
