import { randomUUID } from "node:crypto";
import { deepEqual, hashJson } from "../base/canonical-json.ts";
import { ConflictError, InvalidSpecError, NotFoundError } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { formatDottedPath, formatPointer } from "../resources/json-pointer.ts";
import { API_VERSION, type Kind } from "../resources/kinds.ts";
import { checkPlainValue } from "../resources/plain-value.ts";
import { APP_FINALIZER, MODEL_FINALIZER } from "../resources/resource.ts";
import { fromStoredLabels, STACK_LABEL } from "../resources/stack.ts";
import { assertOriginKept, describeMaker, listReplacedManagers } from "./app-origin.ts";
import { attributeFields } from "./field-authors.ts";
import {
  flattenFields,
  type Leaves,
  type ResourceFields,
  unflattenLeaves,
} from "./field-leaves.ts";
import {
  applyFields,
  describeManager,
  type FieldConflict,
  type Ownership,
} from "./field-managers.ts";
import { releaseHeldSource } from "./held-source.ts";
import { assertImageOrSource, assertSourceKept } from "./image-or-source.ts";
import type { StoredResource } from "./resource-table.ts";
import { isSecretValue, type SqliteSecretValues } from "./secret-values.ts";
import type { ApplyIntent, FieldAuthor, FieldChange } from "./store.ts";

/** Annotations with this prefix have an effect on reconcilers, so a change of one increments the generation. */
const BERTH_ANNOTATION_PREFIX = "berth.dev/";

export interface ApplyPlan {
  readonly next: StoredResource;
  readonly created: boolean;
  /** False if writing `next` would change nothing. */
  readonly changed: boolean;
  readonly changes: readonly FieldChange[];
  readonly yielded: readonly string[];
  /** `before` and `after` contain fingerprints of secrets. `given` contains the plaintext values of the document. */
  readonly before: Leaves;
  readonly after: Leaves;
  readonly given: Leaves;
}

export interface PlanApplyContext {
  readonly secrets: SqliteSecretValues;
  /** Validates a whole document, which contains secrets as plaintext. Throws InvalidSpecError. */
  readonly validate: (document: unknown) => unknown;
  readonly time: string;
}

/** Computes the result of an apply without writing anything. Throws the errors of `Store.apply`. */
export function planApply(
  existing: StoredResource | undefined,
  intent: ApplyIntent,
  context: PlanApplyContext,
): ApplyPlan {
  assertApplyAllowed(existing, intent);
  const { set: given, remove } = readDocument(intent);
  const set =
    intent.kind === "Secret"
      ? context.secrets.fingerprintLeaves(intent.name, given)
      : new Map(given);
  const before = toOwnership(existing);
  const applied = applyFields(before, {
    manager: intent.manager,
    mode: intent.mode,
    set,
    remove,
    contentHash: hashJson(unflattenLeaves(set)),
    declares: intent.declares ?? false,
    force: intent.force ?? false,
    takeOverFrom: [
      ...(intent.takeOverFrom ?? []),
      ...(existing ? listReplacedManagers(existing, intent) : []),
    ],
    time: context.time,
  });
  if (applied.conflicts.length > 0) throw fieldsOwnedError(intent, applied.conflicts);
  const outcome = intent.kind === "App" ? releaseHeldSource(before.leaves, applied) : applied;

  if (intent.kind === "App") {
    assertImageOrSource(intent.name, set, outcome, describeManager);
    assertSourceKept(intent.name, before.leaves, outcome.leaves);
  }
  const fields = unflattenLeaves(outcome.leaves);
  validateMerged(existing, intent, context, { set, given, after: outcome.leaves });
  const changes = diffLeaves(intent.kind, before.leaves, outcome.leaves);
  const authors = attributeFields(
    { leaves: before.leaves, authors: existing?.authors ?? {} },
    outcome.leaves,
    { given: set, author: getAuthor(intent) },
  );
  const changed =
    !existing ||
    changes.length > 0 ||
    !deepEqual(outcome.owners, existing.owners) ||
    !deepEqual(authors, existing.authors) ||
    !deepEqual(outcome.managers, existing.managers);
  const next: StoredResource = {
    ...(existing ?? newResource(intent, context.time)),
    spec: fields.spec,
    labels: toStringValues(fields.labels),
    annotations: toStringValues(fields.annotations),
    generation: (existing?.generation ?? 0) + (existing && !bumpsGeneration(changes) ? 0 : 1),
    owners: outcome.owners,
    authors,
    managers: outcome.managers,
    actor: existing && !bumpsGeneration(changes) ? existing.actor : intent.actor.name,
  };
  return {
    next,
    created: !existing,
    changed,
    changes,
    yielded: outcome.yielded,
    before: before.leaves,
    after: outcome.leaves,
    given,
  };
}

export function toOwnership(stored: StoredResource | undefined): Ownership {
  if (!stored) return { leaves: new Map(), owners: {}, managers: {} };
  return { leaves: flattenFields(stored), owners: stored.owners, managers: stored.managers };
}

/** Returns the differences between two sets of leaves, sorted by path, with the values of Secrets hidden. */
export function diffLeaves(kind: Kind, before: Leaves, after: Leaves): FieldChange[] {
  const shown = (pointer: string, value: unknown) =>
    kind === "Secret" && isSecretValue(pointer, value) ? "(secret)" : value;
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter(
      (pointer) =>
        before.has(pointer) !== after.has(pointer) ||
        !deepEqual(before.get(pointer), after.get(pointer)),
    )
    .toSorted()
    .map((path) => ({
      path,
      before: shown(path, before.get(path)),
      after: shown(path, after.get(path)),
    }));
}

