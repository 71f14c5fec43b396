import { expect, test } from "vitest";
import { IMAGE_REFERENCE } from "../../src/controller/labels.ts";
import { appFile, BerthProcess, conditionOf, fetchText } from "../support/berth-process.ts";
import { BROKEN, EXITS, SHELL, WEB, WEB_2 } from "../support/images.ts";
import { REGISTRY_USER, startRegistry } from "../support/registry.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;
/**
 * Settings for apps with a version that fails: its deadline is short. The settings `patient` have a long deadline for
 * good versions, which may start slowly on a busy machine.
 */
const impatient = {
  restart: { attempts: 2, interval: "10m", backoff: "50ms" },
  rollout: { progressDeadline: "2s", observe: "0s" },
} as const;
const patient = { ...impatient, rollout: { progressDeadline: "5m", observe: "0s" } } as const;

test("a container that exits immediately is in CrashLoop with its exit code and last lines", async () => {
  await using berth = await BerthProcess.open();
  const failed = await berth.client.apps
    .create({ name: "exits", image: EXITS, ...patient }, { wait: true })
    .catch((error) => error);
  expect(failed).toMatchObject({ status: 409 });
  const app = await berth.app("exits");
  expect(app.status).toBe("failed");
  const stalled = conditionOf(app, "Stalled");
  expect(stalled).toMatchObject({ status: "True", reason: "CrashLoop" });
  for (const part of ["exit code 3", "2 restarts", "no configuration found", "berth retry exits"])
    expect(stalled?.message).toContain(part);
  expect(app.restarts).toBe(2);
  const said = await berth.cli(["describe", "exits"]);
  expect(said.stdout).toContain("no configuration found");
  expect((await berth.cli(["logs", "exits"])).stdout).toContain("no configuration found");
  const retried = await berth.cli(["retry", "exits", "--wait"]);
  expect(retried.code).toBe(1);
  expect(retried.stderr).toMatch(/exit code 3[\s\S]*berth logs exits/);

  // A container whose command does not exist writes no log.
  await berth.client.apps.create({ name: "broken", image: BROKEN, ...impatient });
  const broken = await berth.waitForApp(
    "broken",
    "it is given up",
    ({ status }) => status === "failed",
  );
  expect(conditionOf(broken, "Stalled")?.message).toMatch(/does-not-exist|127/);

  // The corrected spec ends the condition Stalled.
  await berth.client.apps.patch("exits", { command: ["sleep", "1000"] }, { wait: true });
  expect((await berth.app("exits")).status).toBe("running");
});

test("an image that cannot be pulled is reported as unknown, or as denied until a Secret has the credentials", async () => {
  await using registry = await startRegistry({ credentials: true });
  await using open = await startRegistry();
  await using berth = await BerthProcess.open();
  const { client } = berth;
  const image = await registry.push(berth.docker, SHELL);

  const unknown = `${open.address}/nobody/has:this`;
  const missing = await client.apps
    .create({ name: "unknown", image: unknown }, { wait: true })
    .catch((error) => error);
  expect(missing).toMatchObject({ status: 409 });
  expect(String(missing)).toContain(unknown);
  expect(conditionOf(await berth.app("unknown"), "Stalled")?.reason).toBe("ImageNotFound");

  const denied = await client.apps
    .create({ name: "private", image }, { wait: true })
    .catch((error) => error);
  expect(denied).toMatchObject({ status: 409 });
  const before = await berth.app("private");
  expect(conditionOf(before, "Stalled")).toMatchObject({ reason: "RegistryDenied" });
  expect(conditionOf(before, "Stalled")?.message).toMatch(/secret/i);

  await client.secrets.create({
    name: "wrong",
    type: "registry",
    data: { server: registry.address, username: REGISTRY_USER.username, password: "nonsense" },
  });
  await berth.until("the wrong password was tried", async () => {
    const app = await berth.app("private");
    return (
      app.events.some(({ reason, count }) => reason === "RegistryDenied" && count > 1) ||
      app.events.filter(({ reason }) => reason === "RegistryDenied").length > 1
    );
  });
  await client.secrets.put("wrong", {
    type: "registry",
    data: { server: registry.address, ...REGISTRY_USER },
  });
  const app = await berth.waitForAppReady("private");
  expect(app.image).toBe(image);
  await berth.event("ImagePulled", { kind: "App", name: "private" });
  for (const text of [
    JSON.stringify(app),
    berth.output,
    JSON.stringify(await client.secrets.list()),
  ])
    expect(text).not.toContain(REGISTRY_USER.password);

  // The image was pulled for this app alone, so Berth removes it together with the app.
  await client.apps.delete("private");
  await client.apps.waitDeleted("private", { timeoutMs: 30_000 });
  await expect(berth.docker.getImage(image).inspect()).rejects.toMatchObject({ statusCode: 404 });
});

