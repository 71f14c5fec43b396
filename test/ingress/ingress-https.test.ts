import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { generate } from "selfsigned";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { readLoadedConfig } from "../support/loaded-caddy-config.ts";
import { openWebSocket } from "../support/web-socket.ts";

/**
 * Tests of certificates: the ingress's own authority signs those of internal names, and a public authority those of
 * other names.
 */

let harness: CaddyHarness;
let backend: Backend;

beforeAll(async () => {
  harness = await CaddyHarness.open({ https: true });
  backend = await startBackend("one");
  await harness.waitUntilReady();
});
afterAll(async () => {
  await harness[Symbol.asyncDispose]();
  await backend[Symbol.asyncDispose]();
});

function authority(): string {
  const folder = join(harness.dataDir, "ingress", "storage", "pki", "authorities", "local");
  return readFileSync(join(folder, "root.crt"), "utf8");
}

/** Sends a request over TLS, and verifies the certificate with the ingress's own authority. */
function getSecurely(host: string, path = "/"): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: "127.0.0.1",
        port: harness.httpsPort,
        path,
        servername: host,
        headers: { Host: host },
        ca: authority(),
        agent: false,
      },
      (incoming) => {
        let body = "";
        incoming.on("data", (chunk: Buffer) => {
          body += chunk.toString();
        });
        incoming.once("end", () => resolve({ status: incoming.statusCode ?? 0, body }));
      },
    );
    outgoing.once("error", reject);
    outgoing.end();
  });
}

/** Returns true if the ingress has a certificate for the name. */
function hasCertificate(servername: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket: TLSSocket = connect(
      { host: "127.0.0.1", port: harness.httpsPort, servername, rejectUnauthorized: false },
      () => {
        resolve(true);
        socket.destroy();
      },
    );
    socket.once("error", () => resolve(false));
  });
}

async function addApp(name: string, spec: Parameters<CaddyHarness["apply"]>[1] = {}) {
  harness.apply(name, spec);
  const verdict = await harness.waitForVerdict(name);
  await harness.ingress.table.write(name, { version: "v1", targets: [backend.target] });
  return verdict;
}

describe("an internal name", () => {
  it("is served over HTTPS without a reload, and also over HTTP", async () => {
    await addApp("before");
    const socket = await openWebSocket(harness.httpPort, "before.localhost");
    expect(await addApp("hello")).toEqual({ served: true, https: false });
    expect(await getSecurely("hello.localhost")).toEqual({ status: 200, body: "one" });
    expect(backend.seen.at(-1)?.headers["x-forwarded-proto"]).toBe("https");
    expect((await harness.get("hello.localhost")).body).toBe("one");
    await socket.echo("not closed by a reload");
    socket.close();
  });

  it("has HTTPS, and so do the other internal names and redirects of its App", async () => {
    await addApp("special", {
      ingress: {
        pathPrefix: "/in",
        domains: ["special.internal", "*.special.test"],
        redirects: [{ from: "old.special.local" }],
      },
    });
    for (const host of ["special.localhost", "special.internal", "x.special.test"])
      expect(await getSecurely(host, "/in")).toEqual({ status: 200, body: "one" });
    expect((await getSecurely("old.special.local", "/x")).status).toBe(307);
  });

  it("has no HTTPS if the App disabled it", async () => {
    await addApp("bare", { ingress: { https: "off" } });
    expect(await hasCertificate("bare.localhost")).toBe(false);
    expect((await harness.get("bare.localhost")).body).toBe("one");
  });

  it("that belongs to no App gets no certificate", async () => {
    expect(await hasCertificate("nobody.localhost")).toBe(false);
    expect(await hasCertificate("..localhost")).toBe(false);
    expect(await hasCertificate("x.y.special.test")).toBe(false);
  });

  it("reaches its App even with the path of Caddy's certificate queries, so that clients cannot find out which names exist", async () => {
    const path = "/.well-known/berth/certificate?domain=hello.localhost";
    expect((await harness.get("hello.localhost", path)).body).toBe("one");
  });
});

