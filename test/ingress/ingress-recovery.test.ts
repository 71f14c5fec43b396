import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { type LogFields, silentLogger } from "../../src/base/logger.ts";
import { getProgramSearchPath } from "../../src/config/config.ts";
import { CaddyAdmin } from "../../src/controller/ingress/caddy-admin.ts";
import { buildCaddyConfig } from "../../src/controller/ingress/caddy-config.ts";
import { CaddyConfigLoader } from "../../src/controller/ingress/caddy-config-loader.ts";
import { CaddyProcess, findCaddy } from "../../src/controller/ingress/caddy-process.ts";
import { DirectRouteLoads } from "../../src/controller/ingress/direct-route-loads.ts";
import { FolderRouteTable } from "../../src/controller/ingress/folder-route-table.ts";
import { ingressPaths } from "../../src/controller/ingress/ingress-paths.ts";
import type { Site } from "../../src/controller/ingress/site.ts";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { freePorts } from "../support/free-port.ts";
import { loadConfigByHand, readLoadedConfig } from "../support/loaded-caddy-config.ts";
import { openWebSocket } from "../support/web-socket.ts";

/** Tests of exits and failures of Caddy and of Berth. Afterwards all routes must still be served. */

const signal = new AbortController().signal;
let backend: Backend;
let harness: CaddyHarness | undefined;

beforeAll(async () => {
  backend = await startBackend("one");
});
afterEach(async () => {
  await harness?.[Symbol.asyncDispose]();
  harness = undefined;
});
afterAll(async () => {
  await backend[Symbol.asyncDispose]();
});

async function open(): Promise<CaddyHarness> {
  harness = await CaddyHarness.open();
  await harness.waitUntilReady();
  return harness;
}

/** Adds the App `plain`, which the route table serves, and `special`, which needs a route in Caddy's configuration. */
async function addApps(to: CaddyHarness): Promise<void> {
  to.apply("plain");
  to.apply("special", { ingress: { pathPrefix: "/in" } });
  for (const app of ["plain", "special"]) {
    await to.waitForVerdict(app);
    await to.ingress.table.write(app, { version: "v1", targets: [backend.target] });
  }
}

/** Returns the responses of the two Apps. */
async function fetchAnswers(by: CaddyHarness): Promise<string[]> {
  return [
    (await by.get("plain.localhost")).body,
    (await by.get("special.localhost", "/in/x")).body,
  ];
}
const all = ["one", "one"];

const isGone = (pid: number): boolean => {
  try {
    // A zombie process counts as gone. Its entry in /proc still exists, but its command line is empty.
    return readFileSync(`/proc/${pid}/cmdline`, "utf8") === "";
  } catch {
    return true;
  }
};

describe("the Caddy process", () => {
  it("is restarted with all routes after SIGKILL", async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    here.agent.destroy();
    process.kill(caddyPid, "SIGKILL");
    await here.waitUntil(
      async () => (await here.get("plain.localhost").catch(() => ({ body: "" }))).body === "one",
      () => here.ingress.state().message,
    );
    await here.waitUntil(
      () => here.caddyPid !== caddyPid,
      () => "the same process",
    );
    await here.waitUntilReady();
    expect(await fetchAnswers(here)).toEqual(all);
  });

  it("is started by the next Berth if it was killed while Berth was stopped", async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    await here.stopBerth();
    process.kill(caddyPid, "SIGKILL");
    await here.waitUntil(
      () => isGone(caddyPid),
      () => "Caddy is there still",
    );
    await here.boot();
    await here.waitUntilReady();
    expect(await fetchAnswers(here)).toEqual(all);
  });

  it("has its whole configuration in a file, for a start without Berth", async () => {
    const here = await open();
    await addApps(here);
    const file = join(here.dataDir, "ingress", "caddy.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(await readLoadedConfig(here.dataDir));
  });

  it("is replaced when it no longer answers", { timeout: 120_000 }, async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    process.kill(caddyPid, "SIGSTOP");
    here.agent.destroy();
    await here.waitUntil(
      () => !here.ingress.state().ready,
      () => here.ingress.state().message,
    );
    await expect.poll(() => isGone(caddyPid), { timeout: 90_000, interval: 200 }).toBe(true);
    await here.waitUntilReady();
    expect(await fetchAnswers(here)).toEqual(all);
  });
});

