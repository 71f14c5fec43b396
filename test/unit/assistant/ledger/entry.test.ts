import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  BODY_BYTES_MAX,
  computeCommitment,
  draftEntry,
  FIRST_ENTRY_PREV,
  formatBody,
  parseBody,
} from "../../../../src/assistant/ledger/ledger-entry.ts";
import type { EntryValue } from "../../../../src/assistant/ledger/port.ts";
import { canonicalJson } from "../../../../src/base/canonical-json.ts";

const TIME = "2026-11-21T10:00:00.000Z";
const name = "inference.generate";

const values = fc.letrec<{ value: EntryValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    fc.maxSafeInteger(),
    fc.string({ unit: "binary" }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.string({ unit: "binary" }), tie("value"), { maxKeys: 4 }),
  ),
})).value;

it("the body of a ledger entry is canonical JSON for any fields", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ unit: "binary" }), values, { maxKeys: 4 }),
      fc.nat(),
      (fields, seq) => {
        const place = { seq, prev: FIRST_ENTRY_PREV, commitment: "ab" };
        const text = formatBody(draftEntry({ name, fields }, TIME), place);
        const body: unknown = JSON.parse(text);
        expect(text).toBe(canonicalJson(body));
        expect(parseBody(text)).toEqual(body);
        expect(body).toMatchObject({
          name,
          seq,
          prev: FIRST_ENTRY_PREV,
          sealed: "ab",
          time: TIME,
          v: 1,
        });
      },
    ),
  );
});

it("a ledger entry with a value that has no canonical text is refused", () => {
  for (const bad of [1.5, Number.NaN, 2 ** 53, 10n, () => 1]) {
    const fields: Record<string, EntryValue> = {};
    Object.assign(fields, { deep: { in: [bad] } });
    expect(() => draftEntry({ name, fields }, TIME)).toThrow(/fields\.deep\.in\.0/);
  }
});

it("fields that are too long for an export are refused", () => {
  const fits = draftEntry({ name, fields: { text: "x".repeat(64_900) } }, TIME);
  const prev = "f".repeat(64);
  const longest = formatBody(fits, { seq: Number.MAX_SAFE_INTEGER, prev, commitment: prev });
  expect(Buffer.byteLength(longest)).toBeLessThanOrEqual(BODY_BYTES_MAX);
  expect(() => draftEntry({ name, fields: { text: "ü".repeat(40_000) } }, TIME)).toThrow(
    expect.objectContaining({ code: "payload_too_large" }),
  );
  const sealed = "x".repeat(17 * 1024 * 1024);
  expect(() => draftEntry({ name, fields: {}, sealed }, TIME)).toThrow(
    expect.objectContaining({ code: "payload_too_large" }),
  );
});

it("the commitment to a field is the sha256 of the salt and the canonical text", () => {
  const { sealed } = draftEntry({ name, fields: {}, sealed: { b: 1, a: "ü" } }, TIME);
  expect(sealed).toBe('{"a":"ü","b":1}');
  const salt = Buffer.alloc(32, 3);
  const expected = createHash("sha256")
    .update(salt)
    .update(Buffer.from('{"a":"ü","b":1}'))
    .digest("hex");
  expect(computeCommitment(salt, sealed ?? "")).toBe(expected);
});

it("parseBody() returns undefined for an invalid body of a ledger entry", () => {
  const good = formatBody(draftEntry({ name, fields: {} }, TIME), {
    seq: 1,
    prev: FIRST_ENTRY_PREV,
    commitment: undefined,
  });
  expect(parseBody(good)).toBeDefined();
  for (const text of [
    "",
    "null",
    "[]",
    "{}",
    good.replace('"v":1', '"v":2'),
    good.replace(name, "x"),
  ])
    expect([text, parseBody(text)]).toEqual([text, undefined]);
});
