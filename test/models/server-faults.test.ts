import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ModelDiskOptions } from "../../src/controller/models/files/model-disk.ts";
import type { ResolvedModel } from "../../src/controller/models/hub/port.ts";
import { bufferContent } from "../support/hub/content.ts";
import type { Fault } from "../support/hub/faults.ts";
import { UNBOUNDED_AFTER_MS } from "../support/wait-limits.ts";
import {
  createRandomBytes,
  DownloadHarness,
  hashSha256,
  MIB,
  neverAborted,
  quickLimits,
  readStored,
  recordProgress,
  withFile,
} from "./download-harness.ts";

const SIZE = 12 * MIB + 5;
const NAME = "m.gguf";

/** The server is the CDN of a hub, which has the file that the tests download. */
describe("a server of model files that", () => {
  let harness: DownloadHarness;
  let bytes: Buffer;
  let model: ResolvedModel;

  beforeEach(async () => {
    bytes = createRandomBytes(SIZE);
    harness = await DownloadHarness.open({ [NAME]: bytes });
    model = harness.model("key", { [NAME]: bytes });
  });

  afterEach(async () => {
    await harness[Symbol.asyncDispose]();
  });

  /** Downloads the model, and returns the bytes on the disk afterwards. */
  async function downloaded(
    options: Partial<ModelDiskOptions> = {},
    wanted = model,
  ): Promise<Buffer> {
    const stored = await harness.disk(options).download(wanted, recordProgress(), neverAborted);
    return readStored(stored.path);
  }

  function failure(options: Partial<ModelDiskOptions> = {}, wanted = model, token?: string) {
    return harness
      .disk(options)
      .download(wanted, recordProgress(token), neverAborted)
      .then(
        () => undefined,
        (error: unknown) => error,
      );
  }

  it.each<[string, Fault]>([
    ["cuts connections", { on: "cdn", type: "cut", afterBytes: MIB + 3, times: 8 }],
    ["cuts them before the first byte", { on: "cdn", type: "reset", times: 4 }],
    ["stops sending", { on: "cdn", type: "stall", afterBytes: 70_000, times: 2 }],
    ["does not answer", { on: "cdn", type: "hang", times: 2 }],
    ["is overloaded", { on: "cdn", type: "status", status: 503, times: 5 }],
    [
      "is overloaded when the file's URL is requested",
      { on: "resolve", type: "status", status: 502, times: 2 },
    ],
    [
      "sends a Content-Length that is too small",
      { on: "cdn", type: "wrong-length", byBytes: -1000, times: 2 },
    ],
    [
      "sends a Content-Length that is too large",
      { on: "cdn", type: "wrong-length", byBytes: 1000, times: 2 },
    ],
    ["refuses a fresh signature", { on: "cdn", type: "expired", times: 1 }],
    ["sends a sign-in page for a while", { on: "cdn", type: "page", times: 2 }],
  ])("%s gets another request, and only few bytes are sent twice", async (_, fault) => {
    harness.hub.faults.add(fault);
    // Only tests of silent servers use the short stall limit, because a busy machine may be slow.
    const isSilent = fault.type === "stall" || fault.type === "hang";
    const limits = isSilent ? { ...quickLimits, stallMs: 1_000 } : quickLimits;
    expect((await downloaded({ limits })).equals(bytes)).toBe(true);
    // A broken connection loses the bytes in transit, which are sent again. The limit allows this for two parts of 4
    // MiB.
    expect(harness.hub.bytesSent).toBeLessThan(SIZE + 9 * MIB);
  });

  it("is slow on one connection does not delay the download: other connections take over", async () => {
    harness.hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 100_000, times: 1 });
    const start = performance.now();
    expect((await downloaded()).equals(bytes)).toBe(true);
    // The slow connection alone would need 42 s, so a shorter time shows that other connections took over.
    expect(performance.now() - start).toBeLessThan(UNBOUNDED_AFTER_MS);
    expect(harness.hub.bytesSent).toBeLessThan(SIZE + 2 * MIB);
  });

  it("stays unreachable fails the download, and the next attempt resumes it", async () => {
    // Before the failure, one part of the file arrives completely, and half of each other part.
    harness.hub.faults.add({ on: "cdn", type: "cut", afterBytes: 2 * MIB, times: 3 });
    const off = harness.hub.faults.add({ on: "cdn", type: "reset", after: 3 });
    expect(await failure()).toMatchObject({
      code: "hub_unreachable",
      message: expect.stringContaining("the connection was cut"),
    });
    const kept = await harness.disk().storedBytes(model);
    expect(kept).toBeGreaterThan(MIB);
    off();
    const before = harness.hub.bytesSent;
    expect((await downloaded()).equals(bytes)).toBe(true);
    expect(harness.hub.bytesSent - before).toBeLessThan(SIZE - kept + MIB);
  });

  it("sends Retry-After gets no request for that time, and then fewer connections", async () => {
    harness.hub.faults.add({
      on: "cdn",
      type: "status",
      status: 429,
      headers: { "retry-after": "1" },
      times: 1,
    });
    const start = performance.now();
    expect((await downloaded()).equals(bytes)).toBe(true);
    expect(performance.now() - start).toBeGreaterThan(1000);
  });

  it("sends a Retry-After of an hour fails the download immediately", async () => {
    const headers = { "retry-after": "3600" };
    harness.hub.faults.add({ on: "cdn", type: "status", status: 429, headers });
    expect(await failure()).toMatchObject({
      code: "hub_unreachable",
      message: expect.stringContaining("60 minutes"),
    });
  });

  it("supports no ranges sends one stream, which starts again when it is cut", async () => {
    harness.hub.faults.add({ on: "cdn", type: "no-ranges" });
    harness.hub.faults.add({ on: "cdn", type: "cut", afterBytes: 5 * MIB, after: 1, times: 1 });
    expect((await downloaded()).equals(bytes)).toBe(true);
    expect(harness.transfers.at(-1)?.bodyBytes).toBe(SIZE);
  });

  it("supports no ranges and always cuts the connection fails the download", async () => {
    harness.hub.faults.add({ on: "cdn", type: "no-ranges" });
    harness.hub.faults.add({ on: "cdn", type: "cut", afterBytes: 5 * MIB });
    expect(await failure()).toMatchObject({ code: "hub_unreachable" });
  });

  it("sends neither size nor ranges: the file is complete when the connection ends normally", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes, {
      ranges: false,
      length: false,
      etag: false,
    });
    const wanted = withFile(model, {
      sizeBytes: null,
      sha256: null,
      location: { type: "url", url },
    });
    expect((await downloaded({}, wanted)).equals(bytes)).toBe(true);
    // The model has no expected digest, so the computed one identifies the file.
    expect(await harness.disk().find(wanted)).toMatchObject({
      files: [{ sizeBytes: SIZE, sha256: hashSha256(bytes) }],
    });
  });

  it.each([
    ["a strong tag", { etag: "strong" as const }, true],
    ["a weak tag", { etag: "weak" as const }, false],
    ["none", { etag: false as const }, false],
  ])(
    "sends no digest gets range requests only with a strong entity tag: %s",
    async (_, options, isInParts) => {
      const url = await harness.hub.addFile("/files/x.gguf", bytes, options);
      const wanted = withFile(model, {
        sizeBytes: null,
        sha256: null,
        location: { type: "url", url },
      });
      expect((await downloaded({}, wanted)).equals(bytes)).toBe(true);
      const parts = harness.transfers.filter(({ headers }) => headers["if-range"] !== undefined);
      expect(parts.length > 2).toBe(isInParts);
      expect(harness.transfers.some(({ bodyBytes }) => bodyBytes === SIZE)).toBe(!isInParts);
    },
  );

  it("sends more bytes than expected: the surplus is not written", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes, { ranges: false, length: false });
    const wanted = withFile(model, {
      sizeBytes: SIZE - 7,
      sha256: null,
      location: { type: "url", url },
    });
    expect(await failure({}, wanted)).toMatchObject({ code: "digest_mismatch" });
    expect(await harness.disk().storedBytes(wanted)).toBeLessThanOrEqual(SIZE - 7);
  });

  it("reports another size than expected: nothing is downloaded", async () => {
    const wanted = withFile(model, { sizeBytes: SIZE + 1 });
    expect(await failure({}, wanted)).toMatchObject({
      code: "digest_mismatch",
      details: { expected: SIZE + 1, got: SIZE },
    });
  });

  it("flips a bit: the error has both digests, and the file is discarded", async () => {
    const off = harness.hub.faults.add({ on: "cdn", type: "flip", atByte: 9 * MIB });
    const wrong = Buffer.from(bytes);
    wrong.writeUInt8(wrong.readUInt8(9 * MIB) ^ 1, 9 * MIB);
    expect(await failure()).toMatchObject({
      code: "digest_mismatch",
      details: { expected: hashSha256(bytes), got: hashSha256(wrong) },
    });
    expect(await readdir(join(harness.dir, "partial"))).toEqual([]);
    expect(await readdir(join(harness.dir, "blobs"))).toEqual([]);
    off();
    expect((await downloaded()).equals(bytes)).toBe(true);
  });

  it("changes the file during the download: the new file is downloaded", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes);
    const changed = createRandomBytes(SIZE + 3);
    harness.hub.faults.add({
      on: "files",
      type: "changed",
      content: bufferContent(changed),
      after: 3,
    });
    const wanted = withFile(model, {
      sizeBytes: null,
      sha256: null,
      location: { type: "url", url },
    });
    expect((await downloaded({}, wanted)).equals(changed)).toBe(true);
  });

  it("changes a file with an expected digest: the download fails", async () => {
    const changed = createRandomBytes(SIZE);
    harness.hub.faults.add({
      on: "cdn",
      type: "changed",
      content: bufferContent(changed),
      after: 2,
    });
    expect(await failure()).toMatchObject({
      code: "digest_mismatch",
      details: { expected: hashSha256(bytes), got: hashSha256(changed) },
    });
  });

  it("changes the file between two attempts: no byte of the old file is kept", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes);
    const wanted = withFile(model, { sha256: null, location: { type: "url", url } });
    harness.hub.faults.add({ on: "files", type: "cut", afterBytes: 3 * MIB, times: 2 });
    const off = harness.hub.faults.add({ on: "files", type: "reset", after: 2 });
    await failure({}, wanted);
    expect(await harness.disk().storedBytes(wanted)).toBeGreaterThan(MIB);
    off();
    const changed = createRandomBytes(SIZE);
    await harness.hub.addFile("/files/x.gguf", changed);
    expect((await downloaded({}, wanted)).equals(changed)).toBe(true);
  });

  it("signs URLs that expire during the download gets requests for new ones", async () => {
    harness.hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 20 * MIB, times: 3 });
    let expired = false;
    const stored = await harness.disk({ partsMax: 2 }).download(
      model,
      {
        token: undefined,
        onProgress: ({ doneBytes }) => {
          if (doneBytes < MIB || expired) return;
          expired = true;
          harness.hub.expireUrls();
        },
      },
      neverAborted,
    );
    expect(expired).toBe(true);
    expect((await readStored(stored.path)).equals(bytes)).toBe(true);
    expect(harness.hub.at("cdn").some(({ status }) => status === 403)).toBe(true);
    // Only the first request and one or two later ones ask for a new URL, instead of one request for each part.
    expect(harness.hub.at("hub").length).toBeLessThan(5);
  });

  it("redirects too often fails the download", async () => {
    harness.hub.faults.add({ on: "resolve", type: "loop" });
    expect(await failure()).toMatchObject({
      code: "hub_unreachable",
      message: expect.stringContaining("more than 10 times"),
    });
    expect(harness.hub.requests.length).toBe(11);
  });

  it("always sends a web page fails the download", async () => {
    harness.hub.faults.add({ on: "cdn", type: "page" });
    expect(await failure()).toMatchObject({
      code: "hub_unreachable",
      message: expect.stringContaining("web page"),
    });
  });

  it.each([
    [401, undefined, "hub_denied", "without a token"],
    [403, "hf_wrong", "hub_denied", "the owner of this token"],
    [404, undefined, "hub_not_found", "no longer has m.gguf"],
    [410, undefined, "hub_not_found", "no longer has m.gguf"],
  ])(
    "answers with the status %i (token: %s) fails the download, and the error names the reason",
    async (status, token, code, words) => {
      harness.hub.faults.add({ on: "resolve", type: "status", status });
      const error = await failure({}, model, token);
      expect(error).toMatchObject({ code, message: expect.stringContaining(words) });
      expect(JSON.stringify(error)).not.toContain("hf_wrong");
      expect(harness.hub.requests.length).toBe(1);
    },
  );

  it("redirects to another origin: only the first origin gets the token", async () => {
    const url = await harness.hub.addFile("/files/x.gguf", bytes, { needsToken: true });
    const wanted = withFile(model, { location: { type: "url", url } });
    const moved = `${harness.hub.cdnUrl}/elsewhere`;
    const off = harness.hub.faults.add({ on: "files", type: "redirect", to: moved, status: 307 });
    expect(await failure({}, wanted, harness.hub.token)).toMatchObject({ code: "hub_denied" });
    expect(harness.hub.at("cdn").length).toBeGreaterThan(0);
    expect(harness.hub.leaks).toEqual([]);
    off();
    const stored = await harness
      .disk()
      .download(wanted, recordProgress(harness.hub.token), neverAborted);
    expect((await readStored(stored.path)).equals(bytes)).toBe(true);
  });
});
