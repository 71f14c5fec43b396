import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { request } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { isLocal, TlsServerWithLocalHttp } from "../../../../src/base/http/tls-server.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { findKeyExposure } from "../../../../src/config/tls-files.ts";
import { readCertificate, watchCertificate } from "../../../../src/server/certificate-files.ts";
import { type KeyPair, TestAuthority } from "../../../support/provider/certificates.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

let authority: TestAuthority;
let first: KeyPair;
let second: KeyPair;
let folder: string;
beforeAll(async () => {
  authority = await TestAuthority.create();
  first = await authority.issue();
  second = await authority.issue({ names: ["localhost", "renewed.test"] });
  folder = await mkdtemp(join(tmpdir(), "berth-tls-"));
});
afterAll(() => rm(folder, { recursive: true }));

let server: TlsServerWithLocalHttp;
afterEach(
  () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve()).closeAllConnections();
    }),
);

/** Responds with the length of the body. */
const countBytes: RequestListener = (incoming, response) => {
  let bytes = 0;
  incoming.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  incoming.on("end", () => response.end(String(bytes)));
};

async function open(mayBePlain?: () => boolean): Promise<number> {
  server = new TlsServerWithLocalHttp(mayBePlain ? { mayBePlain } : {}, countBytes, first);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port }: AddressInfo = JSON.parse(JSON.stringify(server.address()));
  return port;
}

const sendSecurely = (port: number, body: Buffer) =>
  new Promise<{ text: string; names: string | undefined }>((resolve, reject) => {
    const options = {
      host: "localhost",
      family: 4,
      port,
      method: "POST",
      ca: authority.ca,
      agent: false,
    };
    const outgoing = request(options, (response) => {
      const { socket } = response;
      const names =
        "getPeerCertificate" in socket && typeof socket.getPeerCertificate === "function"
          ? String(socket.getPeerCertificate().subjectaltname)
          : undefined;
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ text, names }));
    });
    outgoing.on("error", reject).end(body);
  });

const sendPlain = (port: number, text: string) =>
  new Promise<string>((resolve, reject) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.setEncoding("utf8").on("data", (chunk: string) => {
      answer += chunk;
    });
    socket.on("close", () => resolve(answer)).on("error", reject);
  });

const plainRequest =
  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";

describe("a port with TLS", () => {
  it("serves HTTPS, with bodies that are larger than any buffer", async () => {
    const port = await open();
    const body = Buffer.alloc(3_000_000, 1);
    const answers = await Promise.all([
      sendSecurely(port, body),
      sendSecurely(port, Buffer.alloc(0)),
    ]);
    expect(answers.map(({ text }) => text)).toEqual(["3000000", "0"]);
  });

  it("serves plain HTTP to this machine only, and tells others to use https", async () => {
    expect((await sendPlain(await open(), plainRequest)).split("\r\n\r\n")[1]).toBe("3");
    await new Promise<void>((resolve) => void server.close(() => resolve()));
    const refused = await sendPlain(await open(() => false), plainRequest);
    expect(refused).toContain("400 Bad Request");
    expect(refused).toContain("use https://");
  });

  it("closes while a client has connected and sent nothing", async () => {
    const port = await open();
    const socket = connect(port, "127.0.0.1");
    await new Promise<void>((resolve) => void socket.once("connect", resolve));
    const ended = new Promise<void>(
      (resolve) => void socket.on("error", () => {}).once("close", () => resolve()),
    );
    await new Promise<void>((resolve) => void server.close(() => resolve()));
    await ended;
    expect(server.listening).toBe(false);
  });

  it("uses a renewed certificate for new connections, and keeps the old one while the files are broken", async () => {
    const port = await open();
    const files = { certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
    await writeFile(files.certFile, first.cert);
    await writeFile(files.keyFile, first.key);
    const clock = new VirtualClock();
    let renewals = 0;
    const stop = watchCertificate(files, readCertificate(files), {
      clock,
      logger: silentLogger,
      onRenewed: (renewed) => {
        renewals += 1;
        server.setCertificate(renewed);
      },
    });
    await writeFile(files.certFile, second.cert);
    await clock.advance(30_000);
    expect((await sendSecurely(port, Buffer.alloc(0))).names).not.toContain("renewed.test");
    await writeFile(files.keyFile, second.key);
    await clock.advance(60_000);
    expect(renewals).toBe(1);
    expect((await sendSecurely(port, Buffer.alloc(0))).names).toContain("renewed.test");
    stop();
  });

  it("cannot be opened with a key that does not belong to the certificate", async () => {
    await open();
    const files = { certFile: join(folder, "a.pem"), keyFile: join(folder, "b.pem") };
    await writeFile(files.certFile, first.cert);
    await writeFile(files.keyFile, second.key);
    expect(() => readCertificate(files)).toThrow("cannot be used");
  });

  it("warns about a key that every user of the machine can read", async () => {
    await open();
    const keyFile = join(folder, "open-key.pem");
    await writeFile(keyFile, first.key);
    await chmod(keyFile, 0o644);
    expect(findKeyExposure({ keyFile })?.message).toContain("every user of this machine");
    expect(findKeyExposure({ keyFile })?.message).toContain("0644");
    for (const mode of [0o600, 0o640]) {
      await chmod(keyFile, mode);
      expect(findKeyExposure({ keyFile })).toBeUndefined();
    }
    expect(findKeyExposure({ keyFile: join(folder, "absent.pem") })).toBeUndefined();
  });
});

describe("isLocal", () => {
  it.each([
    ["127.0.0.1", "127.0.0.1", true],
    ["::ffff:127.0.0.1", "::ffff:127.0.0.1", true],
    ["::1", "::1", true],
    ["192.0.2.7", "192.0.2.7", true],
    ["192.0.2.8", "192.0.2.7", false],
    [undefined, undefined, false],
  ])("of a connection from %s to %s is %s", (remoteAddress, localAddress, expected) => {
    expect(isLocal({ remoteAddress, localAddress })).toBe(expected);
  });
});
