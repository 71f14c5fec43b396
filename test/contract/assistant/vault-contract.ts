import { describe, expect, test } from "vitest";
import type { Credential, Vault } from "../../../src/assistant/remote/vault/port.ts";

const owner = { id: "openrouter", origin: "https://openrouter.ai" };
const other = { id: "mistral", origin: "https://api.mistral.ai" };
const key: Credential = { kind: "key", key: "sk-1" };
const session: Credential = {
  kind: "oauth",
  accessToken: "access",
  refreshToken: "refresh",
  expiresAtMs: Date.UTC(2030, 0, 1),
  clientId: "client",
};

/** Checks, for any implementation of `Vault`, the behaviour that its callers rely on. */
export function vaultContract(name: string, open: () => Promise<Vault>): void {
  describe(`Vault: ${name}`, () => {
    test.each([
      ["a key", key],
      ["a session", session],
      [
        "a session without a refresh token and an end",
        {
          ...session,
          refreshToken: undefined,
          expiresAtMs: undefined,
        },
      ],
    ])("the vault returns %s exactly as it was stored", async (_, credential) => {
      const vault = await open();
      await vault.put(owner, credential);
      expect(await vault.get(owner)).toEqual(credential);
    });

    test("a credential is not read for another provider, nor for another origin of the same provider", async () => {
      const vault = await open();
      await vault.put(owner, key);
      expect(await vault.get(other)).toBeUndefined();
      expect(await vault.get({ ...owner, origin: "https://openrouter.example" })).toBeUndefined();
    });

    test("a second credential replaces the first", async () => {
      const vault = await open();
      await vault.put(owner, key);
      await vault.put(owner, session);
      expect(await vault.get(owner)).toEqual(session);
      expect(vault.describe(owner.id).kind).toBe("oauth");
    });

    test("a removed credential is gone, and the other credentials remain", async () => {
      const vault = await open();
      await vault.put(owner, key);
      await vault.put(other, key);
      expect(await vault.remove(owner.id)).toBe(true);
      expect(await vault.remove(owner.id)).toBe(false);
      expect(await vault.get(owner)).toBeUndefined();
      expect(await vault.get(other)).toEqual(key);
    });

    test("the vault describes a credential without showing its value", async () => {
      const vault = await open();
      expect(vault.describe(owner.id)).toEqual({
        present: false,
        kind: null,
        set_at: null,
        expires_at: null,
      });
      await vault.put(owner, session);
      const state = vault.describe(owner.id);
      expect(state).toMatchObject({
        present: true,
        kind: "oauth",
        expires_at: "2030-01-01T00:00:00.000Z",
      });
      expect(state.set_at).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      expect(JSON.stringify(state)).not.toMatch(/access|refresh/);
      await vault.put(owner, key);
      expect(vault.describe(owner.id)).toMatchObject({ kind: "key", expires_at: null });
    });

    test("the vault reports how it protects credentials", async () => {
      expect((await open()).protection()).toEqual({
        source: "file",
        state: "ready",
        message: null,
      });
    });
  });
}
