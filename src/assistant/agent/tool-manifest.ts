import type { JsonObject, Tier } from "./port.ts";

/** A valid manifest with default values for missing members. */
export interface AppManifest {
  readonly appId: string;
  /** Display name: the manifest's `name`, or the app id if it has none. */
  readonly name: string;
  /** Displayed to users and used by tool discovery. */
  readonly description?: string;
  readonly isActivatable: boolean;
  readonly tools: readonly ToolDeclaration[];
}

export interface ToolDeclaration {
  readonly name: string;
  /** Display name: the declaration's `title`, or the tool's name if it has none. */
  readonly title: string;
  /** The risk of the tool; `destructive` if the declaration has no tier. */
  readonly tier: Tier;
  readonly description: string;
  /** Further words by which users ask for the tool. Only tool discovery reads them. */
  readonly keywords: readonly string[];
  /** Requests for the tool, as users word them. Only tool discovery reads them. */
  readonly examples: readonly string[];
  readonly inputSchema: JsonObject;
  readonly undo: UndoDeclaration | undefined;
  /**
   * sha256 of the declaration's canonical JSON, as 64 hex digits. A parked call is refused if the digest has changed.
   */
  readonly digest: string;
}

export interface UndoDeclaration {
  /** The tool of the same app that reverts the call. */
  readonly tool: string;
  /** Maps each argument of the compensation to the expression that computes it. */
  readonly map: ReadonlyMap<string, UndoExpression>;
}

/** An expression such as `$input.title` or `$result.note.id`: a source, and a path of one or more fields. */
export interface UndoExpression {
  readonly from: "input" | "result";
  readonly fields: readonly string[];
}

/** A fault in a manifest. `pointer` is a JSON Pointer into the manifest, "" for the whole document. */
export interface ManifestFault {
  readonly pointer: string;
  readonly message: string;
  /** `error` rejects the whole manifest; a manifest that has only faults of severity `warning` is accepted. */
  readonly severity: "error" | "warning";
}

/** The declared tools, kept up to date with the manifest files. */
export interface ToolRegistry {
  /** Returns the manifests in use, ordered by app id. */
  apps(): readonly AppManifest[];
  find(appId: string): AppManifest | undefined;
  /** A number that increases whenever the declared tools change. */
  readonly version: number;
  /** Calls `onChanged` after each change of the declared tools, until the returned function is called. */
  subscribe(onChanged: () => void): () => void;
}
