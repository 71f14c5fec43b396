import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { secretFile } from "../../support/berth-process.ts";
import type { RepositoryOptions } from "../../support/hub/repository.ts";
import {
  ggufFile,
  ModelE2eHarness,
  modelSpecFile,
  type TestFile,
} from "../../support/model-e2e-harness.ts";

const run = promisify(execFile);

/** All tests share one Berth, which runs without the assistant. Each test uses its own repository. */
let world: ModelE2eHarness;
let tiny: TestFile;
/** The offset of the flipped bit. The bit belongs to the weights, so only the digest reveals the damage. */
const AT = 200_000;

beforeAll(async () => {
  tiny = await ggufFile("tiny");
  world = await ModelE2eHarness.open({
    assistant: false,
    // Berth removes no resources while the specs folder is empty, so the folder contains one file that no test uses.
    specs: { "keep.yaml": secretFile("keep", { key: "value" }) },
    onTestFailed: () => {},
  });
});
afterAll(() => world[Symbol.asyncDispose]());
beforeEach(({ onTestFailed }) => {
  world.hub.faults.clear();
  onTestFailed(() => void process.stderr.write(`${world.berth.log()}\n`));
});

/** Makes a repository of one file, `NAME-Q4_K_M.gguf`, and returns its id. */
async function repository(
  name: string,
  options: Pick<RepositoryOptions, "gated" | "authorised"> = {},
) {
  const id = `org/${name}`;
  return world.hub.addRepository({ id, files: { [fileOf(name)]: tiny.bytes }, ...options });
}

function fileOf(name: string): string {
  return `${name}-Q4_K_M.gguf`;
}

function flipped(): string {
  const copy = Buffer.from(tiny.bytes);
  copy.writeUInt8(copy.readUInt8(AT) ^ 1, AT);
  return sha256Of(copy);
}

test("a model whose bits flip in transit fails after three downloads, and `berth models pull` fetches it when the fault is gone", async () => {
  const { hub, berth } = world;
  await repository("flipping");
  hub.faults.add({ on: "cdn", path: fileOf("flipping"), type: "flip", atByte: AT });
  await berth.write("flipping.yaml", modelSpecFile("flipping", { source: "org/flipping" }));
  // The status is also `failed` between attempts; only the condition Stalled says that there is no further attempt.
  const failed = await world.waitForModel("flipping", "it is stalled", ({ conditions }) =>
    conditions.some(({ type, status }) => type === "Stalled" && status === "True"),
  );
  expect(failed).toMatchObject({
    status: "failed",
    conditions: expect.arrayContaining([
      expect.objectContaining({ type: "Stalled", reason: "DigestMismatch" }),
    ]),
  });
  expect(failed.error).toContain(`should be ${tiny.sha256}, but is ${flipped()}`);
  const downloads = () =>
    hub.at("cdn").reduce((sum, { bodyBytes }) => sum + bodyBytes, 0) / tiny.bytes.length;
  expect(downloads()).toBe(3);
  const pulled = await berth.cli(["models", "pull", "flipping"]);
  expect(pulled).toMatchObject({ code: 1, stderr: expect.stringContaining(tiny.sha256) });
  hub.faults.clear();
  expect(await berth.cli(["models", "pull", "flipping"])).toMatchObject({ code: 0 });
  expect(await world.waitForModelStatus("flipping", "ready")).toMatchObject({
    ready: true,
    error: null,
  });
});

test("the next download request detects and repairs a file with a bit that flipped on disk", async () => {
  const { hub, models } = world;
  await repository("rotten");
  await models.download("org/rotten", { wait: true });
  const before = hub.bytesSent;
  // Simulates bit rot: the size and the modification time of the file do not change.
  await flipOnDisk(tiny.sha256);
  expect(await models.download("org/rotten", { wait: true })).toMatchObject({
    timedOut: false,
    model: { status: "ready", sha256: tiny.sha256, error: null },
  });
  expect(hub.bytesSent - before).toBe(tiny.bytes.length);
  expect(await world.reasons("rotten")).toEqual(["Resolved", "Damaged", "Downloaded"]);
  expect(await digestOnDisk(tiny.sha256)).toBe(tiny.sha256);
});

