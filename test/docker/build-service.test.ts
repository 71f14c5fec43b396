import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { create } from "tar";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { ArchiveStore } from "../../src/controller/builds/archive-store.ts";
import {
  BuildService,
  type BuildServiceOptions,
} from "../../src/controller/builds/build-service.ts";
import type { BuildState, ResolvedSource } from "../../src/controller/builds/port.ts";
import { Git } from "../../src/controller/git/git.ts";
import { APP, INSTANCE } from "../../src/controller/labels.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Resource } from "../../src/resources/resource.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { writeFiles } from "../support/build-service-harness.ts";
import { dockerClient, dockerHost } from "../support/engine.ts";
import { EngineRelay } from "../support/engine-relay.ts";
import { trackInstance } from "../support/engine-runs.ts";
import { GitHttpServer } from "../support/git-http-server.ts";
import { SHELL } from "../support/images.ts";
import { randomInstance } from "../support/random-instance.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const TOKEN = "planted-token-3b9d07";
const signal = new AbortController().signal;
const docker = dockerClient();
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
const limits = {
  concurrency: 1,
  memoryBytes: undefined,
  nanoCpus: undefined,
  timeoutMs: 120_000,
  keep: 5,
  diskBytesMax: 2 ** 40,
};

let server: GitHttpServer;
let instance: string;
let dataDir: string;
let store: Store;
let service: BuildService;

beforeAll(async () => {
  server = await GitHttpServer.start({ auth: { password: TOKEN } });
  await server.repositories.create("app");
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await runtime[Symbol.asyncDispose]();
});

beforeEach(async () => {
  instance = randomInstance();
  await trackInstance(instance);
  dataDir = mkdtempSync(path.join(os.tmpdir(), "berth-builds-"));
  store = openStore({ dataDir, clock: systemClock, durability: "off", instanceId: instance });
  store.apply({
    kind: "Secret",
    name: "deploy",
    manager: "api",
    actor: { name: "test", scope: "admin" },
    mode: "replace",
    spec: { data: { token: TOKEN } },
  });
  service = newService();
});

