import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freePorts } from "../../../../support/free-port.ts";
import type { Misbehaviour } from "../../../../support/hub/faults.ts";
import { Hub } from "../../../../support/hub/hub.ts";
import { createResolverHarness } from "../../../../support/hub/resolver-harness.ts";

let hub: Hub;
let host: string;
beforeEach(async () => {
  hub = await Hub.open();
  host = new URL(hub.url).host;
  await hub.addRepository({ id: "org/name", files: { "m-Q8_0.gguf": Buffer.from("GGUF") } });
});
afterEach(() => hub[Symbol.asyncDispose]());

describe("a hub that gives no usable answer", () => {
  it.each<[string, Misbehaviour, string]>([
    ["is overloaded", { type: "status", status: 503 }, "answers with HTTP 503"],
    ["is broken", { type: "status", status: 500, body: "<html>" }, "answers with HTTP 500"],
    ["cuts the connection", { type: "reset" }, ": the connection was cut (ECONNRESET)"],
    [
      "sends a web page",
      { type: "page" },
      ": the response is not a listing of a repository; check that the server is a hub",
    ],
    [
      "sends half of a listing",
      { type: "status", status: 200, body: '{"sha": "0123' },
      ": the response is not a listing of a repository; check that the server is a hub",
    ],
    [
      "sends a listing that is not one of a repository",
      { type: "status", status: 200, body: '{"sha": 5, "siblings": []}' },
      ": the response is not a listing of a repository; check that the server is a hub",
    ],
    ["redirects to itself", { type: "loop" }, ": the server redirects too often"],
    [
      "redirects to a file",
      { type: "redirect", to: "file:///etc/passwd" },
      ": the server redirects to a URL that is not http",
    ],
    ["redirects without a target", { type: "status", status: 302 }, "answers with HTTP 302"],
  ])("is reported as unreachable if it %s", async (_, fault, message) => {
    hub.faults.add({ on: "api", ...fault });
    const error = await createResolverHarness(hub.url).refusal({});
    expect(error).toMatchObject({
      code: "hub_unreachable",
      hint: expect.stringContaining("will retry"),
    });
    expect(error.message).toContain(host);
    expect(error.message).toContain(message);
  });

  it("can be asked again later, and then answers", async () => {
    hub.faults.add({ on: "api", type: "status", status: 503, times: 1 });
    const { refusal, resolve } = createResolverHarness(hub.url);
    await refusal({});
    expect((await resolve({})).quantization).toBe("Q8_0");
  });

  it.each([
    [{ "retry-after": "77" }, 77_000],
    [{ ratelimit: '"api";r=0;t=155' }, 155_000],
    [{}, undefined],
  ])(
    "may send the delay after which it accepts the next request (%j)",
    async (headers, retryAfterMs) => {
      hub.faults.add({ on: "api", type: "status", status: 429, headers });
      const { code, message, details } = await createResolverHarness(hub.url).refusal({});
      expect({ code, details }).toEqual({
        code: "hub_unreachable",
        details: retryAfterMs === undefined ? undefined : { retryAfterMs },
      });
      const wait = retryAfterMs === undefined ? "" : `, for ${retryAfterMs / 1000} s`;
      expect(message).toBe(`${host} refuses more requests${wait} (HTTP 429)`);
    },
  );

  it("is reported as unreachable even if only its answer to the request for a gated file is 503", async () => {
    await hub.addRepository({
      id: "org/gated",
      files: { "m.gguf": Buffer.from("G") },
      gated: "auto",
    });
    hub.faults.add({ on: "resolve", type: "status", status: 503 });
    expect((await createResolverHarness(hub.url).refusal({ source: "org/gated" })).code).toBe(
      "hub_unreachable",
    );
  });

  it.each(["hang", "stall"])("is reported if it exceeds the time limit (%s)", async (type) => {
    // The listing starts, but never ends.
    const endless = { type: "redirect", to: `${hub.url}/files/endless.gguf` } as const;
    await hub.addFile("/files/endless.gguf", Buffer.alloc(1000), { length: false });
    hub.faults.add({ on: "files", type: "stall", afterBytes: 10 });
    hub.faults.add(type === "hang" ? { on: "api", type: "hang" } : { on: "api", ...endless });
    expect((await createResolverHarness(hub.url, { limitMs: 300 }).refusal({})).message).toBe(
      `${host}: the server does not answer within 0.3 s`,
    );
  });

  it("is reported if its listing is larger than that of any repository", async () => {
    hub.faults.add({ on: "api", type: "redirect", to: `${hub.url}/files/huge.gguf` });
    await hub.addFile("/files/huge.gguf", Buffer.alloc(65 * 1024 * 1024), { length: false });
    expect((await createResolverHarness(hub.url).refusal({})).message).toBe(
      `${host}: the response is too large for a list of a repository's files`,
    );
  });

  it("gets no more requests when the caller has aborted", async () => {
    hub.faults.add({ on: "api", type: "hang" });
    const abort = new AbortController();
    const waited = createResolverHarness(hub.url).resolve({}, abort.signal);
    abort.abort(new Error("enough"));
    await expect(waited).rejects.toThrow("enough");
    await expect(createResolverHarness(hub.url).resolve({}, abort.signal)).rejects.toThrow(
      "enough",
    );
  });
});

describe("a hub to which no connection is possible", () => {
  it("is reported if it refuses the connection", async () => {
    const [port] = await freePorts(1);
    expect(await createResolverHarness(`http://127.0.0.1:${port}`).refusal({})).toMatchObject({
      code: "hub_unreachable",
      message: `127.0.0.1:${port}: it refused the connection (ECONNREFUSED)`,
    });
  });

  it("is reported if its name cannot be resolved", async () => {
    const { code, message } = await createResolverHarness("https://hub.invalid").refusal({});
    expect(code).toBe("hub_unreachable");
    expect(message).toMatch(/^hub\.invalid: the name hub\.invalid cannot be resolved/);
  });

  it("is reported if it does not speak TLS", async () => {
    const { message } = await createResolverHarness(hub.url.replace("http:", "https:")).refusal({});
    expect(message).toMatch(/: the TLS connection failed \(\w+\)$/);
  });

  it("is reported if its certificate is not trusted", async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), "berth-hub-tls-"));
    try {
      const [key, cert] = [path.join(folder, "key.pem"), path.join(folder, "cert.pem")];
      const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
      const rest = ["-nodes", "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=127.0.0.1"];
      await promisify(execFile)("openssl", [...request, ...rest]);
      await using own = await Hub.open({
        tls: { key: await readFile(key, "utf8"), cert: await readFile(cert, "utf8") },
      });
      const error = await createResolverHarness(own.url).refusal({});
      expect(error.code).toBe("hub_unreachable");
      expect(error.hint).toContain("NODE_EXTRA_CA_CERTS");
      expect(own.requests).toEqual([]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe("an endpoint with a path", () => {
  it("keeps the path in every address", async () => {
    await using inner = await Hub.open();
    await inner.addRepository({ id: "org/name", files: { "m.gguf": Buffer.from("GGUF") } });
    const { message } = await createResolverHarness(`${inner.url}/mirror/`).refusal({
      token: inner.token,
    });
    expect(message).toBe("there is no repository org/name");
    expect(inner.requests[0]?.url).toBe("/mirror/api/models/org/name?blobs=true");
  });
});