test("Berth repairs a model file that was modified while Berth was stopped", async () => {
  const { berth, hub, models } = world;
  await repository("touched");
  await models.download("org/touched", { wait: true });
  const before = hub.bytesSent;
  await berth.stop();
  await flipOnDisk(tiny.sha256, { isSeen: true });
  await berth.start();
  // The repair also covers the other Models with the same content, because they share the file.
  await berth.until("it is mended", async () => (await digestOnDisk(tiny.sha256)) === tiny.sha256);
  expect(await world.waitForModelStatus("touched", "ready")).toMatchObject({ ready: true });
  expect(hub.bytesSent - before).toBe(tiny.bytes.length);
});

test("a model fails before the first byte is downloaded when the digest in its spec differs from the hub's file", async () => {
  const { berth, hub } = world;
  await repository("other");
  const before = hub.bytesSent;
  const sha256 = flipped();
  await berth.write("other.yaml", modelSpecFile("other", { source: "org/other", sha256 }));
  const failed = await world.waitForModelStatus("other", "failed");
  expect(failed.error).toContain(sha256);
  expect(failed.error).toContain(tiny.sha256);
  expect(hub.bytesSent).toBe(before);
  // Berth downloads the model as soon as the spec has the correct digest.
  const right = { source: "org/other", sha256: tiny.sha256 };
  await berth.write("other.yaml", modelSpecFile("other", right));
  expect(await world.waitForModelStatus("other", "ready")).toMatchObject({ ready: true });
});

test("a download whose connection is cut several times resumes and fetches no byte twice", async () => {
  const { hub, models } = world;
  const small = await ggufFile("small", { seed: 3 });
  await hub.addRepository({ id: "org/cut", files: { "cut-Q4_K_M.gguf": small.bytes } });
  hub.faults.add({
    on: "cdn",
    path: "cut-Q4_K_M.gguf",
    type: "cut",
    afterBytes: 1_500_000,
    times: 6,
  });
  const before = hub.bytesSent;
  expect(await models.download("org/cut", { wait: true })).toMatchObject({
    model: { status: "ready", sha256: small.sha256 },
  });
  expect(hub.bytesSent - before).toBe(small.bytes.length);
});

test("a gated model reports the missing credential and is downloaded automatically as soon as the Secret has a valid token", async () => {
  const { berth, hub } = world;
  await repository("gated", { gated: "auto", authorised: true });
  await berth.write("gated.yaml", modelSpecFile("gated", { source: "org/gated" }));
  const failed = await world.waitForModelStatus("gated", "failed");
  expect(failed.error).toMatch(/gated.*credential.*Secret.*HF_TOKEN/s);
  expect(await berth.client.models.waitReady("gated", { timeoutMs: 1_000 }).catch(String)).toMatch(
    /gated/,
  );

  const spec = { source: "org/gated", credential: "hub" };
  await berth.write("gated.yaml", modelSpecFile("gated", spec));
  await world.waitForModel("gated", "it misses its Secret", ({ message }) =>
    message.includes('names Secret "hub", which does not exist'),
  );
  await berth.write("hub.yaml", secretFile("hub", { token: "hf_wrong" }));
  const refused = await world.waitForModel("gated", "the token is refused", ({ error }) =>
    /does not accept the token/.test(error ?? ""),
  );
  expect(JSON.stringify(refused)).not.toContain("hf_wrong");
  await berth.write("hub.yaml", secretFile("hub", { token: hub.token }));
  expect(await world.waitForModelStatus("gated", "ready")).toMatchObject({ sha256: tiny.sha256 });
  expect(hub.leaks).toEqual([]);
  expect(berth.output).not.toContain(hub.token);
});

