import { readdir, readFile } from "node:fs/promises";
import { PassThrough } from "node:stream";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { RootFs } from "../../scripts/base-image.mjs";
import { systemClock } from "../../src/base/clock.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import type { BuildImageOptions, BuildOutput } from "../../src/controller/runtime/port.ts";
import { dockerClient, dockerHost } from "../support/engine.ts";
import { startEngineProxy } from "../support/engine-proxy.ts";
import { SHELL, WEB } from "../support/images.ts";
import { randomInstance } from "../support/random-instance.ts";
import { REGISTRY_USER, startRegistry } from "../support/registry.ts";

const signal = new AbortController().signal;
const instance = randomInstance();
const tag = `berth-${instance}/build:1`;
const docker = dockerClient();
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });

afterEach(async () => {
  for (const image of await runtime.listImages({ instance }, signal))
    await runtime.removeImage(image.id, signal);
});
afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

function options(changes: Partial<BuildImageOptions> = {}): BuildImageOptions {
  return {
    tag,
    dockerfile: "Dockerfile",
    args: {},
    builder: "classic",
    auths: [],
    ...changes,
  };
}

async function* context(...lines: string[]): AsyncGenerator<Uint8Array> {
  yield new RootFs().file("Dockerfile", `${lines.join("\n")}\n`).tar();
}

async function build(lines: string[], changes: Partial<BuildImageOptions> = {}) {
  const output: BuildOutput[] = [];
  const result = await runtime.buildImage(
    context(...lines),
    options(changes),
    (line) => output.push(line),
    signal,
  );
  const logs = output.flatMap((line) => (line.type === "log" ? [line.text] : []));
  return { ...result, logs };
}

/** Returns the processes of this machine whose command line contains `text`. */
async function processes(text: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  );
  return commands.filter((command) => command.includes(text) && command.startsWith("sleep"));
}

async function containersOf(text: string): Promise<string[]> {
  const all = await docker.listContainers({ all: true });
  return all.filter((item) => item.Command.includes(text)).map((item) => item.Id);
}

/**
 * Returns a number of seconds for which no other process sleeps, so that the test recognises the process of its build.
 */
let sleeps = 100_000 + process.pid * 10;
const nextSleep = () => `${(sleeps += 1)}`;

describe("the cancellation of a build on Docker", () => {
  it.each(["classic", "buildkit"] as const)(
    "takes place when the signal aborts, and removes the build's containers and layers (builder: %s)",
    async (builder) => {
      const seconds = nextSleep();
      const stop = new AbortController();
      const building = runtime.buildImage(
        context(
          `FROM ${SHELL}`,
          `LABEL berth.test.build=${instance}`,
          `RUN echo ${seconds} > /file`,
          `RUN echo waiting; sleep ${seconds}`,
        ),
        options({ builder }),
        () => {},
        stop.signal,
      );
      const outcome = building.catch((error: unknown) => error);
      await expect.poll(() => processes(seconds)).toHaveLength(1);
      if (builder === "classic") expect(await containersOf(seconds)).toHaveLength(1);
      const reason = new Error("no longer wanted");
      stop.abort(reason);
      expect(await outcome).toBe(reason);
      // The test does not wait for the removal of the container, because the build rejects only afterwards.
      expect(await containersOf(seconds)).toEqual([]);
      await expect.poll(() => processes(seconds)).toEqual([]);
      const filters = { label: [`berth.test.build=${instance}`] };
      expect(await docker.listImages({ all: true, filters })).toEqual([]);
    },
  );

  it.each(["classic", "buildkit"] as const)(
    "takes place when the connection to the engine is cut, as when this process is killed (builder: %s)",
    async (builder) => {
      const seconds = nextSleep();
      await using proxy = await startEngineProxy(dockerHost());
      await using far = new DockerRuntime({ host: proxy.host, clock: systemClock });
      const building = far.buildImage(
        context(`FROM ${SHELL}`, `RUN echo waiting; sleep ${seconds}`),
        options({ builder }),
        () => {},
        signal,
      );
      const outcome = building.catch((error: unknown) => error);
      await expect.poll(() => processes(seconds)).toHaveLength(1);
      proxy.cut();
      expect(await outcome).toMatchObject({ code: "engine_unreachable" });
      await expect.poll(() => processes(seconds)).toEqual([]);
      await expect.poll(() => containersOf(seconds)).toEqual([]);
    },
  );

  it.each(["classic", "buildkit"] as const)(
    "can take place while the context is being sent, and destroys the context's stream (builder: %s)",
    async (builder) => {
      await using proxy = await startEngineProxy(dockerHost());
      await using far = new DockerRuntime({ host: proxy.host, clock: systemClock });
      const stop = new AbortController();
      const source = new PassThrough();
      source.write(new RootFs().file("a-file-on-its-way", "").tar().subarray(0, 512));
      const building = far.buildImage(source, options({ builder }), () => {}, stop.signal);
      const outcome = building.catch((error: unknown) => error);
      await proxy.requested("a-file-on-its-way");
      const reason = new Error("no longer wanted");
      stop.abort(reason);
      expect(await outcome).toBe(reason);
      expect(source.destroyed).toBe(true);
      expect(await runtime.inspectImage(tag, signal)).toBeUndefined();
    },
  );
});

