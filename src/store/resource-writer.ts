import { deepEqual } from "../base/canonical-json.ts";
import { type Clock, timestamp } from "../base/clock.ts";
import { ConflictError, NotFoundError } from "../base/errors.ts";
import { formatPointer } from "../resources/json-pointer.ts";
import type { Kind } from "../resources/kinds.ts";
import {
  FILE_POLICY_ANNOTATION,
  type Resource,
  type StatusOf,
  VOLUME_POLICY_ANNOTATION,
} from "../resources/resource.ts";
import type { SqliteAddressLeases } from "./address-leases.ts";
import type { SqliteAuditLog } from "./audit.ts";
import type { ChangeLog } from "./change-log.ts";
import { describeManager, releaseFields } from "./field-managers.ts";
import { diffLeaves, planApply, toOwnership } from "./plan-apply.ts";
import type { SqlitePortLeases } from "./port-leases.ts";
import { type ResourceTable, type StoredResource, toResource } from "./resource-table.ts";
import type { SqliteRevisionLog } from "./revisions.ts";
import type { SqliteSecretValues } from "./secret-values.ts";
import type {
  Admission,
  ApplyIntent,
  ApplyResult,
  DeleteIntent,
  FieldChange,
  StoreChange,
} from "./store.ts";
import type { Transactions } from "./transactions.ts";
import { listUncheckedFields } from "./unchecked-fields.ts";
import type { WriteGuard } from "./write-guard.ts";

export interface ResourceWriterDependencies {
  readonly clock: Clock;
  readonly transactions: Transactions;
  readonly resources: ResourceTable;
  readonly changes: ChangeLog;
  readonly audit: SqliteAuditLog;
  readonly revisions: SqliteRevisionLog;
  readonly ports: SqlitePortLeases;
  readonly addresses: SqliteAddressLeases;
  readonly secrets: SqliteSecretValues;
  readonly guard: WriteGuard;
  readonly validate: (document: unknown) => unknown;
}

/** Writes resources. The row, its secrets, the audit entry and the change are committed in one transaction. */
export class ResourceWriter {
  readonly #dependencies: ResourceWriterDependencies;

  constructor(parts: ResourceWriterDependencies) {
    this.#dependencies = parts;
  }

  apply<K extends Kind>(intent: ApplyIntent<K>, admit?: Admission<K>): ApplyResult<K> {
    const { resources, transactions, secrets: vault } = this.#dependencies;
    const existing = transactions.read(() => resources.read(intent.kind, intent.name));
    const plan = transactions.read(() =>
      planApply(existing, intent as ApplyIntent, {
        secrets: vault,
        validate: this.#dependencies.validate,
        time: timestamp(this.#dependencies.clock.now()),
      }),
    );
    const { created, changes, yielded } = plan;
    if (plan.changed) {
      const candidate = toResource(plan.next, intent.kind);
      const before = existing && resources.getResource(existing, intent.kind);
      this.#dependencies.guard.assertAllowed({
        candidate,
        before,
        changes,
        unchecked: listUncheckedFields({ leaves: plan.after, authors: plan.next.authors }),
        actor: intent.actor,
      });
      admit?.(candidate);
    }
    if (intent.dryRun)
      return { resource: toResource(plan.next, intent.kind), created, changes, yielded };
    if (plan.changed) {
      transactions.write(() => {
        this.#writeResource(plan.next, created ? "added" : "modified");
        if (intent.kind === "Secret") vault.store(intent.name, plan.before, plan.after, plan.given);
        this.#audit(created ? "create" : "update", intent, changes);
      });
    }
    return { resource: this.#readResource(intent.kind, intent.name), created, changes, yielded };
  }