test("a gated model reports that the account has not accepted its terms, and a new pull succeeds after they are accepted", async () => {
  const { berth } = world;
  const gated = await repository("terms", { gated: "manual" });
  await berth.write("hub.yaml", secretFile("hub", { token: world.hub.token }));
  const spec = { source: "org/terms", credential: "hub" };
  await berth.write("terms.yaml", modelSpecFile("terms", spec));
  const failed = await world.waitForModelStatus("terms", "failed");
  expect(failed.error).toMatch(/org\/terms is gated.*no access.*accept the repository's terms/s);
  gated.authorised = true;
  expect(await berth.cli(["models", "pull", "terms"])).toMatchObject({ code: 0 });
});

test("a request for a repository that does not exist returns 404 and creates no Model", async () => {
  await expectNowhere("org/nobody");
  expect(await world.call("POST", "/api/llm/start", { model: "no such" })).toMatchObject({
    status: 400,
  });
  expect(await world.call("POST", "/api/llm/start", { model: "nothing" })).toMatchObject({
    status: 404,
  });
});

test("Berth downloads a gated model with HF_TOKEN and sends the token only to the hub", async () => {
  const { berth, hub } = world;
  await repository("for-members", { gated: "auto", authorised: true });
  await berth.stop();
  await berth.start({ HF_TOKEN: hub.token });
  expect(await world.models.download("org/for-members", { wait: true })).toMatchObject({
    model: { status: "ready", sha256: tiny.sha256 },
  });
  expect(hub.leaks).toEqual([]);
  expect(berth.output).not.toContain(hub.token);
  // A hub gives authenticated clients more precise errors, so the test requests a missing repository again with a
  // token.
  await expectNowhere("org/nowhere");
});

async function expectNowhere(id: string): Promise<void> {
  const path = `/api/llm/models/${encodeURIComponent(id)}/download`;
  const refused = { status: 404, body: { error: expect.stringContaining(id) } };
  expect(await world.call("POST", path)).toMatchObject(refused);
  expect(await world.call("POST", "/api/llm/start", { model: id })).toMatchObject(refused);
  expect(await world.call("GET", `/api/llm/models/${encodeURIComponent(id)}`)).toMatchObject({
    status: 404,
  });
  // POST /api/apply accepts a Model whose repository does not exist, because Berth asks the hub only afterwards. Only a
  // request with `wait=true` returns the hub's error.
  const [, name = ""] = id.split("/");
  const metadata = { name };
  const manifest = { apiVersion: "berth.dev/v1", kind: "Model", metadata, spec: { source: id } };
  expect(await world.call("POST", "/api/apply", { manifests: [manifest] })).toMatchObject({
    status: 200,
  });
  expect(await world.call("POST", `${path}?wait=true`)).toMatchObject(refused);
  expect(await world.call("POST", "/api/llm/start?wait=true", { model: id })).toMatchObject(
    refused,
  );
}

test("a pull of a quantization that the repository does not have fails, and the error lists the available quantizations", async () => {
  const { hub, berth } = world;
  await hub.addRepository({
    id: "org/several",
    files: { "m-Q4_K_M.gguf": tiny.bytes, "m-Q8_0.gguf": tiny.bytes },
  });
  const pull = await berth.cli(["models", "pull", "org/several:Q5_K_M"]);
  expect(pull.code).toBe(1);
  expect(pull.stderr).toMatch(/no file with quantization Q5_K_M/);
  expect(pull.stderr).toMatch(/the repository has Q4_K_M, Q8_0/i);
});

/**
 * Flips a bit of a stored file. Unless `isSeen` is true, restores the file's times, so that Berth does not see the
 * change.
 */
async function flipOnDisk(sha256: string, options: { isSeen?: boolean } = {}): Promise<void> {
  const path = join(world.blobsDir, sha256);
  const file = await open(path, "r+");
  try {
    const { atimeNs, mtimeNs } = await file.stat({ bigint: true });
    const byte = Buffer.alloc(1);
    await file.read(byte, 0, 1, AT);
    byte.writeUInt8(byte.readUInt8(0) ^ 1);
    await file.write(byte, 0, 1, AT);
    if (options.isSeen !== true) await restoreTimes(path, atimeNs, mtimeNs);
  } finally {
    await file.close();
  }
}

/** Restores the times with nanosecond precision, which Node's `utimes` does not have. */
async function restoreTimes(path: string, atimeNs: bigint, mtimeNs: bigint): Promise<void> {
  for (const [flag, ns] of [
    ["-a", atimeNs],
    ["-m", mtimeNs],
  ] as const)
    await run("touch", [
      flag,
      "-d",
      `@${ns / 10n ** 9n}.${String(ns % 10n ** 9n).padStart(9, "0")}`,
      path,
    ]);
}

async function digestOnDisk(sha256: string): Promise<string | undefined> {
  const bytes = await readFile(join(world.blobsDir, sha256)).catch(() => undefined);
  return bytes && sha256Of(bytes);
}

function sha256Of(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
