import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createClient } from "../../src/client/rest/client.ts";
import { openTestApi } from "../support/api-harness.ts";
import { BerthProcess, fetchText, plainEnvironment, runBerth } from "../support/berth-process.ts";
import { SHELL, WEB } from "../support/images.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;

test("the ready line equals run/berth.json, and SIGTERM leaves the apps running", async () => {
  await using berth = await BerthProcess.open();
  const { ready } = berth;
  expect(ready).toMatchObject({
    data_dir: berth.dataDir,
    specs_dir: berth.specsDir,
    docker_host: berth.dockerHost,
  });
  expect(ready.api).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
  expect(JSON.parse(await readFile(join(berth.dataDir, "run/berth.json"), "utf8"))).toEqual(ready);
  for (const file of ["run/berth.json", "run/token"])
    expect((await stat(join(berth.dataDir, file))).mode & 0o777).toBe(0o600);
  // The server reports that it is ready before the engine has answered.
  await expect
    .poll(() => berth.client.health())
    .toMatchObject({ status: "ok", runtime: "connected" });

  await berth.client.apps.create({ name: "stays", ...web }, { wait: true });
  const app = await berth.app("stays");
  const { id } = await berth.container("stays");

  // Open connections, idle or with event streams, do not delay the server's exit.
  const leaving = new AbortController();
  const events = berth.client.events.watch({ signal: leaving.signal });
  const ended = (async () => {
    for await (const _ of events);
  })().catch(() => {});
  await berth.client.apps.patch("stays", { replicas: 1 });
  expect(await berth.stop()).toBe(0);
  await ended;
  expect(await fetchText(app.url)).toBe("web:1\n");

  const again = await berth.start();
  expect(again.instance).toBe(ready.instance);
  expect(again.pid).not.toBe(ready.pid);
  const after = await berth.waitForAppReady("stays");
  expect(after.containers.map((container) => container.id)).toEqual([id]);
  expect(after.restarts).toBe(0);
});

test("the OpenAPI document that the build has generated equals that of the sources", async () => {
  await using berth = await BerthProcess.open();
  await using api = await openTestApi();
  const built = await fetchText(`${berth.ready.api}/api/openapi.json`);
  const generated = (await api.server.inject({ url: "/api/openapi.json" })).body;
  expect(built).toBe(generated.replace('"version":"1.2.3"', `"version":"${berth.ready.version}"`));
});

test("a second server on the same data directory is refused, and the error names the first server", async () => {
  await using berth = await BerthProcess.open();
  const second = await runBerth(["up", ...berth.upFlags()], {
    cwd: berth.root,
    env: berth.environment(),
  });
  expect(second.code).toBe(1);
  expect(second.stderr).toContain(`process ${berth.ready.pid}`);
  expect(second.stderr).toContain("--data-dir");
  expect(second.stderr).not.toMatch(/\n\s+at /);
  expect(second.stdout).toBe("");
  await expect.poll(() => berth.client.health()).toMatchObject({ status: "ok" });
  // The refused second server has not replaced the address and the token that the command line reads.
  expect((await berth.cli(["get", "apps"])).code).toBe(0);

  const taken = new URL(berth.ready.api).host;
  const third = await runBerth(["up", "--listen", taken, "--data-dir", join(berth.root, "other")], {
    cwd: berth.root,
    env: berth.environment(),
  });
  expect(third.code).toBe(1);
  expect(third.stderr).toMatch(/port \d+ of 127\.0\.0\.1 is taken[\s\S]*--listen/);
});

test("two instances share one engine, and neither sees the other's objects", async () => {
  await using one = await BerthProcess.open();
  await using other = await BerthProcess.open();
  expect(one.instance).not.toBe(other.instance);
  await Promise.all([
    one.client.apps.create({ name: "same", ...web, env: { BODY: "one" } }, { wait: true }),
    other.client.apps.create({ name: "same", ...web, env: { BODY: "other" } }, { wait: true }),
  ]);
  const theirs = await other.container("same");
  const before = await theirs.inspect();
  expect(await fetchText((await one.app("same")).url)).toBe("one\n");
  await one.client.apps.delete("same", { deleteVolumes: true });
  await one.client.apps.waitDeleted("same", { timeoutMs: 30_000 });
  expect(await one.containers()).toEqual([]);
  const after = await theirs.inspect();
  expect([after.Id, after.State.StartedAt]).toEqual([before.Id, before.State.StartedAt]);
  expect(await fetchText((await other.app("same")).url)).toBe("other\n");
  expect((await one.client.apps.list()).total).toBe(0);
});