describe("a large context on Docker", () => {
  it.each(["classic", "buildkit"] as const)(
    "is sent without holding it in memory as a whole (builder: %s)",
    async (builder) => {
      const fileBytes = 256 * 2 ** 20;
      const chunk = Buffer.alloc(2 ** 20);
      const before = process.memoryUsage();
      let peakBytes = 0;
      async function* large() {
        const head = new RootFs()
          .file("Dockerfile", `FROM ${SHELL}\nRUN true\n`)
          .file("large", "")
          .tar();
        // The header gets another file size, so its checksum, the sum of its bytes, must be computed again.
        const start = head.length - 1024 - 512;
        head.write(`${fileBytes.toString(8).padStart(11, "0")}\0`, start + 124);
        head.write("        ", start + 148);
        let sum = 0;
        for (const byte of head.subarray(start, start + 512)) sum += byte;
        head.write(`${sum.toString(8).padStart(6, "0")}\0 `, start + 148);
        yield head.subarray(0, head.length - 1024);
        for (let sent = 0; sent < fileBytes; sent += chunk.length) {
          const { arrayBuffers } = process.memoryUsage();
          peakBytes = Math.max(peakBytes, arrayBuffers - before.arrayBuffers);
          // Each chunk is a new buffer, so that retained buffers increase the measured memory.
          yield Buffer.from(chunk);
        }
        yield Buffer.alloc(1024);
      }
      const result = await runtime.buildImage(large(), options({ builder }), () => {}, signal);
      expect(result.imageId).toMatch(/^sha256:/);
      expect(peakBytes).toBeLessThan(96 * 2 ** 20);
    },
  );
});

