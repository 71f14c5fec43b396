import type { SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { getNumberOrUndefined, unexpectedAnswer } from "./json-fields.ts";

/** The longest time that an erasure of texts may take. For a large ledger the companion has to overwrite gigabytes. */
const ERASE_MS_MAX = 30 * 60_000;

/** The result of an erasure; `first` and `last` are the first and the last entry whose text was erased, if any. */
export interface EraseReport {
  readonly texts: number;
  readonly entries: number;
  readonly first: number | null;
  readonly last: number | null;
}

/** A client of the interface Ledger1, which has no bus name of its own. Its method rejects with BerthErrors. */
export class LedgerClient {
  readonly #ledger: BusInterface;

  constructor(bus: SessionBus) {
    this.#ledger = new BusInterface(bus, "dev.assistant.Ledger1", "dev.assistant.Agent1");
  }

  /** Erases the sealed texts of entries that are older than this RFC 3339 time. */
  async eraseTexts(before: string, signal: AbortSignal): Promise<EraseReport> {
    const limits = { signal, timeoutMs: ERASE_MS_MAX };
    const report = await this.#ledger.callJson("EraseTexts", "s", [before], limits);
    const texts = getNumberOrUndefined(report, "texts");
    const entries = getNumberOrUndefined(report, "entries");
    if (texts === undefined || entries === undefined) throw unexpectedAnswer(undefined);
    const first = getNumberOrUndefined(report, "first") ?? null;
    const last = getNumberOrUndefined(report, "last") ?? null;
    return { texts, entries, first, last };
  }
}
