import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { Agent, request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { acceptIngressConnections } from "../../src/base/http/ingress-connections.ts";
import { networkName } from "../../src/controller/engine-names.ts";
import { findHostReachability } from "../../src/controller/ingress/host-reachability.ts";
import { ingressPaths } from "../../src/controller/ingress/ingress-paths.ts";
import { APP, INSTANCE } from "../../src/controller/labels.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import { openTestApi } from "../support/api-harness.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { CADDY, ensureCaddyImage } from "../support/caddy-image.ts";
import { dockerClient, dockerHost } from "../support/engine.ts";
import { sweep } from "../support/engine-runs.ts";
import { freePorts } from "../support/free-port.ts";
import { WEB } from "../support/images.ts";
import { openWebSocket } from "../support/web-socket.ts";

/** Tests of Caddy in a container, whose image is built from the Caddy of this machine. */

const signal = new AbortController().signal;
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
let harness: CaddyHarness | undefined;

beforeAll(async () => {
  await ensureCaddyImage(dockerHost());
});
afterEach(async () => {
  const instance = harness?.store.instanceId;
  await harness?.[Symbol.asyncDispose]();
  harness = undefined;
  if (instance) await sweep(dockerClient(), `${INSTANCE}=${instance}`);
});
afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

async function open(
  options: Parameters<typeof CaddyHarness.open>[0] = { ingress: "container" },
): Promise<CaddyHarness> {
  harness = await CaddyHarness.open({
    runtime,
    dockerHost: dockerHost(),
    ingressImage: CADDY,
    ...options,
  });
  return harness;
}

/** Runs a container of an app on the instance's network, and returns its address. */
async function runApp(to: CaddyHarness, app: string): Promise<string> {
  const { instanceId: instance } = to.store;
  const network = networkName(instance);
  await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
  const id = await runtime.createContainer(
    {
      name: `${network}-${app}`,
      image: WEB,
      labels: { [INSTANCE]: instance, [APP]: app },
      env: [`BODY=${app}`],
      network,
      aliases: [app],
      mounts: [],
      publish: [],
      stopGraceMs: 0,
    },
    signal,
  );
  await runtime.startContainer(id, signal);
  const [found] = await runtime.listContainers({ instance, app }, signal);
  return `${found?.networkAddresses[network]}:8080`;
}

async function serve(by: CaddyHarness, app: string): Promise<void> {
  by.apply(app);
  await by.waitForVerdict(app);
  const targets = [await runApp(by, app)];
  await by.ingress.table.write(app, { version: "v1", targets });
  await by.waitUntil(
    async () => (await bodyOf(by, app)) === app,
    () => `${app} does not answer`,
  );
}

async function bodyOf(by: CaddyHarness, app: string): Promise<string> {
  return by.get(`${app}.localhost`).then(
    ({ body }) => body.trim(),
    () => "",
  );
}

async function caddyOf(by: CaddyHarness) {
  const all = await runtime.listContainers({ instance: by.store.instanceId }, signal);
  return all.find(({ name }) => name === `berth-${by.store.instanceId}-ingress`);
}

describe("Caddy in a container", () => {
  it("sends requests to the addresses of apps, and to an app's new address without a reload", async () => {
    const here = await open();
    await here.waitUntilReady();
    expect(here.ingress.mode).toBe("container");
    expect(here.ingress.reachability).toBe("address");
    expect(here.ingress.state()).toMatchObject({ version: "2.6.2" });
    await serve(here, "first");
    await serve(here, "second");
    const route = await here.ingress.table.read("second");
    await here.ingress.table.write("first", { version: "v2", targets: route?.targets ?? [] });
    expect(await bodyOf(here, "first")).toBe("second");
    expect((await here.get("nobody.localhost")).status).toBe(404);
  });

  it("is restarted with all routes when it is killed, and when it is removed", async () => {
    const here = await open();
    await here.waitUntilReady();
    await serve(here, "web");
    const killed = await caddyOf(here);
    await dockerClient()
      .getContainer(killed?.id ?? "")
      .kill();
    await here.waitUntil(
      async () => (await bodyOf(here, "web")) === "web",
      () => here.ingress.state().message,
    );
    const removed = await caddyOf(here);
    expect(removed?.id).not.toBe(killed?.id);
    await runtime.removeContainer(removed?.id ?? "", signal);
    await here.waitUntil(
      async () => (await bodyOf(here, "web")) === "web",
      () => here.ingress.state().message,
    );
    await here.waitUntilReady();
  });

  it("reaches the API of Berth, which trusts the client address that Caddy sends", async () => {
    const apiDomain = "berth.localhost";
    const here = await open({ ingress: "container", https: true, apiDomain });
    await using api = await openTestApi({ clock: systemClock, apiDomain });
    await here.waitUntilReady();
    const { folder, apiSocket } = await ingressPaths(here.dataDir);
    const stop = await acceptIngressConnections(api.server.server, apiSocket);
    const ca = readFileSync(join(folder, "storage/pki/authorities/local/root.crt"));
    const dispatcher = new Agent({
      connect: {
        ca,
        lookup: (_host, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
      },
    });
    const url = here.ingress.api()?.url;
    const answer = await request(`${url}/api/auth/login`, {
      method: "POST",
      dispatcher,
      headers: { "content-type": "application/json", "x-forwarded-for": "198.51.100.1" },
      body: JSON.stringify({ password: "wrong" }),
    });
    expect(answer.statusCode).toBe(401);
    await answer.body.dump();
    await dispatcher.close();
    stop();
    const [failed] = api.store.audit.list({ limit: 1 });
    // The engine's proxy replaces the client's address. The audit entry must have that address, and not the forged
    // one from the header x-forwarded-for.
    expect(failed?.name).toMatch(/^(127\.0\.0\.1|172\.\d+\.\d+\.\d+|10\..+|192\.168\..+)$/);
  });

  it("is adopted by the next Berth, or replaced if the port has changed", async () => {
    const here = await open();
    await here.waitUntilReady();
    await serve(here, "web");
    const before = await caddyOf(here);
    await here.stopBerth();
    expect(await bodyOf(here, "web")).toBe("web");
    await here.boot();
    await here.waitUntilReady();
    expect((await caddyOf(here))?.id).toBe(before?.id);
    await here.stopBerth();
    const [httpPort = 0] = await freePorts(1);
    await here.boot({ httpPort });
    await here.waitUntilReady();
    expect((await caddyOf(here))?.id).not.toBe(before?.id);
    expect((await fetch(`http://127.0.0.1:${httpPort}/`)).status).toBe(404);
  });

  it("is replaced when another program has created its container", async () => {
    const here = await open();
    await here.waitUntilReady();
    await serve(here, "web");
    const before = await caddyOf(here);
    await here.stopBerth();
    const docker = dockerClient();
    const own = docker.getContainer(before?.id ?? "");
    const { Name: name, Config: config, HostConfig: host } = await own.inspect();
    await own.remove({ force: true });
    const foreign = await docker.createContainer({
      ...config,
      name: name.slice(1),
      HostConfig: { ...host, CapDrop: ["MKNOD"] },
    });
    await foreign.start();
    await here.boot();
    await here.waitUntilReady();
    const after = await caddyOf(here);
    expect(after?.id).not.toBe(foreign.id);
    expect(after?.settings?.foreign).toEqual([]);
    expect(await bodyOf(here, "web")).toBe("web");
  });

  it("refuses only an App with options that it cannot serve", async () => {
    const here = await open();
    await here.waitUntilReady();
    await serve(here, "web");
    here.apply("locked", { ingress: { basicAuth: { secret: "missing" } } });
    await here.waitForVerdict("locked", "SecretNotFound");
    here.apply("shut", { ingress: { maintenance: true } });
    await here.waitForVerdict("shut");
    expect((await here.get("shut.localhost")).status).toBe(503);
    expect(await bodyOf(here, "web")).toBe("web");
  });

  it("reports a port that another program uses", async () => {
    const other = createServer();
    other.listen(0, "0.0.0.0");
    await once(other, "listening");
    const address = other.address();
    const httpPort = typeof address === "object" && address !== null ? address.port : 0;
    const here = await open({ ingress: "container", httpPort });
    await here.waitUntil(
      () => here.ingress.state().message.startsWith("port"),
      () => here.ingress.state().message,
    );
    expect(here.ingress.state().message).toBe(
      `port ${httpPort} is used by another program: choose another port with --http-port`,
    );
    other.close();
    await here.waitUntilReady();
  });
});

describe("an ingress in automatic mode", () => {
  it("uses the Caddy of the machine, and reaches containers of a local engine by address", async () => {
    const here = await open({ ingress: "auto" });
    expect(here.ingress.mode).toBe("process");
    expect(here.ingress.reachability).toBe("address");
    await here.waitUntilReady();
    await serve(here, "web");
    const socket = openWebSocket(here.httpPort, "web.localhost");
    await expect(socket).rejects.toThrow("answered");
  });

  it("uses a container if the machine has no Caddy, and continues to use it", async () => {
    const here = await open({ ingress: "auto", searchPath: "/nowhere" });
    expect(here.ingress.mode).toBe("container");
    await here.waitUntilReady();
    await serve(here, "web");
    await here.stopBerth();
    await here.boot();
    expect(here.ingress.mode).toBe("container");
    await here.waitUntilReady();
    expect(await bodyOf(here, "web")).toBe("web");
  });

  it("stops the Caddy of the previous mode, which occupies the port", async () => {
    const here = await open();
    await here.waitUntilReady();
    await serve(here, "web");
    await here.stopBerth();
    await here.boot({ ingress: "process" });
    await here.waitUntilReady();
    expect(await caddyOf(here)).toBeUndefined();
    expect(await bodyOf(here, "web")).toBe("web");
    await here.stopBerth();
    await here.boot();
    await here.waitUntilReady();
    expect((await caddyOf(here))?.state).toBe("running");
    expect(await bodyOf(here, "web")).toBe("web");
  });

  it("is off if there is neither a Caddy nor its image", async () => {
    const here = await open({
      ingress: "auto",
      searchPath: "/nowhere",
      ingressImage: "berth.test/no-such-image:1",
    });
    expect(here.ingress.mode).toBe("off");
    expect(here.ingress.reachability).toBe("published");
    expect(here.ingress.state()).toMatchObject({
      ready: false,
      message: expect.stringContaining("no Caddy was found"),
    });
  });
});

describe("the reachability of containers from the host", () => {
  it("is read from the store while the engine is unreachable", async () => {
    const here = await open({ ingress: "auto" });
    const { store } = here;
    const away = {
      location: "this-machine" as const,
      ensureNetwork: () => Promise.reject(new Error("away")),
      networkSubnets: () => Promise.resolve([]),
      removeNetwork: () => Promise.resolve(),
    };
    expect(
      await findHostReachability({ runtime: away, store, dockerHost: dockerHost(), signal }),
    ).toBe("address");
    expect(
      await findHostReachability({ runtime: away, store, dockerHost: "unix:///other", signal }),
    ).toBe("published");
  });
});
