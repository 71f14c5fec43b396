import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import os from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../../../src/base/clock.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { DockerRuntime } from "../../../../src/controller/runtime/docker-runtime.ts";
import type { BuildImageOptions, BuildOutput } from "../../../../src/controller/runtime/port.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const signal = new AbortController().signal;
const ID = `sha256:${"a".repeat(64)}`;
const MIB = 2 ** 20;

const options: BuildImageOptions = {
  tag: "berth.test/app:1",
  dockerfile: "Dockerfile",
  args: { WHO: "me" },
  builder: "classic",
  auths: [],
};

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Starts an engine that answers builds with `onBuild`, and reports `actions` as the events of the build's container.
 */
async function startEngine(
  onBuild: Handler,
  clock: Clock = systemClock,
  actions: readonly string[] = ["create", "start", "die", "destroy"],
) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-engine-"));
  const seen: { url: string; headers: IncomingMessage["headers"] }[] = [];
  const server = createServer((request, response) => {
    const url = request.url ?? "";
    seen.push({ url, headers: request.headers });
    if (url.includes("/build?")) return onBuild(request, response);
    response.writeHead(200, { "Content-Type": "application/json" });
    if (url.includes("/events?")) {
      const told = actions.map((action) => JSON.stringify({ Type: "container", Action: action }));
      return response.end(told.join("\n"));
    }
    response.end(JSON.stringify(answerTo(url)));
  });
  const socket = path.join(dir, "docker.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const runtime = new DockerRuntime({ host: `unix://${socket}`, clock });
  return {
    seen,
    runtime,
    async [Symbol.asyncDispose]() {
      await runtime[Symbol.asyncDispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function answerTo(url: string): Record<string, unknown> {
  if (url.endsWith("/version"))
    return { Version: "20.10.24", ApiVersion: "1.41", MinAPIVersion: "1.12" };
  return url.endsWith("/info")
    ? { SystemTime: "2030-01-01T00:00:00.123456789Z" }
    : { Id: ID, Size: 4096 };
}

/** Returns a handler that reads the build context to its end, and then sends `messages`. */
function says(...messages: readonly unknown[]): Handler {
  return (request, response) => {
    request.resume();
    request.on("end", () => {
      response.writeHead(200, { "Content-Type": "application/json" });
      for (const message of messages)
        response.write(typeof message === "string" ? message : `${JSON.stringify(message)}\r\n`);
      response.end();
    });
  };
}

const cut: Handler = (request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200);
    response.write('{"stream":"Step 1/1 : RUN make"}\r\n');
    setImmediate(() => response.destroy());
  });
};

const early: Handler = (_, response) => {
  response.writeHead(500, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ message: "write /layer: no space left on device" }));
};

async function* small(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(1024);
}

async function built(
  onBuild: Handler,
  changes: Partial<BuildImageOptions> = {},
  actions?: readonly string[],
) {
  await using engine = await startEngine(onBuild, systemClock, actions);
  const output: BuildOutput[] = [];
  const result = await engine.runtime.buildImage(
    small(),
    { ...options, ...changes },
    (line) => output.push(line),
    signal,
  );
  return { result, output, seen: engine.seen };
}

async function failureOf(building: Promise<unknown>): Promise<BerthError> {
  const error: unknown = await building.catch((reason: unknown) => reason);
  if (error instanceof BerthError) return error;
  throw new Error("the build did not fail as it should");
}