afterEach(async () => {
  await service[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  for (const container of await runtime.listContainers({ instance }, signal))
    await runtime.removeContainer(container.id, signal);
  for (const image of await runtime.listImages({ instance }, signal))
    await runtime.removeImage(image.id, signal);
  rmSync(dataDir, { recursive: true, force: true });
});

describe("a build on the engine", () => {
  test("of a commit that requires a token creates an image that does not contain the token", async () => {
    const commit = await push({
      Dockerfile: `FROM ${SHELL}\nCOPY . /app\nRUN echo "the file says $(cat /app/note.txt)"\n`,
      "note.txt": TOKEN,
    });
    const app = apply("web");
    const source = await resolved(app);
    expect(source.revision).toBe(commit);
    expect(await ended(app, source)).toEqual({ type: "succeeded", id: 1 });
    const image = await docker.getImage(source.image).inspect();
    const history: unknown = await docker.getImage(source.image).history();
    expect(JSON.stringify([history, image])).not.toContain(TOKEN);
    const log = readFileSync(path.join(dataDir, "builds", "1.log"), "utf8");
    expect(log).toContain("the file says (secret)");
    expect(log).not.toContain(TOKEN);
    expect(JSON.stringify(store.builds.get(1))).not.toContain(TOKEN);
    expect(store.builds.get(1)?.imageBytes).toBeGreaterThan(0);
  });

  test("of an archive that was uploaded twice has one image name", async () => {
    const dir = path.join(dataDir, "source");
    writeFiles(dir, {
      "app/Dockerfile": `FROM ${SHELL}\nCOPY hello.txt /\n`,
      "app/hello.txt": "hi",
    });
    const upload = () =>
      service.upload(create({ gzip: true, cwd: dir, portable: true }, ["app"]), signal);
    const { digest } = await upload();
    expect((await upload()).digest).toBe(digest);
    const app = apply("web", { source: { archive: digest } });
    const source = await resolved(app);
    expect(await ended(app, source)).toMatchObject({ type: "succeeded" });
    expect(source.image).toBe((await resolved(apply("web", app.spec))).image);
  });

  test("that fails reports the step, its exit code and its last lines", async () => {
    await push({
      Dockerfile: `FROM ${SHELL}\nRUN echo first >&2; echo "no such module" >&2; exit 7\n`,
    });
    const state = await built(apply("web"));
    expect(state).toMatchObject({ type: "failed", reason: "BuildFailed", terminal: true });
    expect(state).toHaveProperty(
      "message",
      expect.stringMatching(/^step 2 of \d+ \(RUN echo first/),
    );
    expect(state).toHaveProperty("message", expect.stringContaining("exit code 7"));
    expect(state).toHaveProperty("message", expect.stringContaining("first | no such module"));
    expect((await lines(1)).at(-1)).toMatch(/^==> failed: step 2/);
  });

  test("can be followed while it runs, and its container is stopped when it is cancelled", async () => {
    await push({ Dockerfile: `FROM ${SHELL}\nRUN echo working; sleep 4321\n` });
    const app = apply("web");
    const source = await resolved(app);
    service.ensure(app, source);
    const seen: string[] = [];
    for await (const line of service.log(1, { follow: true }, signal)) {
      seen.push(line);
      if (line === "working") expect(await service.cancel(1)).toBe(true);
    }
    expect(seen.at(-1)).toMatch(/^==> cancelled/);
    expect(service.ensure(app, source)).toMatchObject({ reason: "BuildCancelled", terminal: true });
    await vi.waitFor(async () => expect(await sleeping("4321")).toBe(0), WAIT_OPTIONS);
  });

  test.each(["cancelled", "superseded"] as const)(
    "that is %s after the engine has completed it leaves no image and no layer, and the build is recorded as cancelled",
    async (ending) => {
      await service[Symbol.asyncDispose]();
      const host = `unix://${dataDir}/engine.sock`;
      await using relay = await EngineRelay.open(host, dockerHost());
      await using relayed = new DockerRuntime({ host, clock: systemClock });
      service = newService({ runtime: relayed });
      const completed = new Promise<void>((resolve) =>
        relay.setTrap({ at: 1, moment: "held", act: resolve }),
      );
      const label = `berth.test.build=${instance}`;
      await push({ Dockerfile: `FROM ${SHELL}\nLABEL ${label}\nRUN echo ${instance} > /file\n` });
      const app = apply("web");
      const source = await resolved(app);
      service.ensure(app, source);
      await completed;
      expect(await tags()).toEqual([source.image]);
      if (ending === "cancelled") {
        expect(await service.cancel(1)).toBe(true);
        expect(service.ensure(app, source)).toMatchObject({ reason: "BuildCancelled" });
        expect(await tags()).toEqual([]);
        expect(owned()).toEqual([]);
      } else {
        await push({ Dockerfile: `FROM ${SHELL}\nRUN true\n` });
        const newer = apply("web", undefined, { "berth.dev/deployed-at": "2030-01-01T00:00:00Z" });
        expect(await built(newer)).toEqual({ type: "succeeded", id: 2 });
        expect(await tags()).toEqual([(await resolved(newer)).image]);
      }
      expect(store.builds.get(1)?.state).toBe("cancelled");
      expect(await service.cancel(1)).toBe(false);
      expect(await docker.listImages({ all: true, filters: { label: [label] } })).toEqual([]);
      await service[Symbol.asyncDispose]();
    },
  );

  test("is cancelled by its time limit", async () => {
    await service[Symbol.asyncDispose]();
    service = newService({ limits: { ...limits, timeoutMs: 3_000 } });
    await push({ Dockerfile: `FROM ${SHELL}\nRUN sleep 4322\n` });
    expect(await built(apply("web"))).toMatchObject({ reason: "BuildTimedOut", terminal: true });
    await vi.waitFor(async () => expect(await sleeping("4322")).toBe(0), WAIT_OPTIONS);
  });

  test("is superseded by a newer build", async () => {
    await push({ Dockerfile: `FROM ${SHELL}\nRUN echo working; sleep 4323\n` });
    const old = apply("web");
    service.ensure(old, await resolved(old));
    await vi.waitFor(async () => expect(await lines(1)).toContain("working"), WAIT_OPTIONS);
    await push({ Dockerfile: `FROM ${SHELL}\nRUN true\n` });
    const app = apply("web", undefined, { "berth.dev/deployed-at": "2030-01-01T00:00:00Z" });
    expect(await built(app)).toEqual({ type: "succeeded", id: 2 });
    expect(store.builds.get(1)).toMatchObject({
      state: "cancelled",
      message: "superseded by build 2",
    });
  });

  test("that a shutdown interrupted is abandoned, and starts again on request", async () => {
    await push({ Dockerfile: `FROM ${SHELL}\nRUN echo working; sleep 4324\n` });
    const app = apply("web");
    const source = await resolved(app);
    service.ensure(app, source);
    await vi.waitFor(async () => expect(await lines(1)).toContain("working"), WAIT_OPTIONS);
    await service[Symbol.asyncDispose]();
    expect(store.builds.get(1)?.state).toBe("abandoned");
    await push({ Dockerfile: `FROM ${SHELL}\nRUN true\n` });
    service = newService();
    await service.start();
    // A newer commit was pushed but not deployed, so the same commit is built again.
    expect(await resolved(app)).toEqual(source);
    service.ensure(app, source);
    await vi.waitFor(async () => expect(await lines(2)).toContain("working"), WAIT_OPTIONS);
    expect(await service.cancel(2)).toBe(true);
  });

  test("waits while there is too little disk space", async () => {
    await service[Symbol.asyncDispose]();
    service = newService({ freeBytesMin: 2 ** 60 });
    await push({ Dockerfile: `FROM ${SHELL}\n` });
    expect(await built(apply("web"))).toMatchObject({
      type: "waiting",
      message: expect.stringMatching(/ are free .*, but a build needs 1048576 TiB/),
    });
  });
});

describe("image collection on the engine", () => {
  test("removes old images, except images of containers and images that are not Berth's", async () => {
    await service[Symbol.asyncDispose]();
    service = newService({ limits: { ...limits, keep: 1 } });
    const images: string[] = [];
    for (const number of [1, 2, 3]) {
      await push({ Dockerfile: `FROM ${SHELL}\nRUN echo version ${number} of ${instance}\n` });
      const app = apply("web", undefined, { "berth.dev/deployed-at": String(number) });
      const source = await resolved(app);
      images.push(source.image);
      if (number === 2) await createFrom(images[0] ?? "");
      expect(await ended(app, source)).toMatchObject({ type: "succeeded" });
      service.clearResult("web");
    }
    // The service collects images immediately after its start.
    await service.start();
    const [used, old, newest] = images;
    const kept = [used, newest].map(String).toSorted();
    await expect.poll(tags).toEqual(kept);
    await expect.poll(owned).toEqual(kept);
    expect(kept).not.toContain(old);
    expect(await runtime.inspectImage(SHELL, signal)).toBeDefined();
  });
});

function newService(options: Partial<BuildServiceOptions> = {}): BuildService {
  return new BuildService({
    store,
    runtime,
    git: new Git({ dir: path.join(dataDir, "git") }),
    archives: new ArchiveStore({ dir: path.join(dataDir, "archives"), bytesMax: 2 ** 20 }),
    clock: systemClock,
    logger: silentLogger,
    dataDir,
    limits,
    onChanged: () => {},
    freeBytesMin: 1,
    ...options,
  });
}

function apply(
  name: string,
  spec: AppSpec = {
    source: { git: { url: server.url("app"), ref: "main", credential: "deploy" } },
  },
  annotations: Record<string, string> = {},
): Resource<"App"> {
  return store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "test", scope: "admin" },
    mode: "replace",
    spec,
    annotations,
  }).resource;
}