function getAuthor({ author, actor }: ApplyIntent): FieldAuthor {
  return author ?? { name: actor.name, scope: actor.scope ?? "write" };
}

function assertApplyAllowed(existing: StoredResource | undefined, intent: ApplyIntent): void {
  const title = `${intent.kind} ${intent.name}`;
  if (!existing) {
    if (intent.updateOnly) throw new NotFoundError(`there is no ${title}`);
    return;
  }
  if (existing.deletionTimestamp !== null) {
    throw new ConflictError("conflict", `${title} is being deleted`, {
      hint: "wait until the resource is gone, then try again",
    });
  }
  if (intent.createOnly) {
    const maker = intent.kind === "App" ? describeMaker(existing) : undefined;
    const owner = maker === undefined ? "" : `: it ${maker}`;
    throw new ConflictError("name_taken", `${title} exists already${owner}`, {
      hint: "choose another name, or change the existing resource",
    });
  }
  if (!intent.declares) {
    assertOriginKept(existing, intent);
    return;
  }
  const first = Object.entries(existing.managers).find(
    ([name, entry]) =>
      entry.declares && name !== intent.manager && !intent.takeOverFrom?.includes(name),
  );
  if (first) {
    throw new ConflictError(
      "conflict",
      `${title} is declared by ${describeManager(first[0])} already`,
      {
        hint: "declare the resource in one file only, or rename it in one of the files",
        details: { manager: first[0] },
      },
    );
  }
  assertOriginKept(existing, intent);
}

function fieldsOwnedError(intent: ApplyIntent, conflicts: readonly FieldConflict[]): ConflictError {
  const byManager = new Map<string, string[]>();
  for (const { manager, path } of conflicts) {
    byManager.set(manager, [...(byManager.get(manager) ?? []), formatDottedPath(path)]);
  }
  const parts = [...byManager].map(
    ([manager, fields]) =>
      `${fields.join(", ")} ${fields.length === 1 ? "is" : "are"} set by ${describeManager(manager)}`,
  );
  return new ConflictError("field_owned", `${intent.kind} ${intent.name}: ${parts.join("; ")}`, {
    hint: "change the file, or send ?force=true to take over until the file changes",
    details: { fields: conflicts },
  });
}

/**
 * Returns the fields that the document sets, as leaves. For a patch, also returns the JSON Pointers of the fields to
 * remove. Throws InvalidSpecError if the document contains anything but plain values.
 */
function readDocument(intent: ApplyIntent): { set: Leaves; remove: readonly string[] } {
  const document: ResourceFields = {
    spec: intent.spec,
    labels: intent.labels ?? {},
    annotations: intent.annotations ?? {},
  };
  const title = `${intent.kind} "${intent.name}" is not valid`;
  if (!isObject(intent.spec)) {
    const issue = { path: "/spec", message: "expected a mapping" };
    throw new InvalidSpecError(`${title}: spec: ${issue.message}`, [issue]);
  }
  const issue = checkPlainValue(document);
  if (issue)
    throw new InvalidSpecError(`${title}: ${formatDottedPath(issue.path)}: ${issue.message}`, [
      issue,
    ]);
  const leaves = flattenFields(document);
  if (intent.mode === "replace") return { set: leaves, remove: [] };
  const remove = [...leaves].filter(([, value]) => value === null).map(([pointer]) => pointer);
  return { set: new Map([...leaves].filter(([, value]) => value !== null)), remove };
}

/** Validates the merged document with the plaintext of its secrets, which the app would get. */
function validateMerged(
  existing: StoredResource | undefined,
  intent: ApplyIntent,
  context: PlanApplyContext,
  leaves: { readonly set: Leaves; readonly given: Leaves; readonly after: Leaves },
): void {
  let merged = leaves.after;
  if (intent.kind === "Secret") {
    const kept = existing ? (context.secrets.reveal(intent.name) ?? {}) : {};
    merged = new Map(
      [...leaves.after].map(([pointer, value]) => {
        if (!isSecretValue(pointer, value)) return [pointer, value];
        if (leaves.set.get(pointer) === value) return [pointer, leaves.given.get(pointer)];
        return [pointer, kept[pointer.slice("/spec/data/".length)] ?? ""];
      }),
    );
  }
  const { spec, labels, annotations } = unflattenLeaves(merged);
  context.validate({
    apiVersion: API_VERSION,
    kind: intent.kind,
    metadata: { name: intent.name, ...fromStoredLabels(labels), annotations },
    spec,
  });
}

function newResource(intent: ApplyIntent, time: string): StoredResource {
  return {
    kind: intent.kind,
    name: intent.name,
    uid: randomUUID(),
    spec: {},
    labels: {},
    annotations: {},
    generation: 0,
    resourceVersion: 0,
    createdAt: time,
    deletionTimestamp: null,
    finalizers: getInitialFinalizers(intent.kind),
    owners: {},
    authors: {},
    managers: {},
    actor: intent.actor.name,
    status: null,
  };
}

/**
 * Returns the initial finalizers of a kind. They are needed for kinds whose containers or files have to be removed
 * before the resource.
 */
function getInitialFinalizers(kind: Kind): readonly string[] {
  if (kind === "App") return [APP_FINALIZER];
  return kind === "Model" ? [MODEL_FINALIZER] : [];
}

/** Returns the values as strings; the validation has already checked that they are strings. */
function toStringValues(values: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, String(value)]));
}

function bumpsGeneration(changes: readonly FieldChange[]): boolean {
  const own = `/metadata/annotations/${BERTH_ANNOTATION_PREFIX.replaceAll("/", "~1")}`;
  const stack = formatPointer(["metadata", "labels", STACK_LABEL]);
  return changes.some(
    ({ path }) => path.startsWith("/spec/") || path.startsWith(own) || path === stack,
  );
}
