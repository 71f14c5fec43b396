import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Server } from "node:net";
import os from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../../../src/base/clock.ts";
import { DockerRuntime } from "../../../../src/controller/runtime/docker-runtime.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const signal = new AbortController().signal;

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

/** Starts an HTTP server on a socket with the test's responses. */
async function startEngine(answer: Answer) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-engine-"));
  const seen: { url: string; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      seen.push({ url: request.url ?? "", body });
      answer(request, response, body);
    });
  });
  const socket = path.join(dir, "docker.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return {
    host: `unix://${socket}`,
    seen,
    /** Refuses new connections, but leaves open connections open. */
    lockOut: () => void Server.prototype.close.call(server),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const json = (response: ServerResponse, value: unknown, status = 200) => {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
};

const version = (api: string, min = "1.24") => ({
  Version: "99.0",
  ApiVersion: api,
  MinAPIVersion: min,
  Os: "linux",
  Arch: "amd64",
});

describe("the negotiation of an API version", () => {
  it.each([
    ["1.41", "/v1.41/info"],
    ["1.44", "/v1.44/info"],
    ["1.99", "/v1.47/info"],
  ])("with an engine of API %s uses %s", async (api, url) => {
    await using engine = await startEngine((request, response) =>
      json(response, request.url === "/version" ? version(api) : { NCPU: 4, MemTotal: 1024 }),
    );
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    expect(await runtime.info(signal)).toMatchObject({ cpus: 4, memoryBytes: 1024 });
    await runtime.info(signal);
    expect(engine.seen.map((request) => request.url)).toEqual(["/version", url, url]);
  });

  it.each([
    [version("1.40"), "too old"],
    [version("1.99", "1.60"), "too new"],
    [{ hello: "world" }, "not a container engine"],
  ])("refuses an engine with the unsupported answer %j", async (answer, part) => {
    await using engine = await startEngine((_, response) => json(response, answer));
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    await expect(runtime.info(signal)).rejects.toMatchObject({
      code: "engine_error",
      message: expect.stringContaining(part),
    });
  });

  it("is repeated when the engine restarts as another version", async () => {
    let api = "1.41";
    let cut = false;
    await using engine = await startEngine((request, response) => {
      if (cut) request.socket.destroy();
      else json(response, request.url === "/version" ? version(api) : {});
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    expect((await runtime.info(signal)).apiVersion).toBe("1.41");
    cut = true;
    await expect(runtime.info(signal)).rejects.toMatchObject({ code: "engine_unreachable" });
    cut = false;
    api = "1.43";
    expect((await runtime.info(signal)).apiVersion).toBe("1.43");
  });
});

describe("the free space of the engine's disk", () => {
  it("is read from the folder that an earlier call has found, until the connection to the engine was lost", async () => {
    let folder = os.tmpdir();
    let isCut = false;
    await using engine = await startEngine((request, response) => {
      if (isCut) request.socket.destroy();
      else if (request.url === "/version") json(response, version("1.41"));
      else json(response, { Name: os.hostname(), DockerRootDir: folder });
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    expect(await runtime.freeBytes(signal)).toBeGreaterThan(0);
    expect(await runtime.freeBytes(signal)).toBeGreaterThan(0);
    const ask = "/v1.41/info";
    expect(engine.seen.map(({ url }) => url)).toEqual(["/version", ask]);
    isCut = true;
    await expect(runtime.info(signal)).rejects.toMatchObject({ code: "engine_unreachable" });
    isCut = false;
    folder = path.join(os.tmpdir(), "not-there");
    expect(await runtime.freeBytes(signal)).toBeUndefined();
    expect(engine.seen.slice(2).map(({ url }) => url)).toEqual([ask, "/version", ask]);
  });
});

describe("a ping of the engine", () => {
  it("uses a new connection, because open connections still work on a stopping engine", async () => {
    await using engine = await startEngine((_, response) => json(response, version("1.41")));
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    await runtime.info(signal);
    await runtime.ping(signal);
    engine.lockOut();
    await runtime.info(signal);
    await expect(runtime.ping(signal)).rejects.toMatchObject({ code: "engine_unreachable" });
  });

  it("has a time limit", async () => {
    const clock = new VirtualClock();
    await using engine = await startEngine(() => void clock.advance(60_000));
    await using runtime = new DockerRuntime({ host: engine.host, clock });
    await expect(runtime.ping(signal)).rejects.toMatchObject({
      message: expect.stringContaining("did not answer within 10 s"),
    });
  });
});

describe("calls of the engine", () => {
  it("have a time limit, after which the engine counts as unreachable", async () => {
    // Fires every timer after the engine has received the request, so that no test waits thirty seconds.
    const timers = new Set<() => void>();
    const clock: Clock = {
      now: () => 0,
      setTimer: (_, callback) => {
        timers.add(callback);
        return () => timers.delete(callback);
      },
    };
    await using engine = await startEngine((request, response) => {
      if (request.url === "/version") json(response, version("1.41"));
      else for (const fire of timers) fire();
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock });
    await expect(runtime.listContainers({ instance: "x" }, signal)).rejects.toMatchObject({
      code: "engine_unreachable",
      message: expect.stringContaining("did not answer within 30 s"),
    });
    expect(timers.size).toBe(0);
  });

  it("reject with the signal's reason when they are aborted, and remove their listeners", async () => {
    const controller = new AbortController();
    const reason = new Error("the process ends");
    await using engine = await startEngine((request, response) => {
      if (request.url === "/version") json(response, version("1.41"));
      else controller.abort(reason);
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    await expect(runtime.info(controller.signal)).rejects.toBe(reason);
  });

  it("keep secrets of the environment out of the URL", async () => {
    await using engine = await startEngine((request, response) => {
      if (request.url === "/version") json(response, version("1.41"));
      else json(response, { Id: "abc" }, 201);
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    const spec = {
      name: "one",
      image: "web:1",
      labels: {},
      env: ["TOKEN=very-secret"],
      network: "net",
      aliases: [],
      mounts: [],
      publish: [],
      stopGraceMs: 1_000,
    };
    expect(await runtime.createContainer(spec, signal)).toBe("abc");
    const [, created] = engine.seen;
    expect(created?.url).toBe("/v1.41/containers/create?name=one");
    expect(JSON.parse(created?.body ?? "")).toMatchObject({ Env: ["TOKEN=very-secret"] });
  });

  it("list and inspect all containers, and ignore containers that are removed meanwhile", async () => {
    await using engine = await startEngine((request, response) => {
      const url = request.url ?? "";
      if (url === "/version") json(response, version("1.41"));
      else if (url.includes("/containers/json")) json(response, [{ Id: "a" }, { Id: "b" }]);
      else json(response, { message: "No such container: a" }, 404);
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    expect(await runtime.listContainers({ instance: "x" }, signal)).toEqual([]);
    expect(engine.seen).toHaveLength(4);
  });
});

const layer = (id: string, status: string, current?: number, total?: number) =>
  `${JSON.stringify({ id, status, progressDetail: current === undefined ? {} : { current, total } })}\n`;

describe("a pull of an image", () => {
  it("reports an error that the stream contains", async () => {
    await using engine = await startEngine((request, response) => {
      if (request.url === "/version") return json(response, version("1.41"));
      response.write(`${JSON.stringify({ status: "Pulling from web", id: "1" })}\n`);
      return response.end(
        `${JSON.stringify({ error: "write /x: no space left on device", errorDetail: {} })}\n`,
      );
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    await expect(runtime.pullImage("web:1", undefined, () => {}, signal)).rejects.toMatchObject({
      code: "disk_full",
    });
  });

  it("adds up the progress of the layers", async () => {
    await using engine = await startEngine((request, response) => {
      if (request.url === "/version") return json(response, version("1.41"));
      response.write(layer("a", "Downloading", 10, 100) + layer("b", "Downloading", 50, 50));
      response.write(layer("a", "Download complete") + layer("b", "Extracting", 1, 50));
      return response.end(layer("b", "Pull complete"));
    });
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    const reports: number[][] = [];
    await runtime.pullImage(
      "web:1",
      undefined,
      (report) => reports.push([report.currentBytes, report.totalBytes]),
      signal,
    );
    expect(reports.at(-1)).toEqual([150, 150]);
  });
});

describe("the inspection of a container", () => {
  const id = "c".repeat(64);
  const inspection = {
    Id: id,
    Name: "/web",
    Image: "sha256:1",
    State: { Status: "running", Running: true },
    Config: { Image: "web:1" },
    HostConfig: {},
    NetworkSettings: { Networks: { net: { IPAddress: "127.0.0.1" } } },
  };
  const probe = { type: "tcp", port: 1 } as const;

  /**
   * Starts an engine with one container. For each inspection of the container, calls `inspected` with a function that
   * sends the response.
   */
  async function startListedEngine(inspected: (respond: () => void) => void) {
    const engine = await startEngine((request, response) => {
      const route = (request.url ?? "").replace(/^\/v[\d.]+/, "");
      if (route === "/version") json(response, version("1.47"));
      else if (route.startsWith("/containers/json")) json(response, [{ Id: id }]);
      else if (route === `/containers/${id}/json`) inspected(() => json(response, inspection));
      else if (route.startsWith("/images/")) json(response, { Id: "sha256:1", Config: {} });
      else response.writeHead(204).end();
    });
    const count = (part: string) => engine.seen.filter(({ url }) => url.includes(part)).length;
    return { engine, count };
  }

  it("that was made for a listing is also used by the next probe, and the image is not inspected again for the listing", async () => {
    const { engine, count } = await startListedEngine((respond) => respond());
    await using _ = engine;
    // The clock must not advance, because Berth repeats an inspection that is older than a second after a failed probe.
    await using runtime = new DockerRuntime({ host: engine.host, clock: new VirtualClock() });
    await runtime.inspectImage("web:1", signal);
    const [listed] = await runtime.listContainers({ instance: "0123abcd" }, signal);
    expect(listed?.settings?.imageDefaults).toBeDefined();
    await runtime.probe(id, probe, 1_000, signal);
    expect(count(`/containers/${id}/json`)).toBe(1);
    expect(count("/images/")).toBe(1);
  });

  it("is repeated for the next probe if Berth changes the container while it lists the containers", async () => {
    const answers: (() => void)[] = [];
    const { engine, count } = await startListedEngine((answer) => answers.push(answer));
    await using _ = engine;
    await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });
    const listing = runtime.listContainers({ instance: "0123abcd" }, signal);
    await expect.poll(() => answers).toHaveLength(1);
    await runtime.stopContainer(id, 0, signal);
    answers[0]?.();
    await listing;
    const probing = runtime.probe(id, probe, 1_000, signal);
    await expect.poll(() => answers).toHaveLength(2);
    answers[1]?.();
    await probing;
    expect(count(`/containers/${id}/json`)).toBe(2);
  });
});
