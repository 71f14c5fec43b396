import { ConflictError, InvalidSpecError } from "../../base/errors.ts";
import { AdmissionError, type AppAdmission } from "../../resources/app-admission.ts";
import {
  locateIssue,
  type ParsedDocument,
  type ParseProblem,
} from "../../resources/parse-manifests.ts";
import { PrivilegeError, UncheckedFieldsError } from "../../resources/privileged-fields.ts";
import { isKind, type Resource } from "../../resources/resource.ts";
import { toStoredLabels } from "../../resources/stack.ts";
import type { ApplyIntent, ApplyResult, Store } from "../../store/store.ts";
import type { SpecFileReport } from "../port.ts";
import type { ResourceKey } from "./prune-guard.ts";
import { formatFileManager, type LoadedFile } from "./spec-file.ts";

export type FileOutcome =
  | { readonly state: "applied"; readonly resources: SpecFileReport["resources"] }
  | {
      readonly state: "conflict" | "invalid";
      readonly errors: readonly ParseProblem[];
      /** The Apps that the file would write. Present only if the file is refused because of other Apps. */
      readonly inadmissible?: readonly Resource<"App">[];
    };

type RefusedOutcome = Exclude<FileOutcome, { readonly state: "applied" }>;

export interface ApplyFileOptions {
  readonly store: Store;
  /** The check if the file's Apps conflict with other Apps; undefined if the caller has already checked them. */
  readonly admission: AppAdmission | undefined;
  /** Managers whose files no longer declare this resource. This file takes over their fields. */
  readonly takeOverFrom: (key: ResourceKey) => readonly string[];
  /** True if the resource was deleted with force. It is not created until the text of the file changes. */
  readonly isForceDeleted: (key: ResourceKey) => boolean;
  readonly onApplied: (key: ResourceKey, result: ApplyResult) => void;
}

/**
 * Applies a file completely or not at all. All documents of the file are tried together before the first one is
 * written. Throws only if the store fails; the caller then rolls back the batch in which it called this function.
 */
export function applyFile(file: LoadedFile, options: ApplyFileOptions): FileOutcome {
  const { store } = options;
  const resources: SpecFileReport["resources"][number][] = [];
  const writes: DocumentWrite[] = [];
  for (const document of file.documents) {
    const key = { kind: document.manifest.kind, name: document.manifest.metadata.name };
    if (options.isForceDeleted(key)) resources.push({ ...key, yielded: [""] });
    else writes.push({ document, intent: buildIntent(file, document, options.takeOverFrom(key)) });
  }

  const { admission } = options;
  if (writes.length > 1) {
    const { planned, failures } = store.preview(() => applyEach(store, writes));
    if (failures.length > 0) return buildRefusedOutcome(failures);
    const refused = admission ? refuseTogether(admission, planned) : undefined;
    if (refused) return refused;
  }
  const admit = writes.length === 1 ? admission?.assertAdmissible : undefined;
  for (const { document, intent } of writes) {
    try {
      const result = isAppIntent(intent) ? store.apply(intent, admit) : store.apply(intent);
      const { kind, name } = intent;
      if (isKind(result.resource, "App")) admission?.expect(result.resource);
      resources.push({ kind, name, yielded: result.yielded });
      options.onApplied({ kind, name }, result);
    } catch (error) {
      const outcome = buildRefusedOutcome([{ document, error: asRefusal(error) }]);
      return error instanceof AdmissionError ? { ...outcome, inadmissible: [error.app] } : outcome;
    }
  }
  return { state: "applied", resources };
}

interface DocumentWrite {
  readonly document: ParsedDocument;
  readonly intent: ApplyIntent;
}

interface PlannedDocument {
  readonly document: ParsedDocument;
  readonly resource: Resource;
}

/**
 * Applies every document as if the documents before it were already applied. Returns the documents that the store
 * refuses.
 */
function applyEach(store: Store, writes: readonly DocumentWrite[]) {
  const planned: PlannedDocument[] = [];
  const failures: RefusedDocument[] = [];
  for (const { document, intent } of writes) {
    try {
      planned.push({ document, resource: store.apply(intent).resource });
    } catch (error) {
      failures.push({ document, error: asRefusal(error) });
    }
  }
  return { planned, failures };
}

/**
 * Checks each App of a file against the state in which all Apps of the file are applied. Returns undefined if every App
 * is admissible.
 */
function refuseTogether(
  admission: AppAdmission,
  planned: readonly PlannedDocument[],
): FileOutcome | undefined {
  const apps = planned.flatMap(({ document, resource }) =>
    isKind(resource, "App") ? [{ document, app: resource }] : [],
  );
  for (const { app } of apps) admission.expect(app);
  const failures = apps.flatMap(({ document, app }) => {
    const error = findInadmissible(admission, app);
    return error ? [{ document, error }] : [];
  });
  if (failures.length === 0) return undefined;
  for (const { app } of apps) admission.restore(app.metadata.name);
  return { ...buildRefusedOutcome(failures), inadmissible: apps.map(({ app }) => app) };
}

/** Returns why the App cannot be written; undefined if it can. */
export function findInadmissible(
  admission: AppAdmission,
  app: Resource<"App">,
): AdmissionError | undefined {
  try {
    admission.assertAdmissible(app);
    return undefined;
  } catch (error) {
    if (error instanceof AdmissionError) return error;
    throw error;
  }
}

function isAppIntent(intent: ApplyIntent): intent is ApplyIntent<"App"> {
  return intent.kind === "App";
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
    actor: { name: manager, ...file.authority },
    mode: "replace",
    spec,
    labels: toStoredLabels(metadata),
    annotations: metadata.annotations ?? {},
    declares: true,
    takeOverFrom,
  };
}

function hasPath(error: Refusal): error is AdmissionError | PrivilegeError | UncheckedFieldsError {
  return (
    error instanceof AdmissionError ||
    error instanceof PrivilegeError ||
    error instanceof UncheckedFieldsError
  );
}

/** The errors by which the store refuses a document. Every other error is a failure of the store. */
type Refusal = InvalidSpecError | ConflictError | PrivilegeError;

function asRefusal(error: unknown): Refusal {
  if (error instanceof InvalidSpecError || error instanceof ConflictError) return error;
  if (error instanceof PrivilegeError) return error;
  throw error;
}

interface RefusedDocument {
  readonly document: ParsedDocument;
  readonly error: Refusal;
}

function buildRefusedOutcome(failures: readonly RefusedDocument[]): RefusedOutcome {
  const errors = failures.flatMap(({ document, error }) => listProblems(document, error));
  const isInvalid = failures.every(({ error }) => error instanceof InvalidSpecError);
  return { state: isInvalid ? "invalid" : "conflict", errors };
}

function listProblems(document: ParsedDocument, error: Refusal): ParseProblem[] {
  if (error instanceof InvalidSpecError && error.issues.length > 0) {
    return error.issues.map((issue) => locateIssue(issue, document.locate));
  }
  const hint = error.hint === undefined ? "" : ` (${error.hint})`;
  const path = hasPath(error) ? error.path : "/metadata/name";
  return [{ ...document.locate(path), message: `${error.message}${hint}` }];
}