describe("the request of a build", () => {
  it("contains all options, and the limits for the classic builder", async () => {
    const { result, seen } = await built(says({ aux: { ID } }), {
      target: "app",
      noCache: true,
      memoryBytes: 512 * MIB,
      nanoCpus: 1.5e9,
      auths: [
        { server: "registry.example.org", username: "me", password: "sesame?>" },
        { server: "docker.io", username: "hub", password: "x" },
      ],
    });
    expect(result).toEqual({ imageId: ID, bytes: 4096 });
    const request = seen.find(({ url }) => url.includes("/build?"));
    const query = new URL(`http://engine${request?.url}`).searchParams;
    expect(Object.fromEntries(query)).toEqual({
      t: "berth.test/app:1",
      dockerfile: "Dockerfile",
      buildargs: '{"WHO":"me"}',
      rm: "1",
      forcerm: "1",
      target: "app",
      nocache: "1",
      memory: String(512 * MIB),
      memswap: String(512 * MIB),
      cpuperiod: "100000",
      cpuquota: "150000",
    });
    expect(request?.url).not.toContain("sesame");
    const header = String(request?.headers["x-registry-config"]);
    expect(header).toMatch(/^[A-Za-z0-9_-]+=*$/);
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toEqual({
      "registry.example.org": {
        username: "me",
        password: "sesame?>",
        serveraddress: "registry.example.org",
      },
      "https://index.docker.io/v1/": { username: "hub", password: "x", serveraddress: "docker.io" },
    });
  });
});

describe("the output stream of a build", () => {
  it("is parsed into steps and lines in order, wherever chunks are split", async () => {
    const { output } = await built(
      says(
        '{"stream":"Step 1/2 : FROM a"}\r\n{"stream":"\\n"}\r\n{"str',
        'eam":" ---\\u003e Using cache\\n"}\r\n',
        { stream: "Step 2/2 : RUN make" },
        { stream: "\n" },
        { stream: "one\ntw" },
        { stream: "o\n\nthree" },
        { aux: { ID } },
        "not json\r\n",
      ),
    );
    expect(output).toEqual([
      { type: "step", number: 1, total: 2, text: "FROM a" },
      { type: "log", text: " ---> Using cache" },
      { type: "step", number: 2, total: 2, text: "RUN make" },
      { type: "log", text: "one" },
      { type: "log", text: "two" },
      { type: "log", text: "" },
      { type: "log", text: "three" },
    ]);
  });

  it("contains a step only if the engine reports it, not if a command prints a similar line", async () => {
    const { output } = await built(
      says(
        { stream: "Step 1/3 : FROM a" },
        { stream: "\n" },
        { stream: "Step 3/3 : RUN rm -rf /" },
        { stream: "\nStep 2/9 : no\n" },
        { stream: "Step 2/3 : RUN make" },
        { aux: { ID } },
      ),
    );
    expect(output.flatMap((line) => (line.type === "step" ? [line.text] : []))).toEqual([
      "FROM a",
      "RUN make",
    ]);
  });

  it("shows the pull of a base image in condensed form", async () => {
    const { output } = await built(
      says(
        { status: "Pulling from library/a", id: "1" },
        { status: "Pulling fs layer", id: "abc", progressDetail: {} },
        ...Array.from({ length: 500 }, (_, index) => ({
          status: "Downloading",
          id: "abc",
          progressDetail: { current: index * 1000, total: 100 * MIB },
        })),
        { status: "Pull complete", id: "abc", progressDetail: {} },
        { status: "Status: Downloaded newer image for a:1" },
        { aux: { ID } },
      ),
    );
    expect(output.map((line) => line.text)).toEqual([
      "Pulling from library/a",
      "Status: Downloaded newer image for a:1",
    ]);
  });

  it("keeps the end of the output for the error message, up to a limit", async () => {
    const lines = Array.from({ length: 500 }, (_, index) => `line ${index} ${"x".repeat(2_000)}`);
    const text = `${lines.join("\n")}\n`;
    const building = built(
      says(
        { stream: "Step 1/1 : RUN make" },
        { stream: text },
        {
          errorDetail: {
            code: 2,
            message: "The command '/bin/sh -c make' returned a non-zero code: 2",
          },
          error: "...",
        },
      ),
    );
    const { code, message } = await failureOf(building);
    expect(code).toBe("build_failed");
    expect(message).toMatch(/^step 1 of 1 \(RUN make\) failed with exit code 2; last lines: /);
    expect(message).toContain("line 499");
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(2_048);
  });

  it("fails if it ends without an image", async () => {
    await expect(built(says({ stream: "Step 1/1 : RUN make" }))).rejects.toMatchObject({
      code: "engine_unreachable",
    });
    await expect(built(cut)).rejects.toMatchObject({ code: "engine_unreachable" });
  });
});

