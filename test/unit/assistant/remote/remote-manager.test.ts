import { EventEmitter, once } from "node:events";
import { describe, expect, test } from "vitest";
import { type DataClass, dataClasses } from "../../../../src/assistant/data-class.ts";
import type { OAuthSession } from "../../../../src/assistant/remote/vault/port.ts";
import { RemoteHarness, sandboxedCaller, userCaller } from "../../../support/remote-harness.ts";

const home = { id: "home", displayName: "At home", baseUrl: "http://127.0.0.1:11434/v1" };
const never = new AbortController().signal;
const nobodyAsked = () => {};

function found(harness: RemoteHarness, id: string) {
  const provider = harness.providers.find(id);
  if (!provider) throw new Error(`no ${id}`);
  return provider;
}

const session: OAuthSession = {
  kind: "oauth",
  accessToken: "first",
  refreshToken: "again",
  expiresAtMs: 1_000_000,
  clientId: "berth",
};

/** Returns a list that records, in the order of their occurrence, the error codes of all later revocations for `id`. */
const endings = (harness: RemoteHarness, id: string) => {
  const codes: string[] = [];
  const watch = () =>
    harness.revocations.onRevoked(id, ({ code }) => {
      codes.push(code);
      watch();
    });
  watch();
  return codes;
};

