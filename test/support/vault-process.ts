import { EncryptedVault } from "../../src/assistant/remote/vault/encrypted-vault.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";

/**
 * A separate process that stores and removes credentials one after the other in the vault of `DIR`, for tests that kill
 * it. Prints `put ID NUMBER` before and `has ID NUMBER` after each write, and `remove` before and `gone` after each
 * removal.
 */
const [dir] = process.argv.slice(2);
if (dir === undefined) throw new Error("usage: vault-process.ts DIR");

const vault = await EncryptedVault.open({
  dir,
  environment: {},
  clock: systemClock,
  logger: silentLogger,
});
const say = (line: string) => void process.stdout.write(`${line}\n`);
say("open");
for (let number = 1; ; number += 1) {
  const id = `p${number % 3}`;
  if (number % 4 === 0) {
    say(`remove ${id} ${number}`);
    await vault.remove(id);
    say(`gone ${id} ${number}`);
    continue;
  }
  say(`put ${id} ${number}`);
  const key = `${number} `.padEnd(2_000, "k");
  await vault.put({ id, origin: `https://${id}.example` }, { kind: "key", key });
  say(`has ${id} ${number}`);
}
