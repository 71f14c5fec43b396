import { mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BusPeer, busError, callPeer, NOT_FOUND, parsePeerJson } from "./bus-peer.ts";

export interface RemotePeer extends BusPeer {
  /** Completes the running sign-in at openrouter as if the user had denied it in the browser. */
  denyLogin(): void;
}

const text = expect.any(String);
const added = { id: "work", base_url: "http://127.0.0.1:9/v1", builtin: false, auth: "key" };

/** Checks the behaviour that clients of Remote1 rely on. */
export function remoteBusContract(name: string, open: () => Promise<RemotePeer>): void {
  describe(`Remote1: ${name}`, () => {
    let peer: RemotePeer;
    beforeEach(async () => {
      peer = await open();
    });
    afterEach(() => peer[Symbol.asyncDispose]());

    const state = async () => parsePeerJson((await callPeer(peer, "State"))[0]);
    const add = () => callPeer(peer, "AddProvider", "work", "Work", "http://127.0.0.1:9/v1");

    it("describes providers, consent, sign-ins and the protection of keys", async () => {
      const openrouter = {
        id: "openrouter",
        display_name: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        builtin: true,
        auth: "sign_in",
        address_class: "public",
        status: "unknown",
        credential: { present: false, kind: null, set_at: null, expires_at: null },
        last_used: null,
      };
      expect(await state()).toEqual({
        v: 1,
        providers: expect.arrayContaining([openrouter]),
        consent: {
          prompt: false,
          files: false,
          mail: false,
          calendar: false,
          screen: false,
          memory: false,
        },
        login: { pending: [] },
        protection: { source: text, state: "ready", message: null },
      });
    });

    it("refuses to add a provider twice, and to remove it twice", async () => {
      expect(await add()).toEqual([]);
      const match = { providers: expect.arrayContaining([expect.objectContaining(added)]) };
      expect(await state()).toMatchObject(match);
      await expect(add()).rejects.toMatchObject(busError("dev.assistant.Error.Exists"));
      expect(await callPeer(peer, "RemoveProvider", "work")).toEqual([]);
      expect(await state()).not.toMatchObject(match);
      await expect(callPeer(peer, "RemoveProvider", "work")).rejects.toMatchObject(NOT_FOUND);
    });

    it("stores and clears a key, and reveals only that a key exists", async () => {
      const dir = mkdtempSync(join(tmpdir(), "berth-key-"));
      writeFileSync(join(dir, "key"), "sk-canary-1");
      await callPeer(peer, "SetKeyFd", "openrouter", openSync(join(dir, "key"), "r"));
      rmSync(dir, { recursive: true });
      const credential = { present: true, kind: "key", set_at: text };
      expect(await state()).toMatchObject({
        providers: expect.arrayContaining([
          expect.objectContaining({ credential: expect.objectContaining(credential) }),
        ]),
      });
      expect(JSON.stringify(await state())).not.toContain("canary");
      await callPeer(peer, "ClearKey", "openrouter");
      expect(JSON.stringify(await state())).not.toContain('"present":true');
    });

    it("changes consent, and refuses an unknown scope", async () => {
      await callPeer(peer, "SetConsent", "files", true);
      expect(await state()).toMatchObject({ consent: { files: true, mail: false } });
      await callPeer(peer, "SetConsent", "files", false);
      expect(await state()).toMatchObject({ consent: { files: false } });
      await expect(callPeer(peer, "SetConsent", "photos", true)).rejects.toMatchObject(
        busError("org.freedesktop.DBus.Error.InvalidArgs"),
      );
    });

    it("begins a sign-in with an address for the browser, and announces its end", async () => {
      expect(await callPeer(peer, "BeginLogin", "openrouter")).toEqual([
        expect.stringMatching(/^https:\/\//),
      ]);
      peer.denyLogin();
      await expect
        .poll(() => peer.signals)
        .toEqual([{ member: "LoginCompleted", args: ["openrouter", false, "denied_by_user"] }]);
    });

    it("lists the models of a provider", async () => {
      const [models] = await callPeer(peer, "ListModels", "openrouter");
      expect(parsePeerJson(models)).toEqual(expect.arrayContaining([text]));
    });

    it.each(["ClearKey", "ListModels"])("%s rejects an unknown provider", async (member) => {
      await expect(callPeer(peer, member, "nowhere")).rejects.toMatchObject(NOT_FOUND);
    });
  });
}