describe("a public name", () => {
  it("gets a certificate of a public authority, and its HTTP requests are redirected to HTTPS", async () => {
    const verdict = await addApp("public", {
      domain: "public.example.org",
      ingress: { domains: ["www.example.org"], redirects: [{ from: "old.example.org" }] },
    });
    expect(verdict).toEqual({
      served: true,
      https: true,
      pending: {
        reason: "CertificatePending",
        message: expect.stringContaining(
          "the certificate of public.example.org, www.example.org, old.example.org is being obtained",
        ),
      },
    });
    const answer = await harness.get("www.example.org", "/a?b=c");
    expect(answer.status).toBe(307);
    expect(answer.headers.location).toBe(`https://www.example.org:${harness.httpsPort}/a?b=c`);
    const old = await harness.get("old.example.org", "/x");
    expect(old.headers.location).toBe(`https://public.example.org:${harness.httpsPort}/x`);
    expect(await readLoadedConfig(harness.dataDir)).toMatchObject({
      apps: {
        tls: {
          certificates: {
            automate: ["old.example.org", "public.example.org", "www.example.org"],
          },
        },
      },
    });
    expect(harness.ingress.url("public.example.org", true, "/")).toBe(
      `https://public.example.org:${harness.httpsPort}/`,
    );
  });

  it("is served over HTTP if the App disabled HTTPS", async () => {
    const verdict = await addApp("plain", {
      domain: "plain.example.org",
      ingress: { https: "off" },
    });
    expect(verdict).toEqual({ served: true, https: false });
    expect((await harness.get("plain.example.org")).body).toBe("one");
    expect(await hasCertificate("plain.example.org")).toBe(false);
  });

  it("is reported as pending, and its requests are redirected temporarily, until it has a valid certificate", async () => {
    const name = "signed.example.org";
    await addApp("signed", {
      domain: name,
      ingress: { redirects: [{ from: "signed.localhost", permanent: true }] },
    });
    const folder = join(harness.dataDir, "ingress/storage/certificates/authority", name);
    mkdirSync(folder, { recursive: true });
    const sign = async (days: number) => {
      const notBeforeDate = new Date(Date.now() - 2 * 86_400_000);
      const notAfterDate = new Date(Date.now() + days * 86_400_000);
      const made = await generate([{ name: "commonName", value: name }], {
        notBeforeDate,
        notAfterDate,
      });
      writeFileSync(join(folder, `${name}.crt`), made.cert);
    };
    const statuses = async () => [
      (await harness.get(name, "/x")).status,
      (await harness.get("signed.localhost")).status,
    ];
    expect(await statuses()).toEqual([307, 307]);
    harness.changed.length = 0;
    await sign(30);
    expect(await statuses()).toEqual([308, 308]);
    await harness.waitUntil(
      () => harness.changed.includes("signed"),
      () => JSON.stringify(harness.getVerdict("signed")),
    );
    expect(harness.getVerdict("signed")).toEqual({ served: true, https: true });
    await sign(-1);
    await harness.waitUntil(
      () => JSON.stringify(harness.getVerdict("signed")).includes("CertificatePending"),
      () => JSON.stringify(harness.getVerdict("signed")),
    );
  });

  it("without a certificate is reported with the last answer of the certificate authority", async () => {
    await addApp("refused", { domain: "refused.example.org" });
    // Without a network, Caddy's own message says that it cannot reach the authority.
    const verdict = () => JSON.stringify(harness.getVerdict("refused"));
    await harness.waitUntil(() => verdict().includes("the last answer was"), verdict);
    expect(verdict()).toMatch(/the last answer was: refused\.example\.org: \S+: \S/);
  });

  it("does not redirect the HTTP challenges of certificate authorities", async () => {
    const answer = await harness.get("www.example.org", "/.well-known/acme-challenge/token");
    expect(answer.status).toBe(200);
  });
});