test("a backup of a running server is restored completely, and later changes are gone", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  await client.secrets.create({ name: "greeting", data: { text: "kept in the backup" } });
  await client.apps.create(
    { name: "old", ...web, env: { BODY: { secret: "greeting" } } },
    { wait: true },
  );
  const file = join(berth.root, "berth.db");
  const [saved] = await Promise.all([
    berth.cli(["backup", file]),
    client.apps.create({ name: "meanwhile", image: SHELL }),
  ]);
  expect(saved).toMatchObject({ code: 0, stderr: "" });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await berth.cli(["backup", file])).toMatchObject({ code: 1 });
  await client.apps.create({ name: "later", ...web }, { wait: true });
  await client.secrets.put("greeting", { data: { text: "of later" } });

  // A restore is refused while the server runs.
  const early = await berth.cli(["restore", file, "--force", "--yes"]);
  expect(early.code).toBe(1);
  expect(early.stderr).toContain(`process ${berth.ready.pid}`);

  await berth.stop();
  const careful = await berth.cli(["restore", file, "--yes"]);
  expect(careful.code).toBe(1);
  expect(careful.stderr).toContain("--force");
  const restored = await berth.cli(["restore", file, "--force", "--yes"]);
  expect(restored.code).toBe(0);
  expect(restored.stdout).toContain("kept as");
  await berth.start();
  const app = await berth.waitForAppReady("old");
  await berth.until(
    "the old secret is back",
    async () => (await fetchText(app.url)) === "kept in the backup\n",
  );
  // The App "later" is not in the backup, so its container is an orphan of this instance and is removed.
  await berth.until(
    "the orphan is gone",
    async () => (await berth.containers("later")).length === 0,
  );

  const bad = join(berth.root, "bad.db");
  await writeFile(bad, "this is no backup");
  await berth.stop();
  const refused = await berth.cli(["restore", bad, "--force", "--yes"]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).not.toMatch(/\n\s+at /);
  await berth.start();
  await berth.waitForAppReady("old");
});

test("wrong flags are reported before anything starts", async () => {
  await using berth = await BerthProcess.open({ start: false });
  const up = (flags: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runBerth(["up", ...berth.upFlags(), ...flags], {
      cwd: berth.root,
      env: berth.environment(env),
    });
  const [caddy, assistant, byEnvironment, port, flag] = await Promise.all([
    up(["--ingress", "caddy"]),
    up(["--assistant", "maybe"]),
    up([], { BERTH_INGRESS: "caddy" }),
    up(["--listen", "127.0.0.1:99999"]),
    up(["--lisen", "127.0.0.1:0"]),
  ]);
  for (const { code, stdout, stderr } of [caddy, assistant, byEnvironment, port, flag]) {
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).not.toMatch(/\n\s+at /);
  }
  expect(caddy.stderr).toMatch(/must be auto, process, container or off/);
  expect(assistant.stderr).toMatch(/--assistant must be on or off/);
  expect(byEnvironment.stderr).toMatch(/must be auto, process, container or off/);
  expect(port.stderr).toContain("99999");
  expect(flag.stderr).toContain("--listen");
  await expect(stat(berth.dataDir)).rejects.toMatchObject({ code: "ENOENT" });
});

