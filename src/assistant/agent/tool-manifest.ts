import type { JsonObject, Tier } from "./port.ts";

/** A valid manifest with its defaults filled in. */
export interface AppManifest {
  readonly appId: string;
  /** Display name: the manifest's `name`, else the id. */
  readonly name: string;
  /** Displayed to users and used by tool discovery. */
  readonly description?: string;
  readonly isActivatable: boolean;
  readonly tools: readonly ToolDeclaration[];
}

export interface ToolDeclaration {
  readonly name: string;
  /** Display name: the declaration's `title`, else its name. */
  readonly title: string;
  /** Defaults to `destructive`. */
  readonly tier: Tier;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly undo: UndoDeclaration | undefined;
  /** sha256 of the declaration's canonical JSON, 64 hex digits. A call is refused if it changes. */
  readonly digest: string;
}

export interface UndoDeclaration {
  /** A tool of the same app. */
  readonly tool: string;
  /** Maps each argument of the compensation to the expression that computes it. */
  readonly map: ReadonlyMap<string, UndoExpression>;
}

/** `$input.title`, `$result.note.id`: a source and a path of one or more fields. */
export interface UndoExpression {
  readonly from: "input" | "result";
  readonly fields: readonly string[];
}

/** A fault in a manifest. `pointer` is a JSON Pointer into it, "" for the whole document. */
export interface ManifestFault {
  readonly pointer: string;
  readonly message: string;
  /** error: the whole manifest is rejected. warning: it is accepted. */
  readonly severity: "error" | "warning";
}

/** The declared tools, kept up to date with the manifests on the disk. */
export interface ToolRegistry {
  /** Ordered by app id. */
  apps(): readonly AppManifest[];
  find(appId: string): AppManifest | undefined;
  /** Increases with every change. */
  readonly version: number;
}
