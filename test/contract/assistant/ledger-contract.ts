import { describe, expect, test } from "vitest";
import type { Ledger, NewEntry } from "../../../src/assistant/ledger/port.ts";

export interface LedgerHarness {
  readonly ledger: Ledger;
  /**
   * The names and fields of the entries in the ledger, in order, without the entries that the ledger writes itself.
   */
  readonly entries: () => readonly { readonly name: string; readonly fields: unknown }[];
}

const search: NewEntry = { name: "context.search", fields: { model: "tiny", number: 1 } };

/** Checks, for any implementation of `Ledger`, the behaviour that its callers rely on. */
export function ledgerContract(name: string, open: () => Promise<LedgerHarness>): void {
  describe(`Ledger: ${name}`, () => {
    test("an entry is in the ledger when its append resolves", async () => {
      const { ledger, entries } = await open();
      const receipt = await ledger.append(search);
      expect(entries()).toEqual([{ name: search.name, fields: search.fields }]);
      expect(receipt.leaf).toMatch(/^[0-9a-f]{64}$/);
    });

    test("entries get numbers without gaps, in the order of their appends", async () => {
      const { ledger, entries } = await open();
      const numbers = Array.from({ length: 20 }, (_, number) => number);
      const receipts = await Promise.all(
        numbers.map((number) => ledger.append({ ...search, fields: { number } })),
      );
      const [first = { seq: 0 }] = receipts;
      expect(receipts.map(({ seq }) => seq - first.seq)).toEqual(numbers);
      expect(new Set(receipts.map(({ leaf }) => leaf)).size).toBe(20);
      expect(entries().map(({ fields }) => fields)).toEqual(numbers.map((number) => ({ number })));
    });

    test("an entry that the ledger may write later keeps its place before the entries appended after it", async () => {
      const { ledger, entries } = await open();
      await Promise.all([
        ledger.append({ ...search, fields: { number: 0 } }, { mayWait: true }),
        ledger.append({ ...search, fields: { number: 1 } }),
      ]);
      expect(entries().map(({ fields }) => fields)).toEqual([{ number: 0 }, { number: 1 }]);
    });

    test("an entry that the ledger may write later is written even if no other entry is appended", async () => {
      const { ledger, entries } = await open();
      await ledger.append(search, { mayWait: true });
      expect(entries()).toHaveLength(1);
    });

    test("a caller that changes its entry after the append changes nothing in the ledger", async () => {
      const { ledger, entries } = await open();
      const fields = { number: 1 };
      const appended = ledger.append({ ...search, fields });
      fields.number = 2;
      await appended;
      expect(entries()).toEqual([{ name: search.name, fields: { number: 1 } }]);
    });

    test.each([
      ["a number that is not a safe integer", { number: 0.5 }, "not a safe integer"],
      ["an entry above the limit", { text: "x".repeat(200_000) }, "cannot store this entry"],
    ])("the ledger refuses %s, and accepts the next entry", async (_, fields, reason) => {
      const { ledger, entries } = await open();
      await expect(ledger.append({ ...search, fields })).rejects.toThrow(reason);
      await ledger.append(search);
      expect(entries()).toHaveLength(1);
    });
  });
}
