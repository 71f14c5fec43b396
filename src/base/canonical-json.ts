import { createHash } from "node:crypto";
import { isObject } from "./json.ts";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * Returns JSON with sorted keys and no white space, so that equal values have equal texts (the form of
 * RFC 8785 for the values that specs can hold). Keys with the value undefined are omitted.
 */
export function canonicalJson(value: unknown): string {
  // Each entry of the ledger is written with this function, so it makes no intermediate lists.
  let text = "";
  if (Array.isArray(value)) {
    for (const item of value) text += `${text === "" ? "" : ","}${canonicalJson(item ?? null)}`;
    return `[${text}]`;
  }
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  for (const key of Object.keys(value).toSorted()) {
    const item = value[key];
    if (item === undefined) continue;
    text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(item)}`;
  }
  return `{${text}}`;
}

/** Returns the sha256 of the canonical JSON as 64 hexadecimal characters. */
export function hashJson(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

export function deepEqual(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b);
}