describe("the providers of the remote manager", () => {
  test("include two built-in ones, which have no key, and no data may be sent to them", async () => {
    await using harness = new RemoteHarness();
    const { v, providers, consent, login, protection } = harness.remote.state();
    expect([v, providers[0]]).toEqual([
      1,
      {
        id: "openrouter",
        display_name: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        builtin: true,
        auth: "sign_in",
        address_class: "public",
        status: "unknown",
        credential: { present: false, kind: null, set_at: null, expires_at: null, locked_by: null },
        last_used: null,
      },
    ]);
    expect(providers.map(({ id, builtin, auth }) => [id, builtin, auth])).toEqual([
      ["openrouter", true, "sign_in"],
      ["huggingface", true, "sign_in"],
    ]);
    expect(providers.every(({ credential }) => !credential.present)).toBe(true);
    expect(Object.keys(consent)).toEqual([...dataClasses]);
    expect(Object.values(consent)).toEqual(dataClasses.map(() => false));
    expect(login).toEqual({ pending: [] });
    expect(protection.state).toBe("ready");
    expect(harness.providers.usable()).toEqual([]);
  });

  test("are stored only after the ledger has recorded their addition", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    expect(harness.store.providers()).toMatchObject([{ id: "home", addressClass: "loopback" }]);
    expect(harness.entries).toEqual(["remote.provider.add"]);
    // A provider on this machine needs no key.
    expect(harness.providers.usable().map(({ id }) => id)).toEqual(["home"]);
    await expect(harness.remote.listModels("home", userCaller, never)).resolves.toEqual([
      "home-model",
    ]);
  });

  test("have a checked id, name and address, and the id is unique", async () => {
    await using harness = new RemoteHarness();
    const refused = (wanted: Partial<typeof home>) =>
      harness.remote.addProvider({ ...home, ...wanted }, userCaller);
    for (const id of ["", "Home", "a:b", "-a", "x".repeat(33), "a b", "../etc"])
      await expect(refused({ id })).rejects.toMatchObject({
        code: "invalid_request",
        param: "id",
      });
    for (const displayName of ["a\nb", "x".repeat(101), "\u202Eevil"])
      await expect(refused({ displayName })).rejects.toMatchObject({ param: "display_name" });
    await expect(refused({ baseUrl: "nowhere" })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(refused({ id: "openrouter" })).rejects.toMatchObject({ code: "exists" });
    expect(harness.entries).toEqual([]);
    const both = await Promise.allSettled([refused({}), refused({})]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(harness.store.providers()).toHaveLength(1);
  });

  test("lose their key when they are removed, and built-in ones cannot be removed", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    await harness.remote.setKey("home", "sk-1", userCaller);
    await harness.remote.removeProvider("home", userCaller);
    expect(harness.vault.kept.size).toBe(0);
    expect(harness.providers.find("home")).toBeUndefined();
    expect(harness.disconnected).toEqual(["home"]);
    expect(harness.remote.state().providers.map(({ last_used: used }) => used)).toEqual([
      null,
      null,
    ]);
    harness.providers.noteStatus("openrouter", "ok");
    expect(harness.remote.state().providers[0]).toMatchObject({
      status: "ok",
      last_used: "2030-01-01T00:00:00.000Z",
    });
    // A request to the provider `home` was in progress when the provider was removed. Its answer arrives only now.
    harness.providers.noteStatus("home", "unauthorized");
    await harness.remote.addProvider(home, userCaller);
    expect(harness.remote.state().providers.at(-1)).toMatchObject({
      status: "unknown",
      last_used: null,
    });
    await harness.remote.removeProvider("home", userCaller);
    await expect(harness.remote.removeProvider("home", userCaller)).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(harness.remote.removeProvider("openrouter", userCaller)).rejects.toMatchObject({
      code: "invalid_request",
    });
  });

  test("are limited to 64", async () => {
    await using harness = new RemoteHarness();
    const add = (id: string) => harness.remote.addProvider({ ...home, id }, userCaller);
    await Promise.all(Array.from({ length: 62 }, (_, number) => add(`p${number}`)));
    const asked = harness.entries.length;
    await expect(add("another")).rejects.toMatchObject({ code: "limits_exceeded" });
    expect(harness.entries).toHaveLength(asked);
    await harness.remote.removeProvider("p0", userCaller);
    await add("another");
    expect(harness.remote.state().providers).toHaveLength(64);
  });

  test("do not change if the ledger has not recorded the change", async () => {
    await using harness = new RemoteHarness();
    harness.ledger.mode = "down";
    const down = { code: "ledger_unavailable" };
    await expect(harness.remote.addProvider(home, userCaller)).rejects.toMatchObject(down);
    await expect(harness.remote.setKey("openrouter", "sk-1", userCaller)).rejects.toMatchObject(
      down,
    );
    await expect(harness.remote.setConsent("prompt", true, userCaller)).rejects.toMatchObject(down);
    await expect(harness.remote.beginLogin("openrouter", userCaller)).rejects.toMatchObject(down);
    expect(harness.store.providers()).toEqual([]);
    expect(harness.vault.kept.size).toBe(0);
    expect(harness.store.allowed()).toEqual([]);
    expect(harness.consent.missing(["prompt"])).toEqual(["prompt"]);
  });

  test("can be read but not changed by a sandboxed app", async () => {
    await using harness = new RemoteHarness();
    const { remote } = harness;
    const forbidden = { code: "forbidden" };
    await expect(remote.addProvider(home, sandboxedCaller)).rejects.toMatchObject(forbidden);
    await expect(remote.removeProvider("openrouter", sandboxedCaller)).rejects.toMatchObject(
      forbidden,
    );
    await expect(remote.setKey("openrouter", "k", sandboxedCaller)).rejects.toMatchObject(
      forbidden,
    );
    await expect(remote.clearKey("openrouter", sandboxedCaller)).rejects.toMatchObject(forbidden);
    await expect(remote.setConsent("prompt", true, sandboxedCaller)).rejects.toMatchObject(
      forbidden,
    );
    await expect(remote.beginLogin("openrouter", sandboxedCaller)).rejects.toMatchObject(forbidden);
    await expect(remote.logout("openrouter", sandboxedCaller)).rejects.toMatchObject(forbidden);
    expect(harness.entries).toEqual([]);
    expect(remote.state().v).toBe(1);
  });
});

