import { expect, test } from "vitest";
import { BerthProcess, conditionOf, fetchText } from "../support/berth-process.ts";
import { DedicatedEngine } from "../support/dedicated-engine.ts";
import { ensureTestImages, WEB } from "../support/images.ts";
import { visit } from "../support/traffic.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;

test("while the engine is away the state of every app is Unknown; when the engine is back, every app converges", async () => {
  await using engine = await DedicatedEngine.start();
  await ensureTestImages(engine.host);
  await using berth = await BerthProcess.open({ dockerHost: engine.host, docker: engine.docker });
  const { client } = berth;
  const names = ["same", "edited", "deleted", "stopped"];
  await Promise.all(names.map((name) => client.apps.create({ name, ...web }, { wait: true })));
  await client.apps.stop("stopped", { wait: true });
  const same = await berth.container("same");
  await expect.poll(() => client.health()).toMatchObject({ status: "ok", runtime: "connected" });

  await engine.stop();
  await berth.until("the loss is noticed", async () => {
    const { status, runtime } = await client.health();
    return status === "degraded" && runtime === "disconnected";
  });
  for (const name of names) {
    const app = await berth.waitForApp(name, `${name} is unknown`, (it) => it.status === "unknown");
    expect(app.ready).toBe(false);
    expect(conditionOf(app, "Ready")).toMatchObject({ status: "Unknown" });
    expect(conditionOf(app, "Available")?.status ?? "Unknown").toBe("Unknown");
  }
  // Requests that need the engine report that it is unreachable; other requests succeed.
  await expect(client.apps.plan("same")).rejects.toMatchObject({ status: 503 });
  expect((await berth.cli(["doctor"])).code).toBe(1);
  await client.apps.patch("edited", { env: { BODY: "edited meanwhile" } });
  await client.apps.delete("deleted");
  await client.apps.create({ name: "new", ...web });
  expect((await client.apps.list()).total).toBe(5);

  await engine.start();
  await berth.until("the engine is noticed", async () => {
    const { status, runtime } = await client.health();
    return status === "ok" && runtime === "connected";
  });
  await berth.waitUntilAppGone("deleted");
  const [kept, edited, made] = await Promise.all(
    ["same", "edited", "new"].map((name) => berth.waitForAppReady(name)),
  );
  expect(await fetchText(kept?.url ?? null)).toBe("web:1\n");
  expect(await fetchText(edited?.url ?? null)).toBe("edited meanwhile\n");
  expect(await fetchText(made?.url ?? null)).toBe("web:1\n");
  // The same container is started again, because the engine had ended it and the container had not failed.
  expect((await berth.container("same")).id).toBe(same.id);
  const stopped = await berth.waitForApp(
    "stopped",
    "it is known to be stopped",
    (app) => app.status === "stopped",
  );
  expect(stopped.containers.map(({ state }) => state)).toEqual(["exited"]);
  expect(await berth.containers()).toHaveLength(4);
});

test("after a restart of the engine, each domain reaches its own app again, whatever addresses the engine assigns to the containers", async () => {
  await using engine = await DedicatedEngine.start();
  await ensureTestImages(engine.host);
  await using berth = await BerthProcess.open({
    dockerHost: engine.host,
    docker: engine.docker,
    ingress: "process",
  });
  const { client, ingressPort: port } = berth;
  const names = ["one", "two", "three"];
  const answerOf = (name: string) => visit({ port, host: `${name}.localhost` });
  for (const name of names)
    await client.apps.create({ name, ...web, env: { BODY: name } }, { wait: true });
  const wrong: string[] = [];
  const look = async () => {
    for (const name of names) {
      const { status, body } = await answerOf(name);
      if (status === 200 && body !== `${name}\n`) wrong.push(`${name} answered ${body}`);
    }
  };
  await look();
  await engine.stop();
  await berth.until("the loss is noticed", async () => (await client.health()).status !== "ok");
  await look();
  await engine.start();
  let seen = "";
  await berth.until(
    "every app answers again",
    async () => {
      await look();
      const answers = await Promise.all(names.map(answerOf));
      const { apps } = await client.apps.list();
      const containers = await berth.containers();
      seen = JSON.stringify({
        answers: answers.map(({ status, body }) => `${status} ${body.slice(0, 80)}`),
        apps: apps.map(({ name, status }) => `${name} ${status}`),
        containers: containers.map(({ Names, Status, NetworkSettings }) => [
          ...Names,
          Status,
          ...Object.values(NetworkSettings.Networks).map(({ IPAddress }) => IPAddress),
        ]),
      });
      return answers.every(({ status }) => status === 200);
    },
    undefined,
    () => seen,
  );
  await look();
  expect(wrong).toEqual([]);
  // The engine ended the containers, so their ends do not count as restarts of the apps.
  for (const name of names) expect((await client.apps.get(name)).restarts).toBe(0);
});

test("a container that the engine cannot start any more is replaced", async () => {
  await using engine = await DedicatedEngine.start();
  await ensureTestImages(engine.host);
  await using berth = await BerthProcess.open({ dockerHost: engine.host, docker: engine.docker });
  const { client } = berth;
  await client.apps.create({ name: "stuck", ...web }, { wait: true });
  await client.apps.stop("stuck", { wait: true });
  const { id } = await berth.container("stuck");
  await engine.leaveTask(id);
  // Two starts fail: the engine does not remove the leftover containerd task, so Berth must replace the container.
  for (let time = 0; time < 2; time += 1)
    await expect(engine.docker.getContainer(id).start()).rejects.toThrow(/id already in use/);
  await client.apps.start("stuck", { wait: true });
  const { id: another } = await berth.container("stuck");
  expect(another).not.toBe(id);
  expect(await fetchText((await berth.waitForAppReady("stuck")).url)).toBe("web:1\n");
});
