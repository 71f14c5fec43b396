import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Static, Type } from "typebox";
import { writeDurably } from "../base/atomic-file.ts";
import { BerthError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";

/** What a call found, and what it came to. Specs are as the API shows them: Secrets are references. */
const Snapshot = Type.Object({
  uid: Type.String(),
  spec: Type.Record(Type.String(), Type.Unknown()),
  labels: Type.Record(Type.String(), Type.String()),
  /** The one that was last tried; null: none was. */
  revision: Type.Union([Type.Integer(), Type.Null()]),
});
const Resource = Type.Object({ kind: Type.String(), name: Type.String() });
const UndoRecord = Type.Object({
  /** Of the server, so that nothing is restored on another one. */
  server: Type.String(),
  app: Type.String(),
  /** null: there was no such app. */
  before: Type.Union([Snapshot, Type.Null()]),
  /** null: the app is gone since. Absent: it is not known what the call came to. */
  after: Type.Optional(Type.Union([Snapshot, Type.Null()])),
  /** What the call made beside the app. */
  created: Type.Array(Resource),
});
export type AppSnapshot = Static<typeof Snapshot>;
export type UndoRecord = Static<typeof UndoRecord>;

const undoRecordValidator = new LazyValidator<UndoRecord>(UndoRecord);

/** A person takes back the last few calls; these are months of them. */
const RECORDS_MAX = 1_000;
const idPattern = /^[0-9a-f]{32}$/;

/**
 * The states that calls found, for taking them back, one file each, readable by this user only. They stay
 * here rather than in results: a tool that took a spec from its caller would be a way to write any spec.
 */
export class UndoRecords {
  readonly #folder: string;
  readonly #recordsMax: number;

  constructor(folder: string, recordsMax = RECORDS_MAX) {
    this.#folder = folder;
    this.#recordsMax = recordsMax;
  }

  /** On the disk when it resolves to the record's id. */
  async add(record: UndoRecord): Promise<string> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await this.#removeOldest();
    // Ids are in the order of time, so that the oldest are known by their names.
    const id = Date.now().toString(16).padStart(12, "0") + randomBytes(10).toString("hex");
    await this.update(id, record);
    return id;
  }

  async update(id: string, record: UndoRecord): Promise<void> {
    await writeDurably(this.#filePath(id), JSON.stringify(record));
  }

  /** Each of them once: what `change` returns is kept in its place; undefined leaves it as it is. */
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

  /** Throws BerthError `not_found` where it is not there any more. */
  async get(id: string): Promise<UndoRecord> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#filePath(id), "utf8"));
      if (undoRecordValidator.isValid(value)) return value;
    } catch {
      // Said below, for every way of not being there.
    }
    throw new BerthError("not_found", `what was there before that call is not known any more`, {
      hint: `the last ${this.#recordsMax} calls can be taken back`,
    });
  }

  async #removeOldest(): Promise<void> {
    const ids = await this.#listIds();
    for (const id of ids.slice(0, Math.max(0, ids.length - this.#recordsMax + 1)))
      await this.remove(id);
  }

  /** Oldest first. */
  async #listIds(): Promise<string[]> {
    return (await readdir(this.#folder))
      .map((file) => file.replace(/\.json$/, ""))
      .filter((id) => idPattern.test(id))
      .toSorted();
  }

  #filePath(id: string): string {
    if (!idPattern.test(id)) throw new BerthError("invalid_request", "undo_id is none of ours");
    return join(this.#folder, `${id}.json`);
  }
}
