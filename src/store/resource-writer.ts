import { deepEqual } from "../base/canonical.ts";
import { type Clock, timestamp } from "../base/clock.ts";
import { ConflictError, NotFoundError } from "../base/errors.ts";
import { pointer } from "../resources/json-pointer.ts";
import type { Kind } from "../resources/kinds.ts";
import { FILE_POLICY, type Resource, type StatusOf, VOLUME_POLICY } from "../resources/resource.ts";
import { changesBetween, describeManager, ownershipOf, planApply } from "./apply.ts";
import type { SqliteAuditLog } from "./audit.ts";
import type { ChangeLog } from "./change-log.ts";
import { releaseFields } from "./field-managers.ts";
import type { SqlitePortLeases } from "./port-leases.ts";
import { type ResourceTable, resourceOf, type StoredResource } from "./resource-table.ts";
import type { SqliteRevisionLog } from "./revisions.ts";
import type { SecretVault } from "./secret-vault.ts";
import type { ApplyIntent, ApplyResult, Change, DeleteIntent, FieldChange } from "./store.ts";
import type { Transactions } from "./transactions.ts";

export interface WriterParts {
  readonly clock: Clock;
  readonly transactions: Transactions;
  readonly resources: ResourceTable;
  readonly changes: ChangeLog;
  readonly audit: SqliteAuditLog;
  readonly revisions: SqliteRevisionLog;
  readonly ports: SqlitePortLeases;
  readonly vault: SecretVault;
  readonly validate: (document: unknown) => unknown;
}

/** Every write to a resource: the row, its secrets, the audit entry and the change are one transaction. */
export class ResourceWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  apply<K extends Kind>(intent: ApplyIntent<K>): ApplyResult<K> {
    const { resources, transactions, vault } = this.#parts;
    const plan = transactions.read(() =>
      planApply(resources.read(intent.kind, intent.name), intent as ApplyIntent, {
        vault,
        validate: this.#parts.validate,
        time: timestamp(this.#parts.clock.now()),
      }),
    );
    const { created, changes, yielded } = plan;
    if (intent.dryRun)
      return { resource: resourceOf(plan.next, intent.kind), created, changes, yielded };
    if (plan.changed) {
      transactions.write(() => {
        this.#put(plan.next, created ? "added" : "modified");
        if (intent.kind === "Secret") vault.store(intent.name, plan.before, plan.after, plan.given);
        this.#note(created ? "create" : "update", intent, changes);
      });
    }
    return { resource: this.#show(intent.kind, intent.name), created, changes, yielded };
  }

  delete(kind: Kind, name: string, intent: DeleteIntent): Resource {
    const { resources, transactions, clock } = this.#parts;
    const existing = transactions.read(() => resources.read(kind, name));
    if (!existing) throw new NotFoundError(`there is no ${kind} ${name}`);
    assertNotDeclared(existing, intent);
    const next = deleting(existing, intent, timestamp(clock.now()));
    if (intent.dryRun) return resourceOf(next, kind);
    if (next.finalizers.length > 0 && deepEqual(next, existing))
      return resources.show(existing, kind);
    const subject = { kind, name, actor: intent.actor };
    return transactions.write(() => {
      const before = ownershipOf(existing).leaves;
      if (next.finalizers.length === 0) {
        const sequence = this.#remove(existing);
        this.#note("delete", subject, changesBetween(kind, before, new Map()));
        return resourceOf({ ...next, resourceVersion: sequence }, kind);
      }
      this.#put(next, "modified");
      this.#note("delete", subject, [
        ...changesBetween(kind, before, ownershipOf(next).leaves),
        {
          path: "/metadata/deletionTimestamp",
          before: existing.deletionTimestamp ?? undefined,
          after: next.deletionTimestamp ?? undefined,
        },
      ]);
      return this.#show(kind, name);
    });
  }

  removeFinalizer(kind: Kind, name: string, finalizer: string): void {
    const { resources, transactions } = this.#parts;
    transactions.write(() => {
      const existing = resources.read(kind, name);
      if (!existing?.finalizers.includes(finalizer)) return;
      const finalizers = existing.finalizers.filter((other) => other !== finalizer);
      if (existing.deletionTimestamp !== null && finalizers.length === 0) {
        this.#remove(existing);
      } else {
        this.#put({ ...existing, finalizers }, "modified");
      }
    });
  }

  setStatus<K extends Kind>(kind: K, name: string, uid: string, status: StatusOf[K]): void {
    const { resources, transactions } = this.#parts;
    const existing = transactions.read(() => resources.read(kind, name));
    if (existing?.uid !== uid || deepEqual(existing.status, status)) return;
    transactions.writeLazily(() => this.#put({ ...existing, status }, "status"));
  }

  releaseManager(kind: Kind, name: string, manager: string): void {
    const { resources, transactions } = this.#parts;
    transactions.write(() => {
      const existing = resources.read(kind, name);
      if (!existing) return;
      const { owners, managers } = releaseFields(ownershipOf(existing), manager);
      if (deepEqual(owners, existing.owners) && deepEqual(managers, existing.managers)) return;
      this.#put({ ...existing, owners, managers }, "modified");
    });
  }

  #put(stored: StoredResource, type: Change["type"]): void {
    const { kind, name, generation } = stored;
    const resourceVersion = this.#parts.changes.append({ type, kind, name, generation });
    this.#parts.resources.write({ ...stored, resourceVersion });
  }

  /** What hangs on the resource goes with it; its events and audit stay, for whoever asks why it went. */
  #remove(stored: StoredResource): number {
    const { kind, name, generation } = stored;
    this.#parts.resources.remove(kind, name);
    if (kind === "App") {
      this.#parts.revisions.removeAll(name);
      this.#parts.ports.release(name);
    }
    return this.#parts.changes.append({ type: "deleted", kind, name, generation });
  }

  #note(
    action: "create" | "update" | "delete",
    subject: Pick<ApplyIntent, "actor" | "kind" | "name">,
    changes: readonly FieldChange[],
  ): void {
    this.#parts.audit.append({
      actor: subject.actor.name,
      requestId: subject.actor.requestId ?? null,
      action,
      kind: subject.kind,
      name: subject.name,
      changes,
    });
  }

  #show<K extends Kind>(kind: K, name: string): Resource<K> {
    const stored = this.#parts.transactions.read(() => this.#parts.resources.read(kind, name));
    if (!stored) throw new NotFoundError(`there is no ${kind} ${name}`);
    return this.#parts.resources.show(stored, kind);
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
      hint: "delete it from the file, or send ?force=true to delete it all the same",
      details: { manager: declaring[0] },
    },
  );
}

/** The resource on its way out. Asking again changes nothing, except that volumes or files may now go too. */
function deleting(existing: StoredResource, intent: DeleteIntent, time: string): StoredResource {
  const next = { ...existing, deletionTimestamp: existing.deletionTimestamp ?? time };
  const policy = policyOf(existing.kind, intent);
  if (policy === undefined || existing.annotations[policy] === "delete") return next;
  return {
    ...next,
    annotations: { ...existing.annotations, [policy]: "delete" },
    owners: {
      ...existing.owners,
      [pointer(["metadata", "annotations", policy])]: intent.manager,
    },
    generation: existing.generation + 1,
  };
}

/** The annotation by which the reconciler learns what is to go with the resource. */
function policyOf(kind: Kind, intent: DeleteIntent): string | undefined {
  if (kind === "App" && intent.deleteVolumes) return VOLUME_POLICY;
  return kind === "Model" && intent.deleteFiles ? FILE_POLICY : undefined;
}
