import { describe, expect, test } from "vitest";
import { type DataClass, dataClasses } from "../../../../src/assistant/data-class.ts";
import type { OAuthSession } from "../../../../src/assistant/remote/vault/port.ts";
import { confined, person, RemoteWorld } from "../../../support/remote-world.ts";

const home = { id: "home", displayName: "At home", baseUrl: "http://127.0.0.1:11434/v1" };
const never = new AbortController().signal;
const nobodyAsked = () => {};

function found(world: RemoteWorld, id: string) {
  const provider = world.providers.find(id);
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

/** What requests under way at a provider end with, from now on. */
const endings = (world: RemoteWorld, id: string) => {
  const codes: string[] = [];
  const watch = () =>
    world.withdrawals.on(id, ({ code }) => {
      codes.push(code);
      watch();
    });
  watch();
  return codes;
};

describe("providers", () => {
  test("two are built in, without a key; nothing is allowed", async () => {
    await using world = new RemoteWorld();
    const { providers, consent, login, protection } = world.remote.state();
    expect(providers.map(({ id, builtin, auth }) => [id, builtin, auth])).toEqual([
      ["openrouter", true, "sign_in"],
      ["huggingface", true, "sign_in"],
    ]);
    expect(providers.every(({ credential }) => !credential.present)).toBe(true);
    expect(Object.keys(consent)).toEqual([...dataClasses]);
    expect(Object.values(consent)).toEqual(dataClasses.map(() => false));
    expect(login).toEqual({ pending: [] });
    expect(protection.state).toBe("ready");
    expect(world.providers.usable()).toEqual([]);
  });

  test("one that is added is kept, after the ledger has it", async () => {
    await using world = new RemoteWorld();
    await world.remote.addProvider(home, person);
    expect(world.store.providers()).toMatchObject([{ id: "home", addressClass: "loopback" }]);
    expect(world.entries).toEqual(["remote.provider.add"]);
    // On this machine nobody needs a key.
    expect(world.providers.usable().map(({ id }) => id)).toEqual(["home"]);
    await expect(world.remote.listModels("home", never)).resolves.toEqual(["home-model"]);
  });

  test("its id, its name and its address are judged, and taken once", async () => {
    await using world = new RemoteWorld();
    const refused = (wanted: Partial<typeof home>) =>
      world.remote.addProvider({ ...home, ...wanted }, person);
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
    expect(world.entries).toEqual([]);
    const both = await Promise.allSettled([refused({}), refused({})]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(world.store.providers()).toHaveLength(1);
  });

  test("one that goes takes its key along; those that are built in stay", async () => {
    await using world = new RemoteWorld();
    await world.remote.addProvider(home, person);
    await world.remote.setKey("home", "sk-1", person);
    await world.remote.removeProvider("home", person);
    expect(world.vault.kept.size).toBe(0);
    expect(world.providers.find("home")).toBeUndefined();
    expect(world.disconnected).toEqual(["home"]);
    expect(world.remote.state().providers.map(({ last_used: used }) => used)).toEqual([null, null]);
    world.providers.noteStatus("openrouter", "ok");
    expect(world.remote.state().providers[0]).toMatchObject({
      status: "ok",
      last_used: "2030-01-01T00:00:00.000Z",
    });
    // An answer that was still on its way.
    world.providers.noteStatus("home", "unauthorized");
    await world.remote.addProvider(home, person);
    expect(world.remote.state().providers.at(-1)).toMatchObject({
      status: "unknown",
      last_used: null,
    });
    await world.remote.removeProvider("home", person);
    await expect(world.remote.removeProvider("home", person)).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(world.remote.removeProvider("openrouter", person)).rejects.toMatchObject({
      code: "invalid_request",
    });
  });

  test("there are 64 of them at most", async () => {
    await using world = new RemoteWorld();
    const add = (id: string) => world.remote.addProvider({ ...home, id }, person);
    await Promise.all(Array.from({ length: 62 }, (_, number) => add(`p${number}`)));
    const asked = world.entries.length;
    await expect(add("another")).rejects.toMatchObject({ code: "limits_exceeded" });
    expect(world.entries).toHaveLength(asked);
    await world.remote.removeProvider("p0", person);
    await add("another");
    expect(world.remote.state().providers).toHaveLength(64);
  });

  test("nothing is done that the ledger has not", async () => {
    await using world = new RemoteWorld();
    world.ledger.mode = "down";
    const down = { code: "ledger_unavailable" };
    await expect(world.remote.addProvider(home, person)).rejects.toMatchObject(down);
    await expect(world.remote.setKey("openrouter", "sk-1", person)).rejects.toMatchObject(down);
    await expect(world.remote.setConsent("prompt", true, person)).rejects.toMatchObject(down);
    await expect(world.remote.beginLogin("openrouter", person)).rejects.toMatchObject(down);
    expect(world.store.providers()).toEqual([]);
    expect(world.vault.kept.size).toBe(0);
    expect(world.store.allowed()).toEqual([]);
    expect(world.consent.missing(["prompt"])).toEqual(["prompt"]);
  });

  test("a sandboxed app changes nothing, and may look", async () => {
    await using world = new RemoteWorld();
    const { remote } = world;
    const forbidden = { code: "forbidden" };
    await expect(remote.addProvider(home, confined)).rejects.toMatchObject(forbidden);
    await expect(remote.removeProvider("openrouter", confined)).rejects.toMatchObject(forbidden);
    await expect(remote.setKey("openrouter", "k", confined)).rejects.toMatchObject(forbidden);
    await expect(remote.clearKey("openrouter", confined)).rejects.toMatchObject(forbidden);
    await expect(remote.setConsent("prompt", true, confined)).rejects.toMatchObject(forbidden);
    await expect(remote.beginLogin("openrouter", confined)).rejects.toMatchObject(forbidden);
    await expect(remote.logout("openrouter", confined)).rejects.toMatchObject(forbidden);
    expect(world.entries).toEqual([]);
    expect(remote.state().v).toBe(1);
  });
});

describe("keys", () => {
  test.each([
    ["", "empty"],
    [" \n", "empty"],
    ["a b", "blanks"],
    ["a\nb", "blanks"],
    ["schlüssel", "outside ASCII"],
    ["x".repeat(16_385), "longer"],
  ])("%j cannot be one", async (key, why) => {
    await using world = new RemoteWorld();
    await expect(world.remote.setKey("openrouter", key, person)).rejects.toMatchObject({
      code: "invalid_request",
      param: "key",
      message: expect.stringContaining(why),
    });
    expect(world.entries).toEqual([]);
  });

  test("one is set without what surrounds it, told of without itself, and cleared", async () => {
    await using world = new RemoteWorld();
    world.providers.noteStatus("openrouter", "unauthorized");
    await world.remote.setKey("openrouter", "  sk-canary\n", person);
    expect(await world.credentials.bearer(found(world, "openrouter"), never)).toBe("sk-canary");
    const [state] = world.remote.state().providers;
    expect(state).toMatchObject({
      credential: { present: true, kind: "key" },
      status: "unknown",
    });
    expect(JSON.stringify(world.remote.state())).not.toContain("canary");
    expect(JSON.stringify(world.ledger.entries)).not.toContain("canary");
    await world.remote.clearKey("openrouter", person);
    await world.remote.clearKey("openrouter", person);
    expect(await world.credentials.bearer(found(world, "openrouter"), never)).toBeUndefined();
    expect(world.entries).toEqual(["remote.key.set", "remote.key.clear", "remote.key.clear"]);
  });

  test("one that has yet to be read is read of those only who may set it", async () => {
    await using world = new RemoteWorld();
    let times = 0;
    const read = async () => {
      times += 1;
      return "sk-1";
    };
    await expect(world.remote.setKey("openrouter", read, confined)).rejects.toMatchObject({
      code: "forbidden",
    });
    await expect(world.remote.setKey("nobody", read, person)).rejects.toMatchObject({
      code: "not_found",
    });
    expect(times).toBe(0);
    await world.remote.setKey("openrouter", read, person);
    expect([times, await world.credentials.bearer(found(world, "openrouter"), never)]).toEqual([
      1,
      "sk-1",
    ]);
  });
});

describe("requests under way", () => {
  test("end with the key that is cleared, the session that is left and the provider that goes", async () => {
    await using world = new RemoteWorld();
    await world.remote.addProvider(home, person);
    const [here, there] = [endings(world, "home"), endings(world, "huggingface")];
    await world.remote.setKey("home", "sk-1", person);
    // Another key is no reason to end what goes by the one before.
    await world.remote.setKey("home", "sk-2", person);
    expect(here).toEqual([]);
    await world.remote.clearKey("home", person);
    // Now it goes without one, and may.
    await world.remote.clearKey("home", person);
    expect(here).toEqual(["unauthorized"]);
    await world.remote.removeProvider("home", person);
    expect(here).toEqual(["unauthorized", "model_not_found"]);
    expect(there).toEqual([]);
    await world.credentials.keep(found(world, "huggingface"), session);
    await world.remote.logout("huggingface", person);
    await world.remote.logout("huggingface", person);
    expect(there).toEqual(["unauthorized"]);
  });

  test("go on where nothing was taken back, since it could not be written down", async () => {
    await using world = new RemoteWorld();
    await world.remote.setKey("openrouter", "sk-1", person);
    const ended = endings(world, "openrouter");
    world.ledger.mode = "down";
    await expect(world.remote.clearKey("openrouter", person)).rejects.toMatchObject({
      code: "ledger_unavailable",
    });
    expect(ended).toEqual([]);
  });
});

describe("consent", () => {
  test.each(dataClasses)("%s is given and taken back", async (scope: DataClass) => {
    await using world = new RemoteWorld();
    let revoked = 0;
    await world.remote.setConsent(scope, true, person);
    expect(world.consent.missing(dataClasses)).toEqual(dataClasses.filter((it) => it !== scope));
    expect(world.store.allowed()).toEqual([scope]);
    world.consent.onRevoked([scope], () => revoked++);
    const stop = world.consent.onRevoked([scope], () => revoked++);
    stop();
    await world.remote.setConsent(scope, false, person);
    await world.remote.setConsent(scope, false, person);
    expect(revoked).toBe(1);
    expect(world.store.allowed()).toEqual([]);
    expect(world.entries).toEqual(["remote.consent", "remote.consent", "remote.consent"]);
  });

  test("taking back counts also where it cannot be written down", async () => {
    await using world = new RemoteWorld();
    await world.remote.setConsent("prompt", true, person);
    let revoked = 0;
    world.consent.onRevoked(["prompt", "files"], () => revoked++);
    world.ledger.mode = "down";
    await expect(world.remote.setConsent("prompt", false, person)).rejects.toMatchObject({
      code: "ledger_unavailable",
    });
    expect(revoked).toBe(1);
    expect(world.consent.missing(["prompt"])).toEqual(["prompt"]);
    // The next start does not bring it back either.
    expect(world.store.allowed()).toEqual([]);
  });

  test("what was allowed before it was taken back does not come after it", async () => {
    await using world = new RemoteWorld();
    const seen: boolean[] = [];
    world.ledger.onCommit = () => void seen.push(world.consent.isAllowed("prompt"));
    const given = world.remote.setConsent("prompt", true, person);
    const taken = world.remote.setConsent("prompt", false, person);
    await given;
    expect(world.consent.isAllowed("prompt")).toBe(false);
    world.ledger.mode = "down";
    await expect(taken).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(world.consent.isAllowed("prompt")).toBe(false);
    expect(world.store.allowed()).toEqual([]);
    world.ledger.mode = "ok";
    await world.remote.setConsent("prompt", true, person);
    expect(world.consent.isAllowed("prompt")).toBe(true);
    expect(world.store.allowed()).toEqual(["prompt"]);
    expect(seen).toEqual([false, false]);
  });

  test("of what there is not is refused by name", async () => {
    await using world = new RemoteWorld();
    await expect(world.remote.setConsent("Prompt", true, person)).rejects.toMatchObject({
      code: "invalid_request",
      param: "scope",
      message: expect.stringContaining("prompt, files, mail"),
    });
  });
});

describe("sessions", () => {
  test("a sign-in is kept as one, and signing out forgets it and tells the provider", async () => {
    await using world = new RemoteWorld();
    await expect(world.remote.beginLogin("openrouter", person)).resolves.toContain("openrouter");
    await world.signIns.sink?.keep("openrouter", {
      ...session,
      accessToken: "sk-or",
      refreshToken: undefined,
      expiresAtMs: undefined,
    });
    world.signIns.sink?.completed("openrouter", true, "ok");
    expect(world.ended).toEqual(["openrouter true ok"]);
    expect(world.remote.state().providers[0]?.credential.kind).toBe("oauth");
    expect(await world.credentials.bearer(found(world, "openrouter"), never)).toBe("sk-or");
    await world.remote.logout("openrouter", person);
    await world.remote.logout("openrouter", person);
    expect(world.vault.kept.size).toBe(0);
    expect(world.signIns.revoked).toMatchObject([{ accessToken: "sk-or" }]);
    expect(world.signIns.cancelled).toEqual(["openrouter", "openrouter"]);
    expect(world.entries).toEqual([
      "remote.login",
      "remote.login",
      "remote.key.set",
      "remote.login",
      "remote.key.clear",
    ]);
  });

  test("one that is being kept while somebody signs out is forgotten too", async () => {
    await using world = new RemoteWorld();
    const kept = world.signIns.sink?.keep("openrouter", session);
    await world.remote.logout("openrouter", person);
    await kept;
    expect(world.vault.kept.size).toBe(0);
  });

  test("signing out leaves a key that was written down", async () => {
    await using world = new RemoteWorld();
    await world.remote.setKey("openrouter", "sk-mine", person);
    await world.remote.logout("openrouter", person);
    expect(await world.credentials.bearer(found(world, "openrouter"), never)).toBe("sk-mine");
  });

  test("one can sign in at the built-in ones only", async () => {
    await using world = new RemoteWorld();
    await world.remote.addProvider(home, person);
    for (const call of [
      world.remote.beginLogin("home", person),
      world.remote.logout("home", person),
    ])
      await expect(call).rejects.toMatchObject({ code: "invalid_request", param: "id" });
    await expect(world.remote.beginLogin("nobody", person)).rejects.toMatchObject({
      code: "not_found",
    });
  });

  test("one that is about to end is renewed once for all who ask", async () => {
    await using world = new RemoteWorld();
    const provider = found(world, "huggingface");
    await world.credentials.keep(provider, { ...session, expiresAtMs: world.clock.now() + 30_000 });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    world.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const leaving = new AbortController();
    const left = world.credentials.bearer(provider, leaving.signal);
    const asked = [1, 2, 3].map(() => world.credentials.bearer(provider, never));
    await expect.poll(() => world.signIns.refreshes).toBe(1);
    leaving.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    answer({ ...session, accessToken: "second", expiresAtMs: world.clock.now() + 3_600_000 });
    expect(await Promise.all(asked)).toEqual(["second", "second", "second"]);
    expect(await world.credentials.bearer(provider, never)).toBe("second");
    expect(world.signIns.refreshes).toBe(1);
  });

  test("one that cannot be renewed is used to its end", async () => {
    await using world = new RemoteWorld();
    const provider = found(world, "huggingface");
    const expiresAtMs = world.clock.now() + 30_000;
    await world.credentials.keep(provider, { ...session, refreshToken: undefined, expiresAtMs });
    expect(await world.credentials.bearer(provider, never)).toBe("first");
    expect(world.signIns.refreshes).toBe(0);
    await world.clock.advance(30_000);
    await world.credentials.bearer(provider, never);
    expect(world.signIns.refreshes).toBe(1);
  });

  test("one that was forgotten while it was renewed does not come back", async () => {
    await using world = new RemoteWorld();
    const provider = found(world, "huggingface");
    await world.credentials.keep(provider, { ...session, expiresAtMs: world.clock.now() });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    world.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const asked = world.credentials.bearer(provider, never);
    await expect.poll(() => world.signIns.refreshes).toBe(1);
    await world.remote.logout("huggingface", person);
    answer({ ...session, accessToken: "second" });
    // Neither does it go out with the request that has waited for it.
    expect(await asked).toBeUndefined();
    expect(world.vault.kept.size).toBe(0);
    expect(world.signIns.revoked.map(({ accessToken }) => accessToken)).toEqual([
      "first",
      "second",
    ]);
  });

  test("a key that was written down while a session was renewed is used in its place", async () => {
    await using world = new RemoteWorld();
    const provider = found(world, "huggingface");
    await world.credentials.keep(provider, { ...session, expiresAtMs: world.clock.now() });
    let answer: (renewed: OAuthSession) => void = nobodyAsked;
    world.signIns.renew = () => new Promise((resolve) => (answer = resolve));
    const asked = world.credentials.bearer(provider, never);
    await expect.poll(() => world.signIns.refreshes).toBe(1);
    await world.remote.setKey("huggingface", "hf-mine", person);
    answer({ ...session, accessToken: "second" });
    expect(await asked).toBe("hf-mine");
    expect(world.signIns.revoked).toMatchObject([{ accessToken: "second" }]);
  });
});