  delete(kind: Kind, name: string, intent: DeleteIntent): Resource {
    const { resources, transactions, clock, guard } = this.#dependencies;
    const existing = transactions.read(() => resources.read(kind, name));
    if (!existing) throw new NotFoundError(`there is no ${kind} ${name}`);
    guard.assertDeletable(resources.getResource(existing, kind), intent);
    assertNotDeclared(existing, intent);
    const next = withDeletion(existing, intent, timestamp(clock.now()));
    if (intent.dryRun) return toResource(next, kind);
    if (next.finalizers.length > 0 && deepEqual(next, existing))
      return resources.getResource(existing, kind);
    const subject = { kind, name, actor: intent.actor };
    return transactions.write(() => {
      const before = toOwnership(existing).leaves;
      if (next.finalizers.length === 0) {
        const sequence = this.#remove(existing);
        this.#audit("delete", subject, diffLeaves(kind, before, new Map()));
        return toResource({ ...next, resourceVersion: sequence }, kind);
      }
      this.#writeResource(next, "modified");
      this.#audit("delete", subject, [
        ...diffLeaves(kind, before, toOwnership(next).leaves),
        {
          path: "/metadata/deletionTimestamp",
          before: existing.deletionTimestamp ?? undefined,
          after: next.deletionTimestamp ?? undefined,
        },
      ]);
      return this.#readResource(kind, name);
    });
  }

  removeFinalizer(kind: Kind, name: string, finalizer: string): void {
    const { resources, transactions } = this.#dependencies;
    transactions.write(() => {
      const existing = resources.read(kind, name);
      if (!existing?.finalizers.includes(finalizer)) return;
      const finalizers = existing.finalizers.filter((other) => other !== finalizer);
      if (existing.deletionTimestamp !== null && finalizers.length === 0) {
        this.#remove(existing);
      } else {
        this.#writeResource({ ...existing, finalizers }, "modified");
      }
    });
  }

  setStatus<K extends Kind>(kind: K, name: string, uid: string, status: StatusOf[K]): void {
    const { resources, transactions } = this.#dependencies;
    const existing = transactions.read(() => resources.read(kind, name));
    if (existing?.uid !== uid || deepEqual(existing.status, status)) return;
    transactions.writeLazily(() => this.#writeResource({ ...existing, status }, "status"));
  }

  releaseManager(kind: Kind, name: string, manager: string): void {
    const { resources, transactions } = this.#dependencies;
    transactions.write(() => {
      const existing = resources.read(kind, name);
      if (!existing) return;
      const { owners, managers } = releaseFields(toOwnership(existing), manager);
      if (deepEqual(owners, existing.owners) && deepEqual(managers, existing.managers)) return;
      this.#writeResource({ ...existing, owners, managers }, "modified");
    });
  }

  #writeResource(stored: StoredResource, type: StoreChange["type"]): void {
    const { kind, name, generation } = stored;
    const resourceVersion = this.#dependencies.changes.append({ type, kind, name, generation });
    this.#dependencies.resources.write({ ...stored, resourceVersion });
  }

  /**
   * Removes the resource with its revisions and ports. Its events and audit entries are kept, to explain the removal
   * later.
   */
  #remove(stored: StoredResource): number {
    const { kind, name, generation } = stored;
    this.#dependencies.resources.remove(kind, name);
    if (kind === "App") {
      this.#dependencies.revisions.removeAll(name);
      this.#dependencies.ports.release(name);
      this.#dependencies.addresses.release(name);
    }
    return this.#dependencies.changes.append({ type: "deleted", kind, name, generation });
  }

  #audit(
    action: "create" | "update" | "delete",
    subject: Pick<ApplyIntent, "actor" | "kind" | "name">,
    changes: readonly FieldChange[],
  ): void {
    this.#dependencies.audit.append({
      actor: subject.actor.name,
      requestId: subject.actor.requestId ?? null,
      action,
      kind: subject.kind,
      name: subject.name,
      changes,
    });
  }

  #readResource<K extends Kind>(kind: K, name: string): Resource<K> {
    const stored = this.#dependencies.transactions.read(() =>
      this.#dependencies.resources.read(kind, name),
    );
    if (!stored) throw new NotFoundError(`there is no ${kind} ${name}`);
    return this.#dependencies.resources.getResource(stored, kind);
  }
}

function assertNotDeclared(existing: StoredResource, intent: DeleteIntent): void {
  if (intent.force) return;
  const declaring = Object.entries(existing.managers).find(
    ([manager, entry]) => entry.declares && manager !== intent.manager,
  );
  if (!declaring) return;
  const title = `${existing.kind} ${existing.name}`;
  throw new ConflictError(
    "field_owned",
    `${title} is declared by ${describeManager(declaring[0])}`,
    {
      hint: "remove the resource from the file, or send ?force=true to delete it anyway",
      details: { manager: declaring[0] },
    },
  );
}

/**
 * Marks the resource for deletion. A second call has no effect, except that it may add the deletion of volumes or
 * files.
 */
function withDeletion(
  existing: StoredResource,
  intent: DeleteIntent,
  time: string,
): StoredResource {
  const next = { ...existing, deletionTimestamp: existing.deletionTimestamp ?? time };
  const policy = getDeletionPolicyAnnotation(existing.kind, intent);
  if (policy === undefined || existing.annotations[policy] === "delete") return next;
  return {
    ...next,
    annotations: { ...existing.annotations, [policy]: "delete" },
    owners: {
      ...existing.owners,
      [formatPointer(["metadata", "annotations", policy])]: intent.manager,
    },
    generation: existing.generation + 1,
  };
}

/** Returns the annotation that tells the reconciler to delete volumes or files together with the resource. */
function getDeletionPolicyAnnotation(kind: Kind, intent: DeleteIntent): string | undefined {
  if (kind === "App" && intent.deleteVolumes) return VOLUME_POLICY_ANNOTATION;
  return kind === "Model" && intent.deleteFiles ? FILE_POLICY_ANNOTATION : undefined;
}
