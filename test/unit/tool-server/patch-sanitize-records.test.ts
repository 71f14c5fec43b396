import { mkdtempSync, rmSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyMergePatch, createMergePatch } from "../../../src/resources/merge-patch.ts";
import {
  maskSecretVariables,
  sanitizeText,
  sanitizeValue,
} from "../../../src/tool-server/sanitize-value.ts";
import { UndoRecords } from "../../../src/tool-server/undo-records.ts";

/**
 * Removes empty mappings before a comparison, because a patch may remove all members of a mapping but not the mapping
 * itself.
 */
function without(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).filter(([, item]) => JSON.stringify(item) !== "{}"),
  );
}

describe("patches", () => {
  // The generated specs contain no null, no infinity, no -0, and no mapping that is empty in only one of the two specs.
  const leaf = fc.oneof(
    fc.string(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
    fc.boolean(),
    fc.array(fc.string()),
  );
  const key = fc.constantFrom("a", "b", "c", "d");
  const spec = fc.dictionary(key, fc.oneof(leaf, fc.dictionary(key, leaf, { minKeys: 1 })));

  test("applying the patch between two specs to the first one returns the second one", () => {
    fc.assert(
      fc.property(spec, spec, (from, to) => {
        expect(without(applyMergePatch(from, createMergePatch(from, to)))).toEqual(without(to));
      }),
    );
  });

  test("the patch between equal specs is empty", () => {
    fc.assert(
      fc.property(spec, (one) => {
        expect(createMergePatch(one, one)).toEqual({});
      }),
    );
  });

  test("a patch keeps the fields that it does not name", () => {
    fc.assert(
      fc.property(spec, spec, spec, (from, to, now) => {
        const patch = createMergePatch(from, to);
        const after = applyMergePatch(now, patch);
        const others = Object.keys(now).filter((name) => !Object.hasOwn(patch, name));
        expect(others.map((name) => after[name])).toEqual(others.map((name) => now[name]));
      }),
    );
  });
});

describe("sanitised values", () => {
  test.each([
    ["a\u0000b\u0085c", "abc"],
    ["\u001B[1;31mred\u001B[m", "red"],
    ["\u009B2Jgone", "gone"],
    ["\u001B]8;;https://evil.example\u001B\\link\u001B]8;;\u001B\\", "link"],
    ["\u001B]0;never ended", ""],
    ["\u001B(B text", "B text"],
    ["lines\nand\ttabs", "lines\nand\ttabs"],
    ["postgres://ada:hunter2@db:5432/x", "postgres://(hidden)@db:5432/x"],
    [
      "https://token@example.org, ssh://git@host",
      "https://(hidden)@example.org, ssh://(hidden)@host",
    ],
    ["mail to ada@example.org", "mail to ada@example.org"],
  ])("hide credentials and keep all other text: %j", (text, shown) => {
    expect(sanitizeText(text, 100)).toBe(shown);
  });

  test("a text is never cut inside a surrogate pair", () => {
    expect(sanitizeText(`abc\u{1F600}`, 4)).toBe("abc…");
    expect(sanitizeText(`abc\u{1F600}`, 5)).toBe("abc\u{1F600}");
  });

  test("lengths and depth are limited", () => {
    let deep: unknown = "end";
    for (let depth = 0; depth < 100; depth++) deep = { deep };
    expect(JSON.stringify(sanitizeValue(deep)).length).toBeLessThan(300);
    expect(sanitizeValue(Array.from({ length: 1_000 }, () => 1))).toHaveLength(501);
    expect(sanitizeValue({ ["k".repeat(1_000)]: "v".repeat(10_000) })).toEqual({
      [`${"k".repeat(200)}…`]: `${"v".repeat(4_000)}…`,
    });
  });

  test("values of variables whose names suggest a secret are hidden", () => {
    expect(
      maskSecretVariables({
        API_KEY: "abc",
        PGPASSWORD: "x",
        SESSION_SECRET: "",
        GREETING: "hi",
        PORT: 80,
        DB_TOKEN: { secret: "db" },
      }),
    ).toEqual({
      API_KEY: "(hidden: 3 characters)",
      PGPASSWORD: "(hidden: 1 characters)",
      SESSION_SECRET: "(hidden: 0 characters)",
      GREETING: "hi",
      PORT: 80,
      DB_TOKEN: { secret: "db" },
    });
  });
});

test("the oldest undo records are deleted when their number exceeds the limit", async () => {
  const folder = mkdtempSync(join(tmpdir(), "berth-undo-"));
  try {
    const records = new UndoRecords(join(folder, "undo"), 3);
    const record = { server: "http://a", app: "web", before: null, after: null, created: [] };
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) ids.push(await records.add(record));
    expect(await readdir(join(folder, "undo"))).toHaveLength(3);
    const [first = ""] = ids;
    const last = ids.at(-1) ?? "";
    expect(await records.get(last)).toEqual(record);
    await expect(records.get(first)).rejects.toMatchObject({ code: "not_found" });
    await expect(records.get("../../etc/passwd")).rejects.toMatchObject({ code: "not_found" });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
