// Stores notes in one JSON file. Each change replaces the whole file, so that after a crash the file has either the
// old or the new content.
import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";

export class NoteStore {
  #path;
  /** The notes by id: { id, title, body, created_at, changed_at } */
  #notes = new Map();
  /** The promise of the last change; the next change waits for it. */
  #changing = Promise.resolve();

  static async open(path) {
    const store = new NoteStore(path);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    let text = "[]";
    try {
      text = await readFile(path, "utf8");
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
    for (const note of JSON.parse(text)) store.#notes.set(note.id, note);
    return store;
  }

  constructor(path) {
    this.#path = path;
  }

  async create({ title, body }) {
    return await this.#change((notes) =>
      put(notes, { id: randomUUID(), title, body, created_at: now() }),
    );
  }

  list(limit = 50) {
    const all = [...this.#notes.values()].toReversed();
    return all.slice(0, limit).map(({ body, ...rest }) => rest);
  }

  read(id) {
    return find(this.#notes, id);
  }

  search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return [...this.#notes.values()].toReversed().filter(({ title, body }) => {
      const text = `${title}\n${body}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  async update({ id, title, body }) {
    return await this.#change((notes) => {
      const before = find(notes, id);
      return { ...put(notes, { ...before, title, body }), before };
    });
  }

  async delete(id) {
    return await this.#change((notes) => {
      const note = find(notes, id);
      notes.delete(id);
      return note;
    });
  }

  async restore({ id, title, body, created_at }) {
    return await this.#change((notes) => put(notes, { id, title, body, created_at }));
  }

  /** Runs changes one after the other. A change that cannot be written to the disk is discarded. */
  async #change(edit) {
    const changing = this.#changing.then(async () => {
      const notes = new Map(this.#notes);
      const result = edit(notes);
      await write(this.#path, [...notes.values()]);
      this.#notes = notes;
      return result;
    });
    this.#changing = changing.catch(() => {});
    return await changing;
  }
}

function find(notes, id) {
  const note = notes.get(id);
  if (!note) throw new Error(`there is no note ${id}: list_notes has those that there are`);
  return note;
}

function put(notes, note) {
  const changed = { ...note, changed_at: now() };
  // Moves the note to the end, so that the map lists the notes in the order of their last changes.
  notes.delete(note.id);
  notes.set(note.id, changed);
  return changed;
}

async function write(path, notes) {
  const temporary = `${path}.new`;
  const file = await open(temporary, "w", 0o600);
  try {
    await file.writeFile(JSON.stringify(notes, undefined, 2));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}

function now() {
  return new Date().toISOString();
}