describe("the keys of providers", () => {
  test("are described as locked while the source of their encryption key does not provide it", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.setKey("openrouter", "sk-1", userCaller);
    const lockedBy = () =>
      harness.remote.state().providers.map(({ credential }) => credential.locked_by);
    expect(lockedBy()).toEqual([null, null]);
    const message = "the keyring is locked";
    harness.vault.protection = () => ({ source: "secret-service", state: "locked", message });
    expect(lockedBy()).toEqual(["secret-service", null]);
  });

  test.each([
    ["", "empty"],
    [" \n", "empty"],
    ["a b", "spaces"],
    ["a\nb", "spaces"],
    ["schlüssel", "outside ASCII"],
    ["x".repeat(16_385), "longer"],
  ])("are refused if they have the form %j", async (key, why) => {
    await using harness = new RemoteHarness();
    await expect(harness.remote.setKey("openrouter", key, userCaller)).rejects.toMatchObject({
      code: "invalid_request",
      param: "key",
      message: expect.stringContaining(why),
    });
    expect(harness.entries).toEqual([]);
  });

  test("are trimmed when they are set, described without their text, and can be cleared", async () => {
    await using harness = new RemoteHarness();
    harness.providers.noteStatus("openrouter", "unauthorized");
    await harness.remote.setKey("openrouter", "  sk-canary\n", userCaller);
    expect(await harness.credentials.bearer(found(harness, "openrouter"), never)).toBe("sk-canary");
    const [state] = harness.remote.state().providers;
    expect(state).toMatchObject({
      credential: { present: true, kind: "key" },
      status: "unknown",
    });
    expect(JSON.stringify(harness.remote.state())).not.toContain("canary");
    expect(JSON.stringify(harness.ledger.entries)).not.toContain("canary");
    await harness.remote.clearKey("openrouter", userCaller);
    await harness.remote.clearKey("openrouter", userCaller);
    expect(await harness.credentials.bearer(found(harness, "openrouter"), never)).toBeUndefined();
    expect(harness.entries).toEqual(["remote.key.set", "remote.key.clear", "remote.key.clear"]);
  });

  test("are read from a file descriptor only if the caller may set the key", async () => {
    await using harness = new RemoteHarness();
    let times = 0;
    const read = async () => {
      times += 1;
      return "sk-1";
    };
    await expect(harness.remote.setKey("openrouter", read, sandboxedCaller)).rejects.toMatchObject({
      code: "forbidden",
    });
    await expect(harness.remote.setKey("nobody", read, userCaller)).rejects.toMatchObject({
      code: "not_found",
    });
    expect(times).toBe(0);
    await harness.remote.setKey("openrouter", read, userCaller);
    expect([times, await harness.credentials.bearer(found(harness, "openrouter"), never)]).toEqual([
      1,
      "sk-1",
    ]);
  });
});

/** Returns a key that the test delivers later, like a client that holds its pipe open. */
function pendingKey() {
  const answers = new EventEmitter();
  const text = once(answers, "key").then(([key]) => String(key));
  let signal: AbortSignal | undefined;
  const read = (cancelled: AbortSignal) => {
    signal = cancelled;
    return text;
  };
  const arrive = (key: string) => void answers.emit("key", key);
  return { read, arrive, isRead: () => signal !== undefined, signal: () => signal };
}

describe("a key that is read from a descriptor while its provider changes", () => {
  const elsewhere = { ...home, baseUrl: "https://elsewhere.example/v1" };

  test.each<[string, (harness: RemoteHarness) => Promise<unknown>, readonly string[]]>([
    [
      "another provider is added under its id",
      async ({ remote }) => {
        await remote.removeProvider("home", userCaller);
        await remote.addProvider(elsewhere, userCaller);
      },
      [],
    ],
    ["its key is cleared", ({ remote }) => remote.clearKey("home", userCaller), []],
    ["another key is set", ({ remote }) => remote.setKey("home", "sk-2", userCaller), ["sk-2"]],
  ])("is not stored if %s, and the read is aborted", async (_, change, kept) => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    const key = pendingKey();
    const set = harness.remote.setKey("home", key.read, userCaller);
    set.catch(() => {});
    await expect.poll(key.isRead).toBe(true);
    await change(harness);
    expect(key.signal()?.aborted).toBe(true);
    key.arrive("sk-1");
    await expect(set).rejects.toMatchObject({
      code: "cancelled",
      message: expect.stringContaining("the key for home was not stored"),
    });
    const values = [...harness.vault.kept.values()].map(({ credential }) => credential);
    expect(values).toEqual(kept.map((text) => ({ kind: "key", key: text })));
  });

  test.each([
    ["first", 0],
    ["last", 1],
  ])("is replaced by the key of a later call, even if that key arrives %s", async (_, late) => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    const keys = [pendingKey(), pendingKey()] as const;
    const calls = keys.map(({ read }) => harness.remote.setKey("home", read, userCaller));
    const settled = Promise.allSettled(calls);
    await expect.poll(() => keys.every(({ isRead }) => isRead())).toBe(true);
    keys[late === 0 ? 0 : 1].arrive(`sk-${late}`);
    await Promise.allSettled([calls[late]]);
    keys[late === 0 ? 1 : 0].arrive(`sk-${1 - late}`);
    expect((await settled).map(({ status }) => status)).toEqual([
      late === 0 ? "fulfilled" : "rejected",
      "fulfilled",
    ]);
    expect(harness.vault.kept.get("home")?.credential).toEqual({ kind: "key", key: "sk-1" });
  });

  test("does not replace the session of a sign-in that was started later", async () => {
    await using harness = new RemoteHarness();
    const key = pendingKey();
    const set = harness.remote.setKey("openrouter", key.read, userCaller);
    set.catch(() => {});
    await expect.poll(key.isRead).toBe(true);
    await harness.remote.beginLogin("openrouter", userCaller);
    key.arrive("sk-1");
    await expect(set).rejects.toMatchObject({ code: "cancelled" });
    expect(harness.vault.kept.size).toBe(0);
  });

  test("does not delay other changes, and ends with the manager", async () => {
    const harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    const key = pendingKey();
    const set = harness.remote.setKey("home", key.read, userCaller);
    set.catch(() => {});
    await harness.remote.setKey("openrouter", "sk-2", userCaller);
    await harness[Symbol.asyncDispose]();
    await expect(set).rejects.toMatchObject({ code: "shutting_down" });
    expect([...harness.vault.kept.keys()]).toEqual(["openrouter"]);
  });
});

