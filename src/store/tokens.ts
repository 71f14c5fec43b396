import { hash, randomBytes } from "node:crypto";
import { type Clock, timestamp } from "../base/clock.ts";
import { ConflictError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { TokenRecord, TokenScope, TokenStore } from "./store.ts";
import type { Transactions } from "./transactions.ts";

/** The length of a token. 256 random bits cannot be guessed, so an unsalted sha256 is enough to store a token. */
const TOKEN_BYTES = 32;
const PREFIX = "berth_";
/** The longest text that is looked up. Issued tokens are shorter; a longer text is refused before it is hashed. */
const TOKEN_LENGTH_MAX = 100;
/** The last use of a token is stored with this resolution, because each write costs a flush to the disk. */
export const LAST_USED_RESOLUTION_MS = 60_000;
/** The maximum number of sessions. When there are more, the oldest one is removed, because users rarely log out. */
export const SESSIONS_KEPT_MAX = 1_000;

export class SqliteTokenStore implements TokenStore {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #insert;
  readonly #byHash;
  readonly #byName;
  readonly #all;
  readonly #updateLastUsed;
  readonly #remove;
  readonly #removeExpired;
  readonly #trimSessions;
  /**
   * The rows of tokens that requests used since the last change of any token, by hash. Only this object changes
   * tokens, and without the cache each request would read the database.
   */
  readonly #used = new Map<string, TokenRow>();

  constructor(db: SqliteDatabase, clock: Clock, transactions: Transactions) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#insert = db.prepare<[TokenRow]>(`
      INSERT INTO tokens (id, hash, name, scope, kind, created_at, expires_at_ms, last_used_at)
      VALUES (@id, @hash, @name, @scope, @kind, @created_at, @expires_at_ms, @last_used_at)`);
    this.#byHash = db.prepare<[string], TokenRow>("SELECT * FROM tokens WHERE hash = ?");
    this.#byName = db.prepare<[string, string], TokenRow>(
      "SELECT * FROM tokens WHERE kind = ? AND name = ?",
    );
    this.#all = db.prepare<[number], TokenRow>(
      "SELECT * FROM tokens WHERE expires_at_ms IS NULL OR expires_at_ms > ? ORDER BY created_at, id",
    );
    this.#updateLastUsed = db.prepare<[string, string]>(
      "UPDATE tokens SET last_used_at = ? WHERE id = ?",
    );
    this.#remove = db.prepare<[string]>("DELETE FROM tokens WHERE id = ?");
    this.#removeExpired = db.prepare<[number]>("DELETE FROM tokens WHERE expires_at_ms <= ?");
    this.#trimSessions = db.prepare<[number]>(`
      DELETE FROM tokens WHERE kind = 'session' AND id NOT IN (
        SELECT id FROM tokens WHERE kind = 'session' ORDER BY created_at DESC, id LIMIT ?)`);
  }

  create(input: Parameters<TokenStore["create"]>[0]): { token: string; record: TokenRecord } {
    const nowMs = this.#clock.now();
    const token = `${PREFIX}${randomBytes(TOKEN_BYTES).toString("base64url")}`;
    const row: TokenRow = {
      id: randomBytes(8).toString("hex"),
      hash: hashToken(token),
      name: input.name,
      scope: input.scope,
      kind: input.kind,
      created_at: timestamp(nowMs),
      expires_at_ms: input.lifetimeMs === null ? null : nowMs + input.lifetimeMs,
      last_used_at: null,
    };
    this.#write(() => {
      this.#removeExpired.run(nowMs);
      // Only named tokens need a unique name. Several sessions may have the same name, because several people may log
      // in as the same user.
      if (input.kind === "named" && this.#byName.get(input.kind, input.name)) {
        throw new ConflictError("name_taken", `there is a token named "${input.name}" already`, {
          hint: "choose another name, or revoke the existing token first",
        });
      }
      this.#insert.run(row);
      if (input.kind === "session") this.#trimSessions.run(SESSIONS_KEPT_MAX);
    });
    return { token, record: toTokenRecord(row) };
  }

  find(token: string): TokenRecord | undefined {
    if (!token.startsWith(PREFIX) || token.length > TOKEN_LENGTH_MAX) return undefined;
    const nowMs = this.#clock.now();
    const row = this.#findRow(hashToken(token));
    if (!row || (row.expires_at_ms !== null && row.expires_at_ms <= nowMs)) return undefined;
    const lastUsedMs = row.last_used_at === null ? -Infinity : Date.parse(row.last_used_at);
    if (nowMs - lastUsedMs < LAST_USED_RESOLUTION_MS) return toTokenRecord(row);
    const lastUsedAt = timestamp(nowMs);
    this.#write(() => this.#updateLastUsed.run(lastUsedAt, row.id));
    return toTokenRecord({ ...row, last_used_at: lastUsedAt });
  }

  list(): TokenRecord[] {
    return this.#transactions.read(() => this.#all.all(this.#clock.now()).map(toTokenRecord));
  }

  revoke(id: string): boolean {
    return this.#write(() => this.#remove.run(id).changes > 0);
  }

  #findRow(tokenHash: string): TokenRow | undefined {
    const known = this.#used.get(tokenHash);
    if (known) return known;
    const row = this.#transactions.read(() => this.#byHash.get(tokenHash));
    if (row) this.#used.set(tokenHash, row);
    return row;
  }

  /** Changes tokens, and forgets the rows that were read before the change. */
  #write<T>(change: () => T): T {
    try {
      return this.#transactions.write(change);
    } finally {
      this.#used.clear();
    }
  }
}

interface TokenRow {
  id: string;
  hash: string;
  name: string;
  scope: TokenScope;
  kind: TokenRecord["kind"];
  created_at: string;
  expires_at_ms: number | null;
  last_used_at: string | null;
}

function hashToken(token: string): string {
  return hash("sha256", token);
}

function toTokenRecord(row: TokenRow): TokenRecord {
  return {
    id: row.id,
    name: row.name,
    scope: row.scope,
    kind: row.kind,
    createdAt: row.created_at,
    expiresAt: row.expires_at_ms === null ? null : timestamp(row.expires_at_ms),
    lastUsedAt: row.last_used_at,
  };
}
