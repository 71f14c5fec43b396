import { SealBrokenError } from "../../base/sealing-key.ts";
import type { SqliteDatabase } from "../../base/sqlite.ts";
import { LedgerFailure } from "./ledger-failure.ts";
import { belongsTo, openPrivateKey, TextOpener } from "./text-cipher.ts";
import { readTextKeyPair } from "./text-store.ts";

/** The master key of a ledger's texts, or the reason why a reader does not have it; see `FoundMasterKey`. */
export type OfflineMasterKey =
  | { readonly state: "key"; readonly key: Uint8Array }
  | { readonly state: "empty" }
  | { readonly state: "unavailable"; readonly why: string };

/** The means by which a reader of a ledger decrypts its texts, or the reason why it cannot decrypt them. */
export type TextAccess =
  | { readonly opener: TextOpener }
  | {
      readonly opener?: undefined;
      readonly why: string;
      /** True if the master key is gone, and not only out of reach for this reader. */
      readonly isLost: boolean;
    };

/** Opens the private key of the texts. Throws LedgerFailure `tampered` if the public key was replaced. */
export function openTextAccess(
  db: SqliteDatabase,
  master: OfflineMasterKey | undefined,
  ledgerId: string,
): TextAccess {
  const pair = readTextKeyPair(db);
  if (!pair) return { why: "the key pair of the texts is missing in the ledger", isLost: true };
  if (!master) return { why: "the key of the texts was not read", isLost: false };
  if (master.state === "unavailable") return { why: master.why, isLost: false };
  if (master.state === "empty")
    return { why: `the key of the texts is missing in its source, ${pair.source}`, isLost: true };
  try {
    const privateKey = openPrivateKey(pair, master.key, ledgerId);
    if (!belongsTo(pair, privateKey))
      throw new LedgerFailure("tampered", "the public key of the ledger's texts was replaced");
    const find = db.prepare<[number], Buffer>("SELECT wrapped FROM text_key WHERE id = ?").pluck();
    return { opener: new TextOpener(privateKey, (id) => find.get(id)) };
  } catch (error) {
    if (!(error instanceof SealBrokenError)) throw error;
    return {
      why: `the key in the source ${pair.source} is not the key of these texts`,
      isLost: true,
    };
  }
}