describe("changes of one caller", () => {
  test("take effect in the order of the calls, although the address of an added provider must be resolved first", async () => {
    await using harness = new RemoteHarness();
    const resolver = new EventEmitter();
    harness.resolution = once(resolver, "answer");
    const calls = Promise.all([
      harness.remote.addProvider(home, userCaller),
      harness.remote.setKey("home", "sk-1", userCaller),
      harness.remote.removeProvider("home", userCaller),
      harness.remote.addProvider({ ...home, displayName: "Again" }, userCaller),
      harness.remote.setKey("home", async () => "sk-2", userCaller),
    ]);
    resolver.emit("answer");
    await calls;
    expect(harness.store.providers()).toMatchObject([{ id: "home", displayName: "Again" }]);
    expect(harness.vault.kept.get("home")?.credential).toEqual({ kind: "key", key: "sk-2" });
    await harness.remote.removeProvider("home", userCaller);
    await Promise.all([
      harness.remote.addProvider(home, userCaller),
      harness.remote.removeProvider("home", userCaller),
    ]);
    expect(harness.store.providers()).toEqual([]);
    expect(harness.vault.kept.size).toBe(0);
  });

  test("cancel a sign-in with a logout that follows at once", async () => {
    await using harness = new RemoteHarness();
    await Promise.all([
      harness.remote.beginLogin("openrouter", userCaller),
      harness.remote.logout("openrouter", userCaller),
    ]);
    expect([...harness.signIns.started]).toEqual([]);
  });
});

describe("requests in progress at a provider", () => {
  test("end when their key is cleared, their session is logged out or their provider is removed", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    const [here, there] = [endings(harness, "home"), endings(harness, "huggingface")];
    await harness.remote.setKey("home", "sk-1", userCaller);
    // A new key does not end requests that use the old key.
    await harness.remote.setKey("home", "sk-2", userCaller);
    expect(here).toEqual([]);
    await harness.remote.clearKey("home", userCaller);
    // The second clearKey finds no key. It does not end a request, because requests may now run without a key.
    await harness.remote.clearKey("home", userCaller);
    expect(here).toEqual(["unauthorized"]);
    await harness.remote.removeProvider("home", userCaller);
    expect(here).toEqual(["unauthorized", "model_not_found"]);
    expect(there).toEqual([]);
    await harness.credentials.keep(found(harness, "huggingface"), session);
    await harness.remote.logout("huggingface", userCaller);
    await harness.remote.logout("huggingface", userCaller);
    expect(there).toEqual(["unauthorized"]);
  });

  test("continue if the key could not be removed because the ledger did not record the removal", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.setKey("openrouter", "sk-1", userCaller);
    const ended = endings(harness, "openrouter");
    harness.ledger.mode = "down";
    await expect(harness.remote.clearKey("openrouter", userCaller)).rejects.toMatchObject({
      code: "ledger_unavailable",
    });
    expect(ended).toEqual([]);
  });
});

