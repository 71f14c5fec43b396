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
  /** Managers whose files do not declare this resource any more, so that this file takes their part. */
  readonly takeOverFrom: (key: ResourceKey) => readonly string[];
  /** Deleted with force; the file has to say something new first. */
  readonly isForceDeleted: (key: ResourceKey) => boolean;
  readonly onApplied: (key: ResourceKey, result: ApplyResult) => void;
}

/**
 * Writes what a file says, all of it or nothing: with several documents, all are tried before the
 * first one is written. Throws only where the store fails; run it in a batch, so that nothing stays.
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

/** What the store says of the document itself; anything else is a failure of the store. */
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