describe("a Berth that exits", () => {
  it("keeps Caddy running, and the next Berth adopts it without a reload", async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    const socket = await openWebSocket(here.httpPort, "plain.localhost");
    await here.stopBerth();
    expect(await fetchAnswers(here)).toEqual(all);
    await here.boot();
    await here.waitUntilReady();
    await here.waitForVerdict("special");
    expect(here.caddyPid).toBe(caddyPid);
    expect(await fetchAnswers(here)).toEqual(all);
    // The installed version of Caddy closes WebSockets when it reloads, so the open WebSocket shows that there was no
    // reload.
    await socket.echo("still here");
    socket.close();
  });

  it("removes the routes of Apps that were deleted meanwhile", async () => {
    const here = await open();
    await addApps(here);
    await here.stopBerth();
    here.delete("plain");
    await here.boot();
    await here.waitUntilReady();
    expect((await here.get("plain.localhost")).status).toBe(404);
    expect(await here.ingress.table.read("plain")).toBeNull();
    expect((await here.get("special.localhost", "/in")).body).toBe("one");
  });

  it("can be restarted with another port, which Caddy then uses", async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    const [httpPort = 0] = await freePorts(1);
    await here.stopBerth();
    await here.boot({ httpPort });
    await here.waitUntilReady();
    expect(here.ingress.url("plain.localhost", false, "/x")).toBe(
      `http://plain.localhost:${httpPort}/x`,
    );
    const answer = await fetch(`http://127.0.0.1:${httpPort}/`).then(({ status }) => status);
    expect(answer).toBe(404);
    expect(here.caddyPid).toBe(caddyPid);
    await expect(here.get("plain.localhost")).rejects.toThrow("ECONNREFUSED");
  });
});

describe("an ingress that is switched off", () => {
  it("stops the previous Caddy, and starts a new one without old routes when it is switched on again", async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    await here.stopBerth();
    await here.boot({ ingress: "off" });
    expect(here.ingress.mode).toBe("off");
    expect(isGone(caddyPid)).toBe(true);
    await expect(here.get("plain.localhost")).rejects.toThrow("ECONNREFUSED");
    await here.boot();
    // Other containers may have received the old addresses of the Apps, so the route table must not contain them.
    for (const app of ["plain", "special"]) expect(await here.ingress.table.read(app)).toBeNull();
    await here.waitUntilReady();
    await here.waitForVerdict("plain");
    expect((await here.get("plain.localhost")).status).toBe(503);
    await addApps(here);
    expect(await fetchAnswers(here)).toEqual(all);
  });
});

describe("the state that the ingress reports for an App's domains", () => {
  const waiting = { served: false, reason: "WaitingForIngress" };

  it("is WaitingForIngress after a change of the domain until Caddy serves the new one; the ingress then announces that the state has changed", async () => {
    const here = await open();
    await addApps(here);
    here.changed.length = 0;
    here.apply("plain", { domain: "other.test" });
    expect(here.getVerdict("plain")).toMatchObject(waiting);
    expect((await here.get("other.test")).status).toBe(404);
    await here.waitForVerdict("plain");
    expect((await here.get("other.test")).body).toBe("one");
    expect(here.changed).toContain("plain");
    // This change of the spec does not affect the domains, so the state does not become WaitingForIngress.
    here.changed.length = 0;
    here.apply("plain", { domain: "other.test", image: "web:2" });
    expect(here.getVerdict("plain")).toMatchObject({ served: true });
    here.apply("special");
    expect(here.getVerdict("special")).toMatchObject(waiting);
    await here.waitForVerdict("special");
    expect(here.changed).not.toContain("plain");
  });

  it("is WaitingForIngress while Caddy does not answer", { timeout: 60_000 }, async () => {
    const here = await open();
    await addApps(here);
    const { caddyPid } = here;
    process.kill(caddyPid, "SIGSTOP");
    here.agent.destroy();
    here.apply("plain", { ingress: { pathPrefix: "/new" } });
    await here.waitUntil(
      () => !here.ingress.state().ready,
      () => here.ingress.state().message,
    );
    expect(here.getVerdict("plain")).toEqual({
      ...waiting,
      message: "Caddy does not answer, and is restarted",
    });
    process.kill(caddyPid, "SIGCONT");
    await here.waitForVerdict("plain");
    expect((await here.get("plain.localhost", "/new")).body).toBe("one");
  });
});

describe("a configuration that another program changes", () => {
  it("is restored", async () => {
    const here = await open();
    await addApps(here);
    const before = await readLoadedConfig(here.dataDir);
    const listen = `unix/${join(here.dataDir, "ingress", "admin.sock")}`;
    await loadConfigByHand(here.dataDir, { admin: { listen } });
    await expect(here.get("plain.localhost")).rejects.toThrow(
      /ECONNREFUSED|socket hang up|ECONNRESET/,
    );
    await here.waitUntil(
      async () => (await here.get("plain.localhost").catch(() => ({ body: "" }))).body === "one",
      () => "nobody listens",
    );
    expect(withoutDirectRoutes(await readLoadedConfig(here.dataDir))).toEqual(
      withoutDirectRoutes(before),
    );
    expect(await fetchAnswers(here)).toEqual(all);
  });
});

