import { BerthError } from "../base/errors.ts";
import type { Durability } from "../base/sqlite.ts";
import { generateSecretKey, readSecretKey, writeSecretKey } from "./secret-key.ts";
import { createKeyCheck } from "./secret-values.ts";
import type { Settings } from "./store.ts";

/**
 * Returns the key of the secrets, which is created with the store. Throws if the key is missing although the store
 * exists, or if it belongs to another store.
 */
export function loadSecretKey(
  options: { readonly dataDir: string; readonly durability: Durability },
  meta: Settings,
): Buffer {
  const check = meta.get("keyCheck");
  let key = readSecretKey(options.dataDir);
  if (check === undefined) {
    if (!key) {
      key = generateSecretKey();
      writeSecretKey(options.dataDir, key, options.durability);
    }
    meta.set("keyCheck", createKeyCheck(key));
    return key;
  }
  if (!key || createKeyCheck(key) !== check) {
    const what = key ? "belongs to another store" : "is missing";
    throw new BerthError("store_corrupt", `the key of the secrets (secret.key) ${what}`, {
      hint: "put the right key file back, or restore the last good backup with: berth restore FILE",
    });
  }
  return key;
}
