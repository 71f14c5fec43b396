import { randomBytes } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { TokenStore } from "../../store/store.ts";

/**
 * Writes an admin token for the local user to a file that only this user can read (mode 0600), so that no login is
 * needed. Each start creates a new token and revokes the old one.
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
