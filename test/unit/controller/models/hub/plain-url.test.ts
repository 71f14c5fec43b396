import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Hub } from "../../../../support/hub/hub.ts";
import type { PlainFileOptions } from "../../../../support/hub/plain-files.ts";
import {
  createResolverHarness,
  type ResolverHarness,
} from "../../../../support/hub/resolver-harness.ts";

const bytes = Buffer.from("GGUF behind an address");

let hub: Hub;
let sources: ResolverHarness;
beforeEach(async () => {
  hub = await Hub.open();
  // The configured hub is another server, so that the URLs of the tests belong to a plain web server.
  sources = createResolverHarness("https://hub.invalid");
});
afterEach(() => hub[Symbol.asyncDispose]());

describe("the URL of a file on a web server", () => {
  it("is resolved to a file with the size and the tag that the server sends", async () => {
    const url = await hub.addFile("/models/m-Q5_K_M.gguf", bytes);
    expect(await sources.resolve({ source: url })).toEqual({
      key: expect.stringMatching(/^[0-9a-f]{32}$/),
      commit: null,
      quantization: "Q5_K_M",
      files: [
        {
          name: "m-Q5_K_M.gguf",
          sizeBytes: bytes.length,
          sha256: null,
          gitBlob: null,
          etag: expect.stringMatching(/^"[0-9a-f]{20}"$/),
          location: { type: "url", url },
        },
      ],
    });
    expect(hub.requests.map(({ method }) => method)).toEqual(["HEAD"]);
  });

  it.each<[string, PlainFileOptions, { sizeBytes: number | null; etag: unknown }]>([
    ["no HEAD", { head: false }, { sizeBytes: bytes.length, etag: expect.any(String) }],
    [
      "no length for HEAD",
      { length: false },
      { sizeBytes: bytes.length, etag: expect.any(String) },
    ],
    [
      "no length at all",
      { length: false, ranges: false },
      { sizeBytes: null, etag: expect.any(String) },
    ],
    ["no entity tag", { etag: false }, { sizeBytes: bytes.length, etag: null }],
    ["a weak entity tag", { etag: "weak" }, { sizeBytes: bytes.length, etag: null }],
  ])("is resolved even if the server sends %s", async (_, options, expected) => {
    const source = await hub.addFile("/m.gguf", bytes, options);
    const { files } = await sources.resolve({ source });
    expect(files[0]).toMatchObject(expected);
    // The server sends at most one byte of the file, or one whole response if it ignores range requests.
    expect(hub.bytesSent).toBeLessThanOrEqual(options.ranges === false ? bytes.length : 1);
  });

  it("that is signed only for GET is requested with GET for one byte", async () => {
    const source = await hub.addFile("/m.gguf", bytes);
    hub.faults.add({ on: "files", method: "HEAD", type: "expired" });
    const { files } = await sources.resolve({ source: `${source}?X-Amz-Signature=abc` });
    expect(files[0]).toMatchObject({ sizeBytes: bytes.length, name: "m.gguf" });
    expect(hub.requests.at(-1)?.headers.range).toBe("bytes=0-0");
  });

  it("is resolved to another model key when the file changes", async () => {
    const source = await hub.addFile("/m.gguf", bytes);
    const { key } = await sources.resolve({ source });
    expect((await sources.resolve({ source })).key).toBe(key);
    await hub.addFile("/m.gguf", Buffer.from("GGUF behind an ADDRESS"));
    expect((await sources.resolve({ source })).key).not.toBe(key);
  });

  it("with a digest in the spec is resolved to a model key that does not depend on the URL", async () => {
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const here = await sources.resolve({ source: await hub.addFile("/a/m.gguf", bytes), sha256 });
    const there = await sources.resolve({
      source: await hub.addFile("/b/m.gguf", bytes, { etag: false }),
      sha256,
    });
    expect(here.key).toBe(there.key);
    expect(here.files[0]?.sha256).toBe(sha256);
    await hub.addRepository({ id: "org/name", files: { "m.gguf": bytes } });
    expect((await createResolverHarness(hub.url).resolve({})).key).toBe(here.key);
  });

  it("of one part of a split model is resolved to all parts", async () => {
    for (const part of [1, 2]) await hub.addFile(`/x/m-Q8_0-0000${part}-of-00002.gguf`, bytes);
    const source = `${hub.url}/x/m-Q8_0-00002-of-00002.gguf?token=1`;
    const { files } = await sources.resolve({ source });
    expect(files.map(({ name }) => name)).toEqual([
      "m-Q8_0-00001-of-00002.gguf",
      "m-Q8_0-00002-of-00002.gguf",
    ]);
    expect(files.map(({ location }) => location.type === "url" && location.url)).toEqual([
      `${hub.url}/x/m-Q8_0-00001-of-00002.gguf?token=1`,
      `${hub.url}/x/m-Q8_0-00002-of-00002.gguf?token=1`,
    ]);
  });

  it("that redirects to another server is resolved from there, and that server does not get the token", async () => {
    await using other = await Hub.open();
    const to = await other.addFile("/elsewhere.gguf", bytes);
    const source = await hub.addFile("/m.gguf", Buffer.from("old"));
    hub.faults.add({ on: "files", type: "redirect", to });
    const { files } = await sources.resolve({ source, token: "hf_x" });
    expect(files[0]).toMatchObject({
      name: "m.gguf",
      sizeBytes: bytes.length,
      location: { url: source },
    });
    expect(hub.requests[0]?.headers.authorization).toBe("Bearer hf_x");
    expect(other.requests[0]?.headers.authorization).toBeUndefined();
  });

  it("that is on the hub's server, but outside of its repositories, is requested without the hub's token", async () => {
    const source = await hub.addFile("/files/m.gguf", bytes);
    const { files } = await createResolverHarness(hub.url, { token: hub.token }).resolve({
      source,
    });
    expect(files[0]?.name).toBe("m.gguf");
    expect(hub.requests[0]?.headers.authorization).toBeUndefined();
  });
});