describe("the user's consent", () => {
  test.each(dataClasses)(
    "can be granted and revoked for the scope %s",
    async (scope: DataClass) => {
      await using harness = new RemoteHarness();
      let revoked = 0;
      await harness.remote.setConsent(scope, true, userCaller);
      expect(harness.consent.missing(dataClasses)).toEqual(
        dataClasses.filter((it) => it !== scope),
      );
      expect(harness.store.allowed()).toEqual([scope]);
      harness.consent.onRevoked([scope], () => revoked++);
      const stop = harness.consent.onRevoked([scope], () => revoked++);
      stop();
      await harness.remote.setConsent(scope, false, userCaller);
      await harness.remote.setConsent(scope, false, userCaller);
      expect(revoked).toBe(1);
      expect(harness.store.allowed()).toEqual([]);
      expect(harness.entries).toEqual(["remote.consent", "remote.consent", "remote.consent"]);
    },
  );

  test.each(["ledger", "store"] as const)(
    "stays as it was if the %s cannot be written, for a grant and for a revocation",
    async (broken) => {
      await using harness = new RemoteHarness();
      await harness.remote.setConsent("prompt", true, userCaller);
      const before = harness.remote.state().consent;
      let revoked = 0;
      harness.consent.onRevoked(["prompt", "files"], () => revoked++);
      if (broken === "ledger") harness.ledger.mode = "down";
      else harness.store[Symbol.dispose]();
      const code = broken === "ledger" ? "ledger_unavailable" : "storage_failed";
      await expect(harness.remote.setConsent("prompt", false, userCaller)).rejects.toMatchObject({
        code,
      });
      await expect(harness.remote.setConsent("files", true, userCaller)).rejects.toMatchObject({
        code,
      });
      expect(harness.remote.state().consent).toEqual(before);
      expect(revoked).toBe(0);
      if (broken === "ledger") expect(harness.store.allowed()).toEqual(["prompt"]);
    },
  );

  test("is granted and revoked in the order of the calls, even while an address is resolved", async () => {
    await using harness = new RemoteHarness();
    const resolver = new EventEmitter();
    harness.resolution = once(resolver, "answer");
    const added = harness.remote.addProvider(home, userCaller);
    await Promise.all([
      harness.remote.setConsent("prompt", true, userCaller),
      harness.remote.setConsent("prompt", false, userCaller),
      harness.remote.setConsent("files", false, userCaller),
      harness.remote.setConsent("files", true, userCaller),
    ]);
    expect(harness.consent.missing(["prompt", "files"])).toEqual(["prompt"]);
    expect(harness.store.allowed()).toEqual(["files"]);
    resolver.emit("answer");
    await added;
  });

  test("of an unknown scope is refused, and the error names the scope", async () => {
    await using harness = new RemoteHarness();
    await expect(harness.remote.setConsent("Prompt", true, userCaller)).rejects.toMatchObject({
      code: "invalid_request",
      param: "scope",
      message: expect.stringContaining("prompt, files, mail"),
    });
  });
});