/** Returns the configuration without direct routes, which depend on the Apps' addresses when Caddy loads it. */
function withoutDirectRoutes(config: unknown): unknown {
  return JSON.parse(JSON.stringify(config), (_, value: unknown) =>
    Array.isArray(value) ? value.filter((item) => item?.group !== "direct") : value,
  );
}

describe("a port of the ingress", () => {
  it("that another program uses is reported, and the ingress uses it as soon as it is free", async () => {
    const other = createServer();
    other.listen(0);
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const warned: LogFields[] = [];
    const logger = { ...silentLogger, warn: (fields: LogFields) => void warned.push(fields) };
    harness = await CaddyHarness.open({ httpPort: port, logger });
    const here = harness;
    await here.waitUntil(
      () => here.ingress.state().message.startsWith("port"),
      () => here.ingress.state().message,
    );
    const error = `port ${port} is used by another program: choose another port with --http-port`;
    expect(here.ingress.state()).toEqual({ ready: false, message: error });
    expect(warned).toEqual([{ error, failures: 1 }]);
    other.close();
    await here.waitUntilReady();
  });
});

describe("an App whose options Caddy refuses", () => {
  it("is left out of the configuration, and all other Apps are served", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "berth-loader-"));
    const [httpPort = 0] = await freePorts(1);
    const paths = await ingressPaths(dataDir);
    const table = new FolderRouteTable({ folder: join(paths.folder, "table"), clock: systemClock });
    await table.prepare();
    const program = (await findCaddy(getProgramSearchPath())) ?? "";
    const settings = { httpPort, httpsPort: undefined, acmeEmail: undefined };
    const clock = systemClock;
    const host = new CaddyProcess({ program, paths, clock, httpPort, httpsPort: undefined });
    const loader = () => {
      const direct = new DirectRouteLoads({
        table,
        file: paths.directRoutesFile,
        findReservedRange: async () => undefined,
      });
      return new CaddyConfigLoader({ host, paths, direct, settings, clock, logger: silentLogger });
    };
    // Caddy's host matcher refuses duplicate names. The validation of specs normally prevents them.
    const sites = Array.from({ length: 9 }, (_, index) => site(`app-${index}`));
    const bad = sites.map((item, index) =>
      index === 3 || index === 8 ? { ...item, domains: [...item.domains, ...item.domains] } : item,
    );
    try {
      // Caddy refuses duplicate domains both in the configuration with which it starts and in one that is loaded later.
      const first = loader();
      expect(names(await first.apply(bad, signal))).toEqual(["app-3", "app-8"]);
      expect(await first.apply(bad, signal)).toEqual(
        new Map([
          ["app-3", expect.stringContaining("repeated")],
          ["app-8", expect.stringContaining("repeated")],
        ]),
      );
      expect(names(await first.apply(sites, signal))).toEqual([]);
      expect(names(await first.apply(bad, signal))).toEqual(["app-3", "app-8"]);
      const good = bad.filter((_, index) => index !== 3 && index !== 8);
      const { folder, adminSocket } = paths;
      expect(await new CaddyAdmin(adminSocket).readConfig(signal)).toEqual(
        buildCaddyConfig({ ...settings, folder, adminSocket, version: "2.6.2" }, good),
      );
    } finally {
      await host.stop(signal);
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});

describe("a data directory with a long path", () => {
  it("has a working ingress", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), `berth-${"long-".repeat(25)}`));
    const { adminSocket } = await ingressPaths(dataDir);
    expect(Buffer.byteLength(adminSocket)).toBeLessThan(104);
    expect((await ingressPaths(dataDir)).adminSocket).toBe(adminSocket);
    harness = await CaddyHarness.open({ dataDir });
    await harness.waitUntilReady();
    harness.apply("plain");
    await harness.waitForVerdict("plain");
    await harness.ingress.table.write("plain", { version: "v1", targets: [backend.target] });
    expect((await harness.get("plain.localhost")).body).toBe("one");
    rmSync(dirname(adminSocket), { recursive: true });
  });
});

function names(refused: ReadonlyMap<string, string>): string[] {
  return [...refused.keys()];
}

function site(app: string): Site {
  return {
    app,
    domains: [`${app}.localhost`],
    pathPrefix: "/x",
    stripPrefix: false,
    redirects: [],
    users: undefined,
    maintenance: undefined,
    https: true,
  };
}
