import { hash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import { AssistantError } from "../assistant-error.ts";
import { type EntryValue, entryNames, type NewEntry } from "./port.ts";

/**
 * An entry's body: canonical JSON (RFC 8785), the text whose hash is the leaf.
 *
 *   fields   told in the open
 *   name     one of `entryNames`
 *   prev     leaf hash of the entry before, 64 hex digits; zeros for the first
 *   sealed   commitment to the sealed text, 64 hex digits; absent where nothing is sealed
 *   seq      0 for the first
 *   time     RFC 3339, UTC, when it was handed to the ledger
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

/** Entries of an export have two bytes for their length. */
export const BODY_BYTES_MAX = 65_535;
/** Room for all of a body but its fields: about 300 bytes, and some to spare. */
const FIELDS_BYTES_MAX = BODY_BYTES_MAX - 535;
/** A request's body has 4 MiB at most; escaped as JSON it may grow. */
const SEALED_BYTES_MAX = 16 * 1024 * 1024;
export const SALT_BYTES = 32;
/** `prev` of the first entry. */
export const FIRST_ENTRY_PREV = "0".repeat(64);

/** An entry on its way to the writer: its texts are canonical, and only its place is still open. */
export interface DraftEntry {
  readonly name: string;
  readonly time: string;
  /** Canonical JSON of an object. */
  readonly fields: string;
  /** Canonical JSON. */
  readonly sealed: string | undefined;
  /** The `.dispatch` entry that this one is the result of. */
  readonly dispatch: number | undefined;
}

/** Throws AssistantError `payload_too_large`, or a TypeError where a value has no canonical text. */
export function draftEntry(entry: NewEntry, time: string): DraftEntry {
  assertCanonical(entry.fields, "fields");
  if (entry.sealed !== undefined) assertCanonical(entry.sealed, "sealed");
  const fields = canonicalJson(entry.fields);
  const sealed = entry.sealed === undefined ? undefined : canonicalJson(entry.sealed);
  if (Buffer.byteLength(fields) > FIELDS_BYTES_MAX)
    throw tooLarge(`what it tells in the open is larger than ${FIELDS_BYTES_MAX} bytes`);
  if (sealed !== undefined && Buffer.byteLength(sealed) > SEALED_BYTES_MAX)
    throw tooLarge(`what it seals is larger than ${SEALED_BYTES_MAX} bytes`);
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
  return new AssistantError("payload_too_large", `the ledger cannot take this entry: ${why}`);
}

/** Canonical as it stands: names are in order, and none of the parts needs to be escaped. */
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
 * sha256 over the salt, which is always 32 random bytes, and the text as UTF-8. It tells nothing of the
 * text to who does not have the salt. (HMAC would say the same, and takes a third of a verification.)
 */
export function computeCommitment(salt: Uint8Array, sealed: string): string {
  return hash("sha256", Buffer.concat([salt, Buffer.from(sealed)]), "hex");
}

/** The body in this text; undefined where it is none, or not in its canonical form. */
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

/** Types say this already; a value from a caller that went round them would break the canonical form. */
function assertCanonical(value: unknown, where: string): void {
  switch (typeof value) {
    case "boolean":
    case "string":
      return;
    case "number":
      if (Number.isSafeInteger(value)) return;
      throw new TypeError(`${where} of a ledger entry is a number that is no safe integer`);
    case "object":
      if (value === null) return;
      for (const [name, item] of Object.entries(value)) {
        if (item !== undefined) assertCanonical(item, `${where}.${name}`);
      }
      return;
    default:
      throw new TypeError(`${where} of a ledger entry is a ${typeof value}`);
  }
}
