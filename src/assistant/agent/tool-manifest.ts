import type { JsonObject, Tier } from "./port.ts";

/** A manifest that has been read and found good: defaults are filled in. */
export interface AppManifest {
  readonly appId: string;
  /** For people: the manifest's `name`, else the id. */
  readonly name: string;
  /** For people, and for finding its tools. */
  readonly description?: string;
  readonly isActivatable: boolean;
  readonly tools: readonly ToolDeclaration[];
}

export interface ToolDeclaration {
  readonly name: string;
  /** For people: the declaration's `title`, else its name. */
  readonly title: string;
  /** A declaration without one is `destructive`. */
  readonly tier: Tier;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly undo: UndoDeclaration | undefined;
  /** sha256 of the declaration's canonical JSON, 64 hex digits: a call is pinned to it. */
  readonly digest: string;
}

export interface UndoDeclaration {
  /** Of the same app. */
  readonly tool: string;
  /** Argument of the compensation to the expression that gives it. */
  readonly map: ReadonlyMap<string, UndoExpression>;
}

/** `$input.title`, `$result.note.id`: where to read, and the fields to go through, one or more. */
export interface UndoExpression {
  readonly from: "input" | "result";
  readonly fields: readonly string[];
}

/** What is wrong with a manifest; `pointer` is a JSON Pointer into it, "" for all of it. */
export interface ManifestFault {
  readonly pointer: string;
  readonly message: string;
  /** error: the manifest is rejected whole. warning: it is taken. */
  readonly severity: "error" | "warning";
}

/** The tools that there are, kept up to date with the manifests on the disk. */
export interface ToolRegistry {
  /** Ordered by app id. */
  apps(): readonly AppManifest[];
  find(appId: string): AppManifest | undefined;
  /** Grows with every change. */
  readonly version: number;
}