test("a version that fails is replaced by the previous one, and is not retried automatically", async () => {
  await using berth = await BerthProcess.open({
    specs: { "app.yaml": appFile("app", { ...web, ...patient, env: { BODY: "good" } }) },
  });
  await berth.waitForApp(
    "app",
    "the first version counts as good",
    (app) => app.revisions.stable === 1,
  );
  const bad = appFile("app", { ...web, ...impatient, image: EXITS });
  await berth.write("app.yaml", bad);
  const reverted = await berth.waitForApp(
    "app",
    "it is back",
    (app) => conditionOf(app, "Ready")?.reason === "Reverted" && app.status === "degraded",
  );
  expect(reverted.ready).toBe(false);
  expect(reverted.message).toMatch(/reverted to revision 1.*exit code 3/);
  expect(await fetchText(reverted.url)).toBe("good\n");
  const images = (await berth.containers("app")).map(({ Labels }) => Labels[IMAGE_REFERENCE]);
  expect(images).toEqual([WEB]);
  const { revisions } = await berth.client.apps.revisions("app");
  expect(revisions.map(({ number, state }) => `${number} ${state}`)).toEqual([
    "2 quarantined",
    "1 stable",
  ]);
  await berth.event("Reverted", { kind: "App", name: "app" });

  // Neither saving the same text again nor a restart of Berth retries the failed version.
  const serving = (await berth.container("app")).id;
  await berth.write("app.yaml", bad);
  await berth.stop();
  await berth.start();
  await berth.waitForApp(
    "app",
    "it is held",
    (app) => conditionOf(app, "Ready")?.reason === "Reverted" && app.status === "degraded",
  );
  expect((await berth.container("app")).id).toBe(serving);

  await berth.write("app.yaml", appFile("app", { ...web, ...patient, image: WEB_2 }));
  const next = await berth.waitForAppReady("app");
  expect(await fetchText(next.url)).toBe("web:2\n");
});

test("the message about a wrong port names the expected port and the port on which the program listens", async () => {
  await using berth = await BerthProcess.open();
  await berth.client.apps.create({ name: "wrong", ...web, ...impatient, port: 80 });
  const app = await berth.waitForApp(
    "wrong",
    "it is given up",
    ({ status }) => status === "failed",
  );
  const stalled = conditionOf(app, "Stalled");
  expect(stalled?.reason).toBe("ProgressDeadlineExceeded");
  expect(stalled?.message).toMatch(/port 80 was expected, but the app listens on 8080.*spec\.port/);
  expect(stalled?.message).toContain("listening on 8080");
  await berth.client.apps.patch("wrong", { port: 8080, rollout: patient.rollout }, { wait: true });
});

test("a missing Secret, a missing dependency and a taken host port are reported, and the app starts when each is resolved", async () => {
  await using berth = await BerthProcess.open();
  const { client } = berth;
  await client.apps.create({
    name: "needs",
    ...web,
    env: { BODY: { secret: "greeting", key: "text" } },
  });
  const waits = await berth.waitForApp("needs", "the Secret is missed", (app) =>
    app.message.includes("greeting"),
  );
  expect(waits.ready).toBe(false);
  await client.secrets.create({ name: "greeting", data: { text: "from a secret" } });
  const ready = await berth.waitForAppReady("needs");
  expect(await fetchText(ready.url)).toBe("from a secret\n");
  await client.secrets.patch("greeting", { data: { text: "rotated" } });
  await berth.until(
    "the rotated value is served",
    async () => (await fetchText(ready.url)) === "rotated\n",
  );
  expect(JSON.stringify(await berth.app("needs"))).not.toContain("rotated");

  await client.apps.create({ name: "second", ...web, dependsOn: ["first"] });
  const blocked = await berth.waitForApp("second", "the dependency is missed", (app) =>
    app.message.includes("first"),
  );
  expect(blocked).toMatchObject({ status: "pending", containers: [] });
  await client.apps.create({ name: "first", ...web });
  await berth.waitForAppReady("second");

  const taken = Number(new URL(ready.url ?? "").port);
  await client.apps.create({
    name: "rival",
    ...web,
    ports: [{ host: taken, container: 8080, address: "127.0.0.1" }],
  });
  const rival = await berth.waitForApp("rival", "the taken port is told", (app) =>
    app.message.includes(String(taken)),
  );
  expect(rival.ready).toBe(false);
  expect(await fetchText(ready.url)).toBe("rotated\n");
});
