import { randomBytes } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { TokenStore } from "../../store/store.ts";

/**
 * Gives the user of this machine an admin token without a login: a new one with each start, in a
 * file that only that user can read (0600). The token of an earlier start ends.
 */
export async function writeLocalToken(tokens: TokenStore, file: string): Promise<void> {
  for (const record of tokens.list()) {
    if (record.kind === "local") tokens.revoke(record.id);
  }
  const { token } = tokens.create({
    name: "local",
    scope: "admin",
    kind: "local",
    lifetimeMs: null,
  });
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, `${token}\n`, { mode: 0o600, flag: "wx" });
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}
