import { onTestFinished } from "vitest";
import { OfflineLedger } from "../../../src/assistant/ledger/offline-ledger.ts";
import { FakeLedger } from "../../support/fake-ledger.ts";
import { createStateDirectory, openTestLedger } from "../../support/ledger-fixtures.ts";
import { ledgerContract } from "./ledger-contract.ts";

const isOwn = ({ name }: { name: string }) => name.startsWith("ledger.");

ledgerContract("SQLite", async () => {
  const dir = createStateDirectory();
  const ledger = await openTestLedger(dir);
  onTestFinished(() => ledger[Symbol.asyncDispose]());
  const entries = () => {
    using file = OfflineLedger.open(dir);
    return file
      .tail(1_000)
      .map(({ body: { name, fields } }) => ({ name, fields }))
      .filter((entry) => !isOwn(entry));
  };
  return { ledger, entries };
});

ledgerContract("fake", async () => {
  const ledger = new FakeLedger();
  return {
    ledger,
    entries: () =>
      ledger.entries.filter((entry) => !isOwn(entry)).map(({ name, fields }) => ({ name, fields })),
  };
});