describe("the output of a build on Docker", () => {
  it("has no colours and no overwritten text, and long lines are split", async () => {
    const { logs } = await build([
      `FROM ${SHELL}`,
      String.raw`RUN printf '\033[31mred\033[0m\n10%%\r20%%\rall\nno end'`,
      "RUN head -c 40000 /dev/zero | tr '\\0' x; echo; echo after",
    ]);
    expect(logs).toEqual(expect.arrayContaining(["red", "all", "no end", "after"]));
    expect(logs.join("\n")).not.toContain("20%");
    const pieces = logs.filter((line) => /^x+$/.test(line));
    expect(pieces.map((line) => line.length)).toEqual([16_384, 16_384, 7_232]);
  });

  it("contains an error with the memory limit if a step was killed because it exceeded the limit", async () => {
    const building = build([`FROM ${SHELL}`, "RUN tail /dev/zero"], {
      memoryBytes: 32 * 2 ** 20,
      nanoCpus: 5e8,
    });
    await expect(building).rejects.toMatchObject({
      code: "build_failed",
      message: expect.stringContaining(
        "step 2 of 2 (RUN tail /dev/zero) failed with exit code 137",
      ),
      hint: expect.stringContaining("32 MiB"),
    });
  });

  it("names the BuildKit feature that the classic builder lacks, and BuildKit builds the same Dockerfile", async () => {
    const lines = [`FROM ${SHELL}`, "RUN --mount=type=cache,target=/cache echo cached"];
    await expect(build(lines)).rejects.toMatchObject({
      code: "build_failed",
      message: expect.stringMatching(/^step 2 of 2 \(RUN --mount=.* uses --mount/),
    });
    expect((await build(lines, { builder: "buildkit", noCache: true })).logs).toContain("cached");
  });

  it("names the stage of a failed step of BuildKit, and a build can end at a target stage", async () => {
    const lines = [
      `FROM ${SHELL} AS one`,
      "RUN echo of one",
      `FROM ${SHELL} AS two`,
      "RUN echo of two; exit 4",
    ];
    const changes = { builder: "buildkit", noCache: true } as const;
    expect((await build(lines, { ...changes, target: "one" })).logs).toContain("of one");
    await expect(build(lines, { ...changes, target: "two" })).rejects.toMatchObject({
      code: "build_failed",
      message:
        "step 2 of 2 (two: RUN echo of two; exit 4) failed with exit code 4; last lines: of two",
    });
    await expect(build(lines, { ...changes, target: "three" })).rejects.toMatchObject({
      code: "build_failed",
      message: "the Dockerfile has no stage three",
    });
    await expect(build(lines, { target: "three" })).rejects.toMatchObject({
      message: "the Dockerfile has no stage three",
    });
  });

  it.each(["classic", "buildkit"] as const)(
    "names a file that is missing in the source (builder: %s)",
    async (builder) => {
      const missing = { code: "build_failed" };
      await expect(
        build([`FROM ${SHELL}`, "COPY no/such.file /"], { builder }),
      ).rejects.toMatchObject({
        ...missing,
        message: expect.stringMatching(
          /^step 2 of \d \(COPY no\/such.file \/\) failed: the source has no no(\/such.file)?$/,
        ),
      });
      const copy = [`FROM ${SHELL} AS one`, "RUN true", `FROM ${SHELL}`, "COPY --from=one /gone /"];
      await expect(build(copy, { builder })).rejects.toMatchObject({
        ...missing,
        message: expect.stringMatching(/COPY --from=one \/gone \/\) failed: one has no \/?gone$/),
      });
      await expect(
        build([`FROM ${SHELL}`], { builder, dockerfile: "deploy/Other" }),
      ).rejects.toMatchObject({
        ...missing,
        message: expect.stringMatching(/^the source has no file \S*Other to build from$/),
      });
    },
  );

  it.each(["classic", "buildkit"] as const)(
    "contains an error about the engine's full disk if a command fails because of it (builder: %s)",
    async (builder) => {
      const lines = [`FROM ${SHELL}`, "RUN echo 'write: No space left on device' >&2; exit 1"];
      await expect(build(lines, { builder })).rejects.toMatchObject({
        code: "disk_full",
        message: expect.stringContaining("in step 2 of"),
      });
    },
  );
});

describe("the remains of a build on Docker", () => {
  it.each(["classic", "buildkit"] as const)(
    "contain no credentials, neither in the image's history nor in the output (builder: %s)",
    async (builder) => {
      await using registry = await startRegistry({ credentials: true });
      const base = await registry.push(docker, WEB);
      const auths = [{ server: registry.address, ...REGISTRY_USER }];
      const { imageId, logs } = await build([`FROM ${base}`, "RUN env; echo made"], {
        builder,
        auths,
        noCache: true,
      });
      const image = docker.getImage(imageId);
      const everything = JSON.stringify([await image.history(), await image.inspect(), logs]);
      expect(everything).toContain("made");
      const { username, password } = REGISTRY_USER;
      const encoded = Buffer.from(`${username}:${password}`).toString("base64");
      for (const secret of [password, encoded, Buffer.from(password).toString("base64")])
        expect(everything).not.toContain(secret);
      expect(await runtime.removeImage(imageId, signal)).toBe(true);
      await runtime.removeImage(base, signal);
    },
  );

  it("contain no container of a failed step", async () => {
    const mark = nextSleep();
    await expect(build([`FROM ${SHELL}`, `RUN echo ${mark}; exit 1`])).rejects.toMatchObject({
      code: "build_failed",
    });
    expect(await containersOf(mark)).toEqual([]);
  });
});
