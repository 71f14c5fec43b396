import Database from "better-sqlite3";
import { migrate } from "../base/sqlite.ts";
import { migrations } from "./migrations.ts";

interface SchemaObject {
  readonly type: string;
  readonly name: string;
}

/**
 * True if a backup has every table and index of its schema version, and no view or trigger of its own. SQL in a backup
 * would run in the restored store at each write.
 */
export function hasStoreSchema(db: Database.Database, version: number): boolean {
  if (version < 1) return false;
  const expected = new Database(":memory:");
  try {
    migrate(expected, migrations.slice(0, version));
    const wanted = new Set(listObjects(expected).map(format));
    const found = listObjects(db);
    const names = new Set(found.map(format));
    const isProgram = ({ type }: SchemaObject) => type === "view" || type === "trigger";
    return (
      [...wanted].every((one) => names.has(one)) &&
      found.every((one) => !isProgram(one) || wanted.has(format(one)))
    );
  } finally {
    expected.close();
  }
}

/** Lists the objects of a database, except those of SQLite itself. */
function listObjects(db: Database.Database): SchemaObject[] {
  return db
    .prepare<[], SchemaObject>(
      "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .all();
}

function format({ type, name }: SchemaObject): string {
  return `${type} ${name}`;
}