test("the password is generated once, shown once, and accepted; guessing is slowed down", async () => {
  await using berth = await BerthProcess.open();
  // The password is printed after the ready line, and on standard error.
  const password = await berth.until(
    "the password is shown",
    () => /shown only this once: (\S+)/.exec(berth.output)?.[1],
  );
  expect(password.length).toBeGreaterThan(15);
  const anybody = createClient({ baseUrl: berth.ready.api });
  await expect(anybody.apps.list()).rejects.toMatchObject({ status: 401 });
  await expect.poll(() => anybody.health()).toMatchObject({ status: "ok" });
  expect((await anybody.templates.list()).total).toBeGreaterThan(11);

  const { token, token_type, expires_in } = await anybody.auth.login(password);
  expect([token_type, expires_in]).toEqual(["Bearer", 86_400]);
  const session = createClient({ baseUrl: berth.ready.api, token });
  expect((await session.apps.list()).total).toBe(0);
  await session.auth.logout();
  await expect(session.apps.list()).rejects.toMatchObject({ status: 401 });

  // With another home directory, `berth` finds neither the data directory nor the token file of this server.
  const home = join(berth.root, "elsewhere");
  const elsewhere = (words: readonly string[], input?: string) =>
    runBerth(words, {
      cwd: berth.root,
      env: { ...plainEnvironment(home), BERTH_DATA_DIR: join(home, "no-data") },
      input,
    });
  const stranger = await elsewhere(["get", "apps", "--url", berth.ready.api]);
  expect(stranger.code).toBe(1);
  expect(stranger.stderr).toContain("berth login");
  const login = await elsewhere(["login", berth.ready.api, "--password-stdin"], `${password}\n`);
  expect(login).toMatchObject({ code: 0, stderr: "" });
  expect((await stat(join(home, ".config/berth/credentials.json"))).mode & 0o777).toBe(0o600);
  const { stdout } = await elsewhere(["get", "apps", "-o", "json"]);
  expect(JSON.parse(stdout)).toMatchObject({ kind: "List", items: [] });
  expect(await elsewhere(["logout"])).toMatchObject({ code: 0 });
  expect((await elsewhere(["get", "apps"])).code).toBe(1);

  const wrong = await Promise.all(
    Array.from({ length: 5 }, () => anybody.auth.login("not it").catch((error) => error)),
  );
  for (const error of wrong) expect([401, 429]).toContain(error.status);
  expect(wrong[0]).toMatchObject({ status: 401 });
  const slowed = await anybody.auth.login(password).catch((error) => error);
  expect(slowed).toMatchObject({ status: 429 });
  expect(slowed.retryAfterSeconds).toBeGreaterThan(0);
  expect(slowed.retryAfterSeconds).toBeLessThanOrEqual(60);
  // Only logins are limited, so a request with a valid token succeeds.
  expect((await berth.client.apps.list()).total).toBe(0);

  const shown = berth.output.split(password).length - 1;
  expect(shown).toBe(1);
  await berth.stop();
  await berth.start();
  expect(berth.output.split("shown only this once").length - 1).toBe(1);
  await expect(
    createClient({ baseUrl: berth.ready.api }).auth.login(password),
  ).resolves.toMatchObject({ token_type: "Bearer" });
});

test("BERTH_PASSWORD sets the password, and is never printed", async () => {
  const password = "a password of my own";
  await using berth = await BerthProcess.open({ env: { BERTH_PASSWORD: password } });
  await createClient({ baseUrl: berth.ready.api }).auth.login(password);
  const config = await berth.cli(["config"]);
  expect(config.code).toBe(0);
  const { stdout } = await berth.cli(["doctor"]);
  for (const text of [berth.output, config.stdout, stdout]) expect(text).not.toContain(password);
  expect(berth.output).not.toContain("shown only this once");
});

test("the server starts without an engine, reports the missing engine, and starts apps as soon as an engine is available", async () => {
  await using berth = await BerthProcess.open({
    dockerHost: (root) => `unix://${join(root, "no-engine.sock")}`,
  });
  await expect
    .poll(() => berth.client.health())
    .toMatchObject({
      status: "degraded",
      runtime: "disconnected",
    });
  await berth.client.apps.create({ name: "waits", ...web });
  const app = await berth.waitForApp(
    "waits",
    "it is Unknown",
    ({ status }) => status === "unknown",
  );
  expect(app.ready).toBe(false);
  const doctor = await berth.cli(["doctor"]);
  expect(doctor.code).toBe(1);
  expect(doctor.stdout).toContain("no-engine.sock");
  expect(await berth.stop()).toBe(0);
});