describe("a build step that exits with a code", () => {
  it.each([
    [["create", "start", "die", "destroy"], "build_failed"],
    [["create", "start", "oom", "kill", "die", "destroy"], "build_failed"],
    [["create", "start", "kill", "die", "destroy"], "engine_error"],
    // An engine that was restarted during the build has no events of the container, so the failure is attributed to
    // the engine.
    [[], "engine_error"],
  ])("after the events %j of its container is reported as %s", async (actions, code) => {
    const message = "The command '/bin/sh -c make' returned a non-zero code: 137";
    const onBuild = says(
      { stream: "Step 1/1 : RUN make" },
      { stream: "\n" },
      { stream: " ---> Running in 0123456789ab\n" },
      { stream: "Removing intermediate container 0123456789ab\n" },
      { errorDetail: { code: 137, message }, error: message },
    );
    await expect(built(onBuild, {}, actions)).rejects.toMatchObject({ code });
  });
});

describe("the context stream of a build", () => {
  it("is read only as fast as the engine accepts it, with a time limit", async () => {
    const clock = new VirtualClock();
    let isAsked = false;
    await using engine = await startEngine(() => (isAsked = true), clock);
    let bytes = 0;
    let isEnded = false;
    async function* endless() {
      try {
        for (;;) {
          bytes += MIB / 4;
          yield Buffer.alloc(MIB / 4);
        }
      } finally {
        isEnded = true;
      }
    }
    const building = engine.runtime.buildImage(endless(), options, () => {}, signal);
    const outcome = building.catch((error: unknown) => error);
    await expect.poll(() => isAsked).toBe(true);
    // The client reads the context only until the buffers of the sockets are full.
    let before = -1;
    await expect
      .poll(() => {
        const isStill = bytes === before;
        before = bytes;
        return isStill;
      })
      .toBe(true);
    expect(bytes).toBeLessThan(4 * MIB);
    await clock.advance(121_000);
    expect(await outcome).toMatchObject({
      code: "engine_unreachable",
      message: "cannot send the source to the engine: the engine read nothing for 120 s",
    });
    await expect.poll(() => isEnded).toBe(true);
  });

  it.each([true, false])(
    "is destroyed when the engine responds before it has read the context (context is a Node.js stream: %s)",
    async (isStream) => {
      await using engine = await startEngine(early);
      let isEnded = false;
      async function* endless() {
        try {
          for (;;) yield Buffer.alloc(MIB / 4);
        } finally {
          isEnded = true;
        }
      }
      const source = new PassThrough();
      source.write(Buffer.alloc(1024));
      const context = isStream ? source : endless();
      await expect(
        engine.runtime.buildImage(context, options, () => {}, signal),
      ).rejects.toMatchObject({ code: "disk_full" });
      if (isStream) expect(source.destroyed).toBe(true);
      else await expect.poll(() => isEnded).toBe(true);
    },
  );

  it("is destroyed if it fails, and the error contains no path", async () => {
    await using engine = await startEngine(says({ aux: { ID } }));
    const source = new PassThrough();
    source.write(Buffer.alloc(1024));
    const building = engine.runtime.buildImage(source, options, () => {}, signal);
    source.destroy(Object.assign(new Error("ENOENT: /home/me/file"), { code: "ENOENT" }));
    const { code, message } = await failureOf(building);
    expect(code).toBe("internal");
    expect(message).not.toContain("/home");
  });

  it("that fails after the engine has started to respond cancels the build", async () => {
    let isCut = false;
    const talks: Handler = (request, response) => {
      request.resume();
      request.on("error", () => {});
      request.on("close", () => (isCut = !request.complete));
      response.writeHead(200);
      response.write('{"stream":"Step 1/1 : RUN make"}\r\n');
    };
    await using engine = await startEngine(talks);
    const source = new PassThrough();
    source.write(Buffer.alloc(1024));
    const onOutput = () => source.destroy(new Error("the archive ends too early"));
    const building = engine.runtime.buildImage(source, options, onOutput, signal);
    await expect(building).rejects.toMatchObject({ code: "internal" });
    await expect.poll(() => isCut).toBe(true);
  });
});