/** Commits files to main. */
function push(files: Readonly<Record<string, string>>): Promise<string> {
  return server.repositories.commit("app", { "note.txt": null, ...files });
}

async function resolved(app: Resource<"App">): Promise<ResolvedSource> {
  return vi.waitFor(() => {
    const state = service.source(app);
    if (state.type !== "resolved") throw new Error(`the source is ${JSON.stringify(state)}`);
    return { revision: state.revision, image: state.image };
  }, WAIT_OPTIONS);
}

async function ended(app: Resource<"App">, source: ResolvedSource): Promise<BuildState> {
  return vi.waitFor(
    () => {
      const state = service.ensure(app, source);
      if (state.type === "queued" || state.type === "running")
        throw new Error(`it is ${state.type}: ${state.message}`);
      return state;
    },
    { timeout: 90_000 },
  );
}

async function built(app: Resource<"App">): Promise<BuildState> {
  return ended(app, await resolved(app));
}

async function lines(id: number): Promise<string[]> {
  const found: string[] = [];
  for await (const line of service.log(id, { follow: false }, signal)) found.push(line);
  return found;
}

function owned(): string[] {
  return store.ownedImages.list("web").toSorted();
}

async function tags(): Promise<string[]> {
  return (await runtime.listImages({ instance }, signal)).flatMap((image) => image.tags).toSorted();
}

/** Returns the containers of the engine, including those of build steps, that sleep for the given number of seconds. */
async function sleeping(seconds: string): Promise<number> {
  const all = await docker.listContainers({ all: true });
  return all.filter((container) => container.Command.includes(`sleep ${seconds}`)).length;
}

async function createFrom(image: string): Promise<void> {
  await runtime.ensureNetwork(`berth-${instance}`, { [INSTANCE]: instance }, signal);
  await runtime.createContainer(
    {
      name: `berth-${instance}-web`,
      image,
      labels: { [INSTANCE]: instance, [APP]: "web" },
      env: [],
      network: `berth-${instance}`,
      aliases: [],
      mounts: [],
      publish: [],
      stopGraceMs: 0,
    },
    signal,
  );
}
