import type { Tier } from "../port.ts";
import type { AppManifest, ManifestFault, ToolDeclaration } from "../tool-manifest.ts";

/** What became of one manifest. */
export interface ManifestReport {
  /** Where it is; for the person at this machine only. Undefined: it is built in. */
  readonly file: string | undefined;
  /** The app that it is about, by the name of the file. */
  readonly appId: string;
  /** shadowed: a folder before this one has the app. */
  readonly status: "taken" | "rejected" | "shadowed";
  /** What comes before it, where it is shadowed. */
  readonly shadowedBy: string | undefined;
  readonly tools: readonly ReportedTool[];
  readonly faults: readonly ManifestFault[];
}

export interface ReportedTool {
  readonly name: string;
  readonly tier: Tier;
  /** The tool that takes it back; undefined: nothing does. */
  readonly undo: string | undefined;
}

/** One that asks to be an app's manifest, in the order in which they win. */
export interface ManifestCandidate {
  readonly appId: string;
  readonly file: string | undefined;
  readonly manifest: AppManifest | undefined;
  readonly tools: readonly ToolDeclaration[];
  readonly faults: readonly ManifestFault[];
}

/**
 * The first candidate of each app is the one that counts, good or bad: if a person's own file is broken, the
 * one that it was to replace does not come back unasked.
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
