import { ConflictError, InvalidSpecError } from "../../base/errors.ts";
import {
  locateIssue,
  type ParsedDocument,
  type ParseProblem,
} from "../../resources/parse-manifests.ts";
import type { ApplyIntent, ApplyResult, Store } from "../../store/store.ts";
import type { SpecFileReport } from "../port.ts";
import type { ResourceKey } from "./prune-guard.ts";
import { formatFileManager, type LoadedFile } from "./spec-file.ts";

export type FileOutcome =
  | { readonly state: "applied"; readonly resources: SpecFileReport["resources"] }
  | { readonly state: "conflict" | "invalid"; readonly errors: readonly ParseProblem[] };

export interface ApplyFileOptions {
  readonly store: Store;
  /** Managers whose files no longer declare this resource, so that this file takes over their fields. */
  readonly takeOverFrom: (key: ResourceKey) => readonly string[];
  /** The resource was deleted with force: it is not created until the text of the file changes. */
  readonly isForceDeleted: (key: ResourceKey) => boolean;
  readonly onApplied: (key: ResourceKey, result: ApplyResult) => void;
}

/**
 * Applies a file completely or not at all: of several documents, all are tried before the first one is written. Throws
 * only if the store fails; the caller runs it in a batch, so that nothing is left then.
 */
export function applyFile(file: LoadedFile, options: ApplyFileOptions): FileOutcome {
  const { store } = options;
  const resources: SpecFileReport["resources"][number][] = [];
  const writes: { document: ParsedDocument; intent: ApplyIntent }[] = [];
  for (const document of file.documents) {
    const key = { kind: document.manifest.kind, name: document.manifest.metadata.name };
    if (options.isForceDeleted(key)) resources.push({ ...key, yielded: [""] });
    else writes.push({ document, intent: buildIntent(file, document, options.takeOverFrom(key)) });
  }

  if (writes.length > 1) {
    const failures = writes.flatMap(({ document, intent }) => {
      try {
        store.apply({ ...intent, dryRun: true });
        return [];
      } catch (error) {
        return [{ document, error: asRefusal(error) }];
      }
    });
    if (failures.length > 0) return buildRefusedOutcome(failures);
  }
  for (const { document, intent } of writes) {
    try {
      const result = store.apply(intent);
      const { kind, name } = intent;
      resources.push({ kind, name, yielded: result.yielded });
      options.onApplied({ kind, name }, result);
    } catch (error) {
      return buildRefusedOutcome([{ document, error: asRefusal(error) }]);
    }
  }
  return { state: "applied", resources };
}

function buildIntent(
  file: LoadedFile,
  { manifest }: ParsedDocument,
  takeOverFrom: readonly string[],
): ApplyIntent {
  const { kind, metadata, spec } = manifest;
  const manager = formatFileManager(file.path);
  return {
    kind,
    name: metadata.name,
    manager,
    actor: { name: manager },
    mode: "replace",
    spec,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    declares: true,
    takeOverFrom,
  };
}

/** Converts the store's objection to the document; rethrows a failure of the store. */
type Refusal = InvalidSpecError | ConflictError;

function asRefusal(error: unknown): Refusal {
  if (error instanceof InvalidSpecError || error instanceof ConflictError) return error;
  throw error;
}

function buildRefusedOutcome(
  failures: readonly { readonly document: ParsedDocument; readonly error: Refusal }[],
): FileOutcome {
  const errors = failures.flatMap(({ document, error }) => listProblems(document, error));
  const isConflict = failures.some(({ error }) => error instanceof ConflictError);
  return { state: isConflict ? "conflict" : "invalid", errors };
}

function listProblems(document: ParsedDocument, error: Refusal): ParseProblem[] {
  if (error instanceof InvalidSpecError && error.issues.length > 0) {
    return error.issues.map((issue) => locateIssue(issue, document.locate));
  }
  const hint = error.hint === undefined ? "" : ` (${error.hint})`;
  return [{ ...document.locate("/metadata/name"), message: `${error.message}${hint}` }];
}
