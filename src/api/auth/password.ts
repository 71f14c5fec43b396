import { randomBytes, randomInt, scrypt, timingSafeEqual } from "node:crypto";
import type { Settings, TokenStore } from "../../store/store.ts";

const SETTING = "auth.password";

/** The parameters that OWASP recommends for scrypt with 32 MiB of memory. One hash takes about 100 ms on one core. */
const COST = { N: 2 ** 15, r: 8, p: 1 } as const;
const KEY_BYTES = 32;

/**
 * Ensures that there is a password. `configured` is the value of BERTH_PASSWORD. If it differs from the stored
 * password, it replaces the stored password, and every session ends. If `configured` is undefined, the first start
 * creates a password and returns it, so that the caller can print it once; later starts return undefined.
 */
export async function ensurePassword(
  store: { readonly settings: Settings; readonly tokens: TokenStore },
  configured: string | undefined,
): Promise<string | undefined> {
  const stored = store.settings.get(SETTING);
  if (configured !== undefined && configured !== "") {
    if (stored !== undefined && (await matchesHash(configured, stored))) return undefined;
    store.settings.set(SETTING, await hashPassword(configured));
    for (const token of store.tokens.list()) {
      if (token.kind === "session") store.tokens.revoke(token.id);
    }
    return undefined;
  }
  if (stored !== undefined) return undefined;
  const made = generatePassword();
  store.settings.set(SETTING, await hashPassword(made));
  return made;
}

/** Returns false for a wrong password, or if none is set. Takes the same time in every case. */
export async function verifyPassword(settings: Settings, password: string): Promise<boolean> {
  const stored = settings.get(SETTING);
  if (stored === undefined) {
    await deriveKey(password, Buffer.alloc(16), COST);
    return false;
  }
  return matchesHash(password, stored);
}

/** Returns `scrypt$N$r$p$salt$key`, with salt and key in base64url. */
async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const key = await deriveKey(password, salt, COST);
  const { N, r, p } = COST;
  return ["scrypt", N, r, p, salt.toString("base64url"), key.toString("base64url")].join("$");
}

async function matchesHash(password: string, stored: string): Promise<boolean> {
  const [scheme, N, r, p, salt, key] = stored.split("$");
  if (scheme !== "scrypt" || salt === undefined || key === undefined) return false;
  const cost = { N: Number(N), r: Number(r), p: Number(p) };
  const expected = Buffer.from(key, "base64url");
  const derived = await deriveKey(password, Buffer.from(salt, "base64url"), cost);
  return derived.length === expected.length && timingSafeEqual(derived, expected);
}

/** Hashes are computed one at a time, because each needs 32 MiB and many logins must not exhaust the memory. */
let queue: Promise<unknown> = Promise.resolve();

function deriveKey(
  password: string,
  salt: Buffer,
  cost: { N: number; r: number; p: number },
): Promise<Buffer> {
  const run = () =>
    new Promise<Buffer>((resolve, reject) => {
      const options = { ...cost, maxmem: 256 * cost.N * cost.r };
      scrypt(password.normalize("NFKC"), salt, KEY_BYTES, options, (error, key) => {
        if (error) reject(error);
        else resolve(key);
      });
    });
  const result = queue.then(run, run);
  queue = result.catch(() => undefined);
  return result;
}

/** Letters and digits that are not easily confused; 24 of them have about 119 bits. */
const ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789";

function generatePassword(): string {
  const groups = Array.from({ length: 4 }, () =>
    Array.from({ length: 6 }, () => ALPHABET[randomInt(ALPHABET.length)]).join(""),
  );
  return groups.join("-");
}
