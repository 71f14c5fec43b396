import { once } from "node:events";
import { connect } from "node:net";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ uploadBytesMax: 200_000 });
});
afterEach(() => api[Symbol.asyncDispose]());

const boundary = "----berth";
const form = `multipart/form-data; boundary=${boundary}`;
const config = `--${boundary}\r\nContent-Disposition: form-data; name="config"\r\n\r\n{"name":"web","port":80}\r\n`;
const source = `--${boundary}\r\nContent-Disposition: form-data; name="source"; filename="s.tgz"\r\nContent-Type: application/gzip\r\n\r\ntar\r\n`;
const end = `--${boundary}--\r\n`;
const whole = config + source + end;

const send = (payload: string | Buffer, type = form, query = "") =>
  api.request({
    method: "POST",
    url: `/api/deploy${query}`,
    payload,
    headers: { "content-type": type },
  });

const expectNothingKept = () => {
  expect(api.builds.archives.size).toBe(0);
  expect(api.store.list("App")).toEqual([]);
  expect(api.entries.filter(({ level }) => level === "error")).toEqual([]);
};

describe("the form of an upload", () => {
  it.each<[what: string, payload: string, message: string, type?: string]>([
    ["no boundary", whole, "has no boundary", "multipart/form-data"],
    ["an empty boundary", whole, "has no boundary", "multipart/form-data; boundary="],
    ["a foreign boundary", whole, "malformed", "multipart/form-data; boundary=other"],
    ["cut in the source", config + source.slice(0, -4), "malformed"],
    ["cut in a header", config + source.slice(0, 60), "malformed"],
    ["cut in the config", config.slice(0, -6), "malformed"],
    ["cut before the last boundary", config + source, "malformed"],
    ["a file without a name", config + source.replace(' name="source";', "") + end, "no name"],
    ["a field without a name", config.replace('; name="config"', "") + source + end, "no name"],
    ["a part without headers", `--${boundary}\r\n\r\nabc\r\n${end}`, "missing part"],
    ["no parts", end, "missing part"],
    ["nothing", "", "missing part"],
    ["a name of a prototype", whole.replace('"config"', '"__proto__"'), "not allowed"],
    ["no config", source + end, 'missing part "config"'],
    ["config after the source that is invalid", source + config.replace("80", "0") + end, "port"],
    ["a third part", config + source + source.replace("source", "more") + end, "too many parts"],
    ["no form", "\0\x01\x02 noise ".repeat(1000), "malformed"],
  ])("is refused with 400 and not stored: %s", async (_what, payload, message, type = form) => {
    const response = await send(payload, type);
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain(message);
    expect(response.headers["x-error-code"]).toBe("invalid_request");
    expectNothingKept();
  });

  it("is checked without storing its archive if the deployment is a dry run", async () => {
    expect((await send(whole, form, "?dry_run=true")).statusCode).toBe(200);
    expectNothingKept();
    expect((await send(whole)).statusCode).toBe(202);
    expect(api.builds.archives.size).toBe(1);
  });

  it("causes no internal error if random bytes were inserted, removed or repeated", async () => {
    const bytes = Buffer.from(whole);
    const change = fc.record({
      at: fc.nat(bytes.length),
      removed: fc.nat(40),
      inserted: fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        fc.constantFrom(...[boundary, "\r\n\r\n", "--", "\0"].map((text) => Buffer.from(text))),
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
        const payload = changes.reduce(
          (text, { at, removed, inserted }) =>
            Buffer.concat([text.subarray(0, at), inserted, text.subarray(at + removed)]),
          bytes,
        );
        const { statusCode } = await send(payload);
        expect([202, 400, 409, 413]).toContain(statusCode);
        expect(api.entries.filter(({ level }) => level === "error")).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});

describe("a client that hangs up during its upload", () => {
  it.each([
    [
      "of a form",
      `POST /api/deploy HTTP/1.1\r\nContent-Type: ${form}`,
      config + source.slice(0, -3),
    ],
    ["of an archive", "PUT /api/archives HTTP/1.1\r\nContent-Type: application/gzip", "abc"],
    ["of JSON", "POST /api/apps HTTP/1.1\r\nContent-Type: application/json", '{"name":'],
  ])(
    "causes no error in the log and leaves no archive: an upload %s",
    async (_what, head, body) => {
      const { port } = new URL(await api.listen());
      const ended = new Promise<number>((resolve) => {
        api.server.server.once("request", (_request, response) =>
          response.once("close", () => resolve(response.statusCode)),
        );
      });
      const socket = connect(Number(port), "127.0.0.1");
      await once(socket, "connect");
      socket.write(
        `${head}\r\nHost: x\r\nAuthorization: Bearer ${api.token("write")}\r\nContent-Length: 5000\r\n\r\n${body}`,
      );
      await once(api.server.server, "request");
      socket.resetAndDestroy();
      await ended;
      await api.server.close();
      expect(api.entries.filter(({ level }) => level === "error")).toEqual([]);
      expect(api.builds.archives.size).toBe(0);
    },
  );
});
