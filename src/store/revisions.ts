import { type Clock, timestamp } from "../base/clock.ts";
import { NotFoundError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { SpecOf } from "../resources/kinds.ts";
import { flattenFields } from "./field-leaves.ts";
import { deepFreeze, type ResourceTable, type StoredResource } from "./resource-table.ts";
import type { Revision, RevisionLog, TokenScope } from "./store.ts";
import type { Transactions } from "./transactions.ts";
import { listUncheckedFields } from "./unchecked-fields.ts";

/** The number of revisions to keep of an App, which is twice as many as Kubernetes keeps of a Deployment. */
export const REVISIONS_KEPT_MAX = 20;

export class SqliteRevisionLog implements RevisionLog {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #resources: ResourceTable;
  readonly #byHash;
  readonly #byNumber;
  readonly #all;
  readonly #insert;
  readonly #last;
  readonly #update;
  readonly #mark;
  readonly #replaceImage;
  readonly #trim;
  readonly #removeAll;
  readonly #appsWithHostPaths;

  constructor(
    db: SqliteDatabase,
    clock: Clock,
    transactions: Transactions,
    resources: ResourceTable,
  ) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#resources = resources;
    this.#byHash = db.prepare<[string, string], RevisionRow>(
      "SELECT * FROM revisions WHERE app = ? AND spec_hash = ?",
    );
    this.#byNumber = db.prepare<[string, number], RevisionRow>(
      "SELECT * FROM revisions WHERE app = ? AND number = ?",
    );
    this.#all = db.prepare<[string], RevisionRow>(
      "SELECT * FROM revisions WHERE app = ? ORDER BY number DESC",
    );
    this.#last = db
      .prepare<[string], number | null>("SELECT max(number) FROM revisions WHERE app = ?")
      .pluck();
    this.#insert = db.prepare<[RevisionRow]>(`
      INSERT INTO revisions (app, number, generation, spec_hash, spec, image, image_id, digest, created_at, state, message, actor, scope)
      VALUES (@app, @number, @generation, @spec_hash, @spec, @image, @image_id, @digest, @created_at, @state, @message, @actor, @scope)`);
    this.#update = db.prepare<[string, TokenScope, string | null, string | null, string, number]>(
      "UPDATE revisions SET spec = ?, scope = ?, image = coalesce(image, ?), image_id = coalesce(image_id, ?) WHERE app = ? AND number = ?",
    );
    this.#mark = db.prepare<[string, string | null, string, number]>(
      "UPDATE revisions SET state = ?, message = ? WHERE app = ? AND number = ?",
    );
    this.#replaceImage = db.prepare<[{ app: string; number: number; id: string; hash: string }]>(`
      UPDATE revisions SET image_id = @id, spec_hash = CASE
        WHEN EXISTS (SELECT 1 FROM revisions WHERE app = @app AND spec_hash = @hash) THEN spec_hash
        ELSE @hash END
      WHERE app = @app AND number = @number`);
    // Revisions to which a failing rollout may be reverted are never trimmed.
    this.#trim = db.prepare<[{ app: string; keep: number; relied: string }]>(`
      DELETE FROM revisions WHERE app = @app
        AND number NOT IN (
          SELECT number FROM revisions WHERE app = @app ORDER BY number DESC LIMIT @keep)
        AND number NOT IN (SELECT value FROM json_each(@relied))
        AND number IS NOT (
          SELECT max(number) FROM revisions WHERE app = @app AND state = 'stable')`);
    this.#removeAll = db.prepare<[string]>("DELETE FROM revisions WHERE app = ?");
    // The WHERE clause equals that of the index `revisions_with_host_paths`, so that SQLite uses this index.
    this.#appsWithHostPaths = db
      .prepare<[], string>(`SELECT DISTINCT app FROM revisions WHERE instr(spec, '"hostPath"') > 0`)
      .pluck();
  }

  ensure(input: Parameters<RevisionLog["ensure"]>[0]): Revision {
    return this.#transactions.writeLazily(() => {
      const known = this.#byHash.get(input.app, input.specHash);
      const stored = this.#resources.read("App", input.app);
      const scope = stored && isCheckedByAdmin(stored) ? "admin" : "write";
      if (known) {
        const spec = JSON.stringify(input.spec);
        if (
          known.spec === spec &&
          known.scope === scope &&
          (known.image ?? input.image) === known.image &&
          (known.image_id ?? input.imageId) === known.image_id
        ) {
          return toRevision(known);
        }
        this.#update.run(spec, scope, input.image, input.imageId, input.app, known.number);
        return toRevision({
          ...known,
          spec,
          scope,
          image: known.image ?? input.image,
          image_id: known.image_id ?? input.imageId,
        });
      }
      const row: RevisionRow = {
        app: input.app,
        number: (this.#last.get(input.app) ?? 0) + 1,
        generation: input.generation,
        spec_hash: input.specHash,
        spec: JSON.stringify(input.spec),
        image: input.image,
        image_id: input.imageId,
        digest: input.digest ?? null,
        created_at: timestamp(this.#clock.now()),
        state: "attempted",
        message: null,
        actor: stored?.actor ?? "controller",
        scope,
      };
      this.#insert.run(row);
      this.#trim.run({
        app: input.app,
        keep: REVISIONS_KEPT_MAX,
        relied: JSON.stringify(this.#getReferencedNumbers(input.app)),
      });
      return toRevision(row);
    });
  }

  mark(app: string, number: number, state: Revision["state"], message: string | null): void {
    this.#transactions.writeLazily(() => {
      const known = this.#byNumber.get(app, number);
      if (!known) throw new NotFoundError(`App ${app} has no revision ${number}`);
      if (known.state === state && known.message === message) return;
      this.#mark.run(state, message, app, number);
    });
  }

  replaceImage(
    app: string,
    number: number,
    { imageId: id, specHash: hash }: { imageId: string; specHash: string },
  ): void {
    this.#transactions.writeLazily(() => this.#replaceImage.run({ app, number, id, hash }));
  }

  list(app: string): Revision[] {
    return this.#transactions.read(() => this.#all.all(app).map(toRevision));
  }

  get(app: string, number: number): Revision | undefined {
    return this.#transactions.read(() => {
      const row = this.#byNumber.get(app, number);
      return row && toRevision(row);
    });
  }

  listAppsWithHostPaths(): ReadonlySet<string> {
    return this.#transactions.read(() => new Set(this.#appsWithHostPaths.all()));
  }

  /**
   * Returns the revisions that the reconciler refers to: the last stable one, the pinned one, the running one, and
   * that of the spec. Each of them may be old, because users roll back.
   */
  #getReferencedNumbers(app: string): number[] {
    const stored = this.#resources.read("App", app);
    const status = stored && this.#resources.getResource(stored, "App").status;
    if (!status) return [];
    const { revisions, memory } = status;
    return [
      memory.good,
      memory.servedRevisions?.at(-1)?.number ?? null,
      memory.quarantine?.revertedTo ?? null,
      revisions.applied,
      revisions.attempted,
    ].filter((number) => number !== null);
  }

  /** Removes the revisions of an app. Must run in the transaction that removes the app. */
  removeAll(app: string): void {
    this.#removeAll.run(app);
  }
}

interface RevisionRow {
  app: string;
  number: number;
  generation: number;
  spec_hash: string;
  spec: string;
  image: string | null;
  image_id: string | null;
  digest: string | null;
  created_at: string;
  state: Revision["state"];
  message: string | null;
  actor: string;
  scope: TokenScope;
}

function isCheckedByAdmin(stored: StoredResource): boolean {
  const { authors } = stored;
  return listUncheckedFields({ leaves: flattenFields(stored), authors }).length === 0;
}

function toRevision(row: RevisionRow): Revision {
  const spec: SpecOf["App"] = JSON.parse(row.spec);
  return deepFreeze({
    app: row.app,
    number: row.number,
    generation: row.generation,
    specHash: row.spec_hash,
    spec,
    image: row.image,
    imageId: row.image_id,
    digest: row.digest,
    createdAt: row.created_at,
    state: row.state,
    message: row.message,
    actor: row.actor,
    scope: row.scope,
  });
}
