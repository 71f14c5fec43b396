import { hash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import { AssistantError } from "../assistant-error.ts";
import { type EntryValue, entryNames, type NewEntry } from "./port.ts";

/**
 * The members of an entry's body. The body is canonical JSON (RFC 8785); its hash is the leaf hash of the entry.
 *
 *   fields   values that everyone who has the ledger can read
 *   name     one of `entryNames`
 *   prev     leaf hash of the previous entry, 64 hex digits; zeros in the first entry
 *   sealed   commitment to the sealed text, 64 hex digits; absent without a sealed text
 *   seq      0 in the first entry
 *   time     RFC 3339, UTC, when `append` was called
 *   v        1
 */
export interface EntryBody {
  readonly fields: { readonly [name: string]: EntryValue };
  readonly name: string;
  readonly prev: string;
  readonly sealed?: string;
  readonly seq: number;
  readonly time: string;
  readonly v: 1;
}

/** The largest size of an entry's body, because an export stores its length in two bytes. */
export const BODY_BYTES_MAX = 65_535;
/** The largest size of `fields`. It leaves 535 bytes for the rest of the body, which needs about 300. */
const FIELDS_BYTES_MAX = BODY_BYTES_MAX - 535;
/** The largest size of a sealed text. The body of a request has at most 4 MiB, and escaping as JSON may enlarge it. */
const SEALED_BYTES_MAX = 16 * 1024 * 1024;
export const SALT_BYTES = 32;
/** The value of `prev` in the first entry. */
export const FIRST_ENTRY_PREV = "0".repeat(64);

/** An entry that waits to be written. The writer adds `seq` and `prev`. */
export interface DraftEntry {
  readonly name: string;
  readonly time: string;
  /** The public fields of the entry: an object, written as canonical JSON. */
  readonly fields: string;
  /** The text to be sealed, as canonical JSON. Undefined if the entry has no sealed text. */
  readonly sealed: string | undefined;
  /** For an entry that records a result: the `seq` of its `.dispatch` entry. */
  readonly dispatch: number | undefined;
}

/**
 * Validates and serialises a new entry. Throws AssistantError `payload_too_large`, or a TypeError for a value without a
 * canonical form.
 */
export function draftEntry(entry: NewEntry, time: string): DraftEntry {
  assertCanonical(entry.fields, "fields");
  if (entry.sealed !== undefined) assertCanonical(entry.sealed, "sealed");
  const fields = canonicalJson(entry.fields);
  const sealed = entry.sealed === undefined ? undefined : canonicalJson(entry.sealed);
  if (Buffer.byteLength(fields) > FIELDS_BYTES_MAX)
    throw tooLarge(`the fields of the entry have more than ${FIELDS_BYTES_MAX} bytes`);
  if (sealed !== undefined && Buffer.byteLength(sealed) > SEALED_BYTES_MAX)
    throw tooLarge(`the sealed text of the entry has more than ${SEALED_BYTES_MAX} bytes`);
  const { dispatch } = entry.fields;
  return {
    name: entry.name,
    time,
    fields,
    sealed,
    dispatch: typeof dispatch === "number" ? dispatch : undefined,
  };
}

function tooLarge(why: string): AssistantError {
  return new AssistantError("payload_too_large", `the ledger cannot store this entry: ${why}`);
}

/**
 * Returns the body of an entry as canonical JSON. The members are in alphabetical order, and no value needs escaping,
 * because `fields` is JSON already.
 */
export function formatBody(
  draft: Pick<DraftEntry, "fields" | "name" | "time">,
  position: {
    readonly seq: number;
    readonly prev: string;
    readonly commitment: string | undefined;
  },
): string {
  const sealed = position.commitment === undefined ? "" : `"sealed":"${position.commitment}",`;
  return `{"fields":${draft.fields},"name":"${draft.name}","prev":"${position.prev}",${sealed}"seq":${position.seq},"time":"${draft.time}","v":1}`;
}

/**
 * Returns the commitment to a sealed text: sha256 over the salt (always 32 random bytes) and the text as UTF-8. The
 * random salt prevents guessing the text from its hash. HMAC would be as safe, but slower: it would take up a third of
 * the time of `berth ledger verify`.
 */
export function computeCommitment(salt: Uint8Array, sealed: string): string {
  return hashSaltedText(Buffer.concat([salt, Buffer.from(sealed)]));
}

/** Returns the commitment to a sealed text, from its salt followed by the text as UTF-8. */
export function hashSaltedText(salted: Uint8Array): string {
  return hash("sha256", salted, "hex");
}

/** Parses the body of an entry. Returns undefined if the text is not a valid body. */
export function parseBody(text: string): EntryBody | undefined {
  try {
    const body: unknown = JSON.parse(text);
    return isBody(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

const knownNames: ReadonlySet<string> = new Set(entryNames);

function isBody(value: unknown): value is EntryBody {
  if (typeof value !== "object" || value === null) return false;
  const body: Partial<Record<keyof EntryBody, unknown>> = value;
  return (
    body.v === 1 &&
    Number.isSafeInteger(body.seq) &&
    typeof body.time === "string" &&
    typeof body.prev === "string" &&
    typeof body.name === "string" &&
    knownNames.has(body.name) &&
    (body.sealed === undefined || typeof body.sealed === "string") &&
    typeof body.fields === "object" &&
    body.fields !== null
  );
}

/** Throws TypeError for a value without a canonical form, which can get here only if the caller bypassed the types. */
function assertCanonical(value: unknown, where: string): void {
  switch (typeof value) {
    case "boolean":
    case "string":
      return;
    case "number":
      if (Number.isSafeInteger(value)) return;
      throw new TypeError(`${where} of a ledger entry is a number that is not a safe integer`);
    case "object":
      if (value === null) return;
      for (const [name, item] of Object.entries(value)) {
        if (item !== undefined) assertCanonical(item, `${where}.${name}`);
      }
      return;
    default:
      throw new TypeError(
        `${where} of a ledger entry has the type ${typeof value}, which JSON lacks`,
      );
  }
}