describe("the file name of a downloaded URL", () => {
  it.each([
    ["/a/m%20x.gguf", undefined, "m x.gguf"],
    ["/a/m.gguf", 'attachment; filename="other.gguf"', "m.gguf"],
    ["/download", 'attachment; filename="q.gguf"', "q.gguf"],
    ["/download", "attachment; filename=q.gguf; size=1", "q.gguf"],
    [
      "/download",
      "inline; filename*=UTF-8''na%C3%AFve.gguf; filename=\"naive.gguf\"",
      "naïve.gguf",
    ],
    ["/download", 'attachment; filename="a\\"b.gguf"', "ab.gguf"],
    ["/download", 'attachment; filename="../../etc/cron.d/x.gguf"', "x.gguf"],
    ["/download", 'attachment; filename=".."', "download.gguf"],
    ["/blobs/sha256-0123", undefined, "sha256-0123.gguf"],
    ["/", undefined, "model.gguf"],
  ])(
    "is chosen from the path and the header Content-Disposition: %s and %s give %s",
    async (path, contentDisposition, name) => {
      await hub.addFile(
        decodeURIComponent(path),
        bytes,
        contentDisposition === undefined ? {} : { contentDisposition },
      );
      const { files } = await sources.resolve({ source: hub.url + path });
      expect(files[0]?.name).toBe(name);
    },
  );
});

describe("no model is resolved from a web server", () => {
  it.each([
    [404, "hub_not_found", "the file does not exist"],
    [410, "hub_not_found", "the file does not exist"],
    [400, "hub_not_found", "the server refused the request with HTTP 400"],
    [401, "hub_denied", "the server requires a token (HTTP 401)"],
    [403, "hub_denied", "the server requires a token (HTTP 403)"],
  ])("that responds with HTTP %i: %s", async (status, code, message) => {
    const source = await hub.addFile("/m.gguf", bytes);
    hub.faults.add({ on: "files", type: "status", status });
    expect(await sources.refusal({ source: `${source}?signature=secret` })).toMatchObject({
      code,
      message: `${source}: ${message}`,
    });
  });

  it("that does not accept the token", async () => {
    const source = await hub.addFile("/m.gguf", bytes, { needsToken: true });
    expect(await sources.refusal({ source, token: "wrong" })).toMatchObject({
      code: "hub_denied",
      message: `${source}: the server does not accept the token`,
    });
    expect((await sources.resolve({ source, token: hub.token })).files).toHaveLength(1);
  });

  it("that redirects to another server, which requires a token", async () => {
    await using other = await Hub.open();
    const to = await other.addFile("/m.gguf", bytes, { needsToken: true });
    const source = await hub.addFile("/m.gguf", bytes);
    hub.faults.add({ on: "files", type: "redirect", to });
    const { code, message } = await sources.refusal({ source, token: other.token });
    expect(code).toBe("hub_denied");
    expect(message).toContain(
      `redirects to ${new URL(other.url).host}, which denies access (HTTP 401)`,
    );
  });

  it("that sends a web page instead of a file", async () => {
    const source = await hub.addFile("/m.gguf", bytes);
    hub.faults.add({ on: "files", type: "page" });
    expect(await sources.refusal({ source })).toMatchObject({
      code: "hub_not_found",
      message: `${source} is a web page, not a GGUF file`,
    });
  });

  it("that lacks one part of a split model", async () => {
    await hub.addFile("/m-00001-of-00002.gguf", bytes);
    const { code, message } = await sources.refusal({ source: `${hub.url}/m-00001-of-00002.gguf` });
    expect(code).toBe("hub_not_found");
    expect(message).toBe(`${hub.url}/m-00002-of-00002.gguf: the file does not exist`);
  });

  it("if the file name claims that the model has thousands of parts", async () => {
    const { code } = await sources.refusal({ source: `${hub.url}/m-00001-of-99999.gguf` });
    expect(code).toBe("hub_not_found");
    expect(hub.requests).toEqual([]);
  });

  it.each([429, 503])(
    "that is overloaded (HTTP %i), which gets only one request",
    async (status) => {
      const source = await hub.addFile("/m.gguf", bytes);
      hub.faults.add({ on: "files", type: "status", status, headers: { "retry-after": "9" } });
      expect(await sources.refusal({ source })).toMatchObject({
        code: "hub_unreachable",
        details: { retryAfterMs: 9000 },
      });
      expect(hub.requests).toHaveLength(1);
    },
  );

  it("that does not respond", async () => {
    const source = await hub.addFile("/m.gguf", bytes);
    hub.faults.add({ on: "files", type: "hang" });
    const impatient = createResolverHarness("https://hub.invalid", { limitMs: 200 });
    expect((await impatient.refusal({ source })).code).toBe("hub_unreachable");
  });
});