describe("the sessions that sign-ins at providers create", () => {
  test("are stored; a logout deletes them and revokes them at the provider", async () => {
    await using harness = new RemoteHarness();
    await expect(harness.remote.beginLogin("openrouter", userCaller)).resolves.toContain(
      "openrouter",
    );
    await harness.signIns.sink?.keep("openrouter", {
      ...session,
      accessToken: "sk-or",
      refreshToken: undefined,
      expiresAtMs: undefined,
    });
    harness.signIns.sink?.completed("openrouter", true, "ok");
    expect(harness.ended).toEqual(["openrouter true ok"]);
    expect(harness.remote.state().providers[0]?.credential.kind).toBe("oauth");
    expect(await harness.credentials.bearer(found(harness, "openrouter"), never)).toBe("sk-or");
    await harness.remote.logout("openrouter", userCaller);
    await harness.remote.logout("openrouter", userCaller);
    expect(harness.vault.kept.size).toBe(0);
    expect(harness.signIns.revoked).toMatchObject([{ accessToken: "sk-or" }]);
    expect(harness.signIns.cancelled).toEqual(["openrouter", "openrouter"]);
    expect(harness.entries).toEqual([
      "remote.login",
      "remote.login",
      "remote.key.set",
      "remote.login",
      "remote.key.clear",
    ]);
  });

  test("that are being stored during a logout are deleted too", async () => {
    await using harness = new RemoteHarness();
    const kept = harness.signIns.sink?.keep("openrouter", session);
    await harness.remote.logout("openrouter", userCaller);
    await kept;
    expect(harness.vault.kept.size).toBe(0);
  });

  test("are ended by a logout, which does not delete a key that the user has entered", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.setKey("openrouter", "sk-mine", userCaller);
    await harness.remote.logout("openrouter", userCaller);
    expect(await harness.credentials.bearer(found(harness, "openrouter"), never)).toBe("sk-mine");
  });

  test("exist only for the built-in providers", async () => {
    await using harness = new RemoteHarness();
    await harness.remote.addProvider(home, userCaller);
    for (const call of [
      harness.remote.beginLogin("home", userCaller),
      harness.remote.logout("home", userCaller),
    ])
      await expect(call).rejects.toMatchObject({ code: "invalid_request", param: "id" });
    await expect(harness.remote.beginLogin("nobody", userCaller)).rejects.toMatchObject({
      code: "not_found",
    });
  });

  test("that are about to expire are renewed once for all callers", async () => {
    await using harness = new RemoteHarness();
    const provider = found(harness, "huggingface");
    await harness.credentials.keep(provider, {
      ...session,
      expiresAtMs: harness.clock.now() + 30_000,
    });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    harness.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const leaving = new AbortController();
    const left = harness.credentials.bearer(provider, leaving.signal);
    const asked = [1, 2, 3].map(() => harness.credentials.bearer(provider, never));
    await expect.poll(() => harness.signIns.refreshes).toBe(1);
    leaving.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    answer({ ...session, accessToken: "second", expiresAtMs: harness.clock.now() + 3_600_000 });
    expect(await Promise.all(asked)).toEqual(["second", "second", "second"]);
    expect(await harness.credentials.bearer(provider, never)).toBe("second");
    expect(harness.signIns.refreshes).toBe(1);
  });

  test("that cannot be renewed are used until they expire", async () => {
    await using harness = new RemoteHarness();
    const provider = found(harness, "huggingface");
    const expiresAtMs = harness.clock.now() + 30_000;
    await harness.credentials.keep(provider, { ...session, refreshToken: undefined, expiresAtMs });
    expect(await harness.credentials.bearer(provider, never)).toBe("first");
    expect(harness.signIns.refreshes).toBe(0);
    await harness.clock.advance(30_000);
    await harness.credentials.bearer(provider, never);
    expect(harness.signIns.refreshes).toBe(1);
  });

  test("that were deleted during their renewal are not restored", async () => {
    await using harness = new RemoteHarness();
    const provider = found(harness, "huggingface");
    await harness.credentials.keep(provider, { ...session, expiresAtMs: harness.clock.now() });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    harness.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const asked = harness.credentials.bearer(provider, never);
    await expect.poll(() => harness.signIns.refreshes).toBe(1);
    await harness.remote.logout("huggingface", userCaller);
    answer({ ...session, accessToken: "second" });
    // The request waited for a renewed session, which arrives after the logout and must not be used.
    expect(await asked).toBeUndefined();
    expect(harness.vault.kept.size).toBe(0);
    expect(harness.signIns.revoked.map(({ accessToken }) => accessToken)).toEqual([
      "first",
      "second",
    ]);
  });

  test("are replaced by a key that the user enters during their renewal", async () => {
    await using harness = new RemoteHarness();
    const provider = found(harness, "huggingface");
    await harness.credentials.keep(provider, { ...session, expiresAtMs: harness.clock.now() });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    harness.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const asked = harness.credentials.bearer(provider, never);
    await expect.poll(() => harness.signIns.refreshes).toBe(1);
    await harness.remote.setKey("huggingface", "hf-mine", userCaller);
    answer({ ...session, accessToken: "second" });
    expect(await asked).toBe("hf-mine");
    expect(harness.signIns.revoked).toMatchObject([{ accessToken: "second" }]);
  });
});
