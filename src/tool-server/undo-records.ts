import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Static, Type } from "typebox";
import { writeDurably } from "../base/atomic-file.ts";
import { BerthError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";

/**
 * The state of an app before or after a call. Its spec is in the form of the API, in which secret values are
 * references.
 */
const Snapshot = Type.Object({
  uid: Type.String(),
  spec: Type.Record(Type.String(), Type.Unknown()),
  labels: Type.Record(Type.String(), Type.String()),
  /** The number of the revision that was deployed last, even if the deployment failed; null if there was none. */
  revision: Type.Union([Type.Integer(), Type.Null()]),
});
const Resource = Type.Object({ kind: Type.String(), name: Type.String() });
const UndoRecord = Type.Object({
  /** The origin of the Berth server that the call has changed. An undo restores the state only on this server. */
  server: Type.String(),
  app: Type.String(),
  /** The state before the call; null if the app did not exist. */
  before: Type.Union([Snapshot, Type.Null()]),
  /** The state after the call; null if the call deleted the app, and absent if the outcome of the call is unknown. */
  after: Type.Optional(Type.Union([Snapshot, Type.Null()])),
  /** The resources that the call created in addition to the app. */
  created: Type.Array(Resource),
});
export type AppSnapshot = Static<typeof Snapshot>;
export type UndoRecord = Static<typeof UndoRecord>;

const undoRecordValidator = new LazyValidator<UndoRecord>(UndoRecord);

/**
 * The maximum number of stored records. Users undo only their last few calls, and this number covers months of calls.
 */
const RECORDS_MAX = 1_000;
const idPattern = /^[0-9a-f]{32}$/;

/**
 * Stores the states of apps before and after calls, for undo, in one file per call that only this user can read.
 * Results of tools contain only a record's id: a tool that restored a spec that its caller provides could write any
 * spec.
 */
export class UndoRecords {
  readonly #folder: string;
  readonly #recordsMax: number;

  constructor(folder: string, recordsMax = RECORDS_MAX) {
    this.#folder = folder;
    this.#recordsMax = recordsMax;
  }

  /** Stores a record and resolves to its id when the record is on the disk. */
  async add(record: UndoRecord): Promise<string> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await this.#removeOldest();
    // Ids sort by time, so that the oldest records can be found by their file names alone.
    const id = Date.now().toString(16).padStart(12, "0") + randomBytes(10).toString("hex");
    await this.update(id, record);
    return id;
  }

  async update(id: string, record: UndoRecord): Promise<void> {
    await writeDurably(this.#filePath(id), JSON.stringify(record));
  }

  /** Calls `change` for each record and stores its result. If the result is undefined, the record is not changed. */
  async updateEach(change: (record: UndoRecord) => UndoRecord | undefined): Promise<void> {
    for (const id of await this.#listIds()) {
      const record = await this.get(id).catch(() => undefined);
      const changed = record && change(record);
      if (changed) await this.update(id, changed);
    }
  }

  async remove(id: string): Promise<void> {
    await rm(this.#filePath(id), { force: true });
  }

  /** Returns a record. Throws BerthError `not_found` if it no longer exists. */
  async get(id: string): Promise<UndoRecord> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#filePath(id), "utf8"));
      if (undoRecordValidator.isValid(value)) return value;
    } catch {
      // A file that is missing or invalid counts as a record that no longer exists.
    }
    throw new BerthError("not_found", "there is no undo record of that call any more", {
      hint: `only the last ${this.#recordsMax} calls can be undone`,
    });
  }

  async #removeOldest(): Promise<void> {
    const ids = await this.#listIds();
    for (const id of ids.slice(0, Math.max(0, ids.length - this.#recordsMax + 1)))
      await this.remove(id);
  }

  /** Returns the ids of all records, oldest first. */
  async #listIds(): Promise<string[]> {
    return (await readdir(this.#folder))
      .map((file) => file.replace(/\.json$/, ""))
      .filter((id) => idPattern.test(id))
      .toSorted();
  }

  #filePath(id: string): string {
    if (!idPattern.test(id)) throw new BerthError("invalid_request", "undo_id is not valid");
    return join(this.#folder, `${id}.json`);
  }
}
