import { createHash } from "node:crypto";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../../src/base/errors.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  SOURCE_REVISION_ANNOTATION,
} from "../../../src/resources/resource.ts";
import {
  appStatus,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ uploadBytesMax: 200_000 });
});
afterEach(() => api[Symbol.asyncDispose]());

const send = (parts: [name: string, content: string, file?: string][], query = "") => {
  const boundary = "----berth";
  const body = parts.map(
    ([name, content, file]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file === undefined ? "" : `; filename="${file}"`}\r\n\r\n${content}\r\n`,
  );
  return api.request({
    method: "POST",
    url: `/api/deploy${query}`,
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    payload: `${body.join("")}--${boundary}--\r\n`,
  });
};

const digestOf = (content: string) => createHash("sha256").update(content).digest("hex");

const deploy = (config: object, content: string, query = "") =>
  send(
    [
      ["config", JSON.stringify(config)],
      ["source", content, "s.tgz"],
    ],
    query,
  );

const put = (payload: string | Buffer, type = "application/gzip") =>
  api.request({
    method: "PUT",
    url: "/api/archives",
    payload,
    headers: { "content-type": type },
  });

describe("POST /api/deploy", () => {
  const config = JSON.stringify({ name: "web", port: 80 });

  it("creates an app from an archive, whatever the order of the parts of the request", async () => {
    const made = await send([
      ["config", JSON.stringify({ name: "one", port: 80, env: { A: "1" } })],
      ["source", "tar", "s.tgz"],
    ]);
    expect(made.statusCode).toBe(202);
    expect(made.json()).toMatchObject({
      name: "one",
      source: `archive ${digestOf("tar").slice(0, 12)}`,
      spec: { port: 80, env: { A: "1" }, source: { archive: digestOf("tar") } },
    });
    const late = await send([
      ["source", "tar", "s.tgz"],
      ["config", config],
    ]);
    expect(late.statusCode).toBe(202);
    const asFile = await send([
      ["config", JSON.stringify({ name: "two", port: 80 }), "c.json"],
      ["source", "tar", "s.tgz"],
    ]);
    expect(asFile.statusCode).toBe(202);
    expect(api.store.list("App").map(({ metadata }) => metadata.name)).toEqual([
      "one",
      "two",
      "web",
    ]);
    expect(api.control.woken).toEqual(["App/one", "App/web", "App/two"]);
  });

  it("changes an existing app: the archive replaces the image or the repository", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80, replicas: 2, env: { A: "1" } });
    expect((await deploy({ name: "web", port: 81 }, "v1")).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({
      port: 81,
      replicas: 2,
      env: { A: "1" },
      source: { archive: digestOf("v1") },
    });
    putApp(api.store, "git", {
      port: 80,
      source: { git: { url: "https://example.org/a.git", ref: "main" } },
    });
    api.store.apply({
      kind: "App",
      name: "git",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: {},
      annotations: { [SOURCE_REVISION_ANNOTATION]: "c0ffee" },
    });
    expect((await deploy({ name: "git", port: 80 }, "v1")).statusCode).toBe(202);
    const { spec, metadata } = api.store.get("App", "git") ?? {};
    expect(spec?.source).toEqual({ archive: digestOf("v1") });
    const now = "2030-01-01T00:00:00.000Z";
    expect(metadata?.annotations).toEqual({
      [DEPLOYED_AT_ANNOTATION]: now,
      [RETRIED_AT_ANNOTATION]: now,
    });
  });

  it("reports on a dry run what it would do, and changes nothing", async () => {
    const before = api.store.lastSequence;
    const response = await deploy({ name: "web", port: 80 }, "v1", "?dry_run=true");
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({ dry_run: true, plan: { app: "web" } });
    expect(api.store.lastSequence).toBe(before);
  });

  it("waits until the app is Ready", async () => {
    const answer = deploy({ name: "web", port: 80 }, "v1", "?wait=true");
    await expect.poll(() => api.store.get("App", "web")).toBeDefined();
    const { uid, generation } = api.store.get("App", "web")?.metadata ?? { uid: "", generation: 0 };
    api.store.setStatus("App", "web", uid, appStatus(generation));
    expect((await answer).statusCode).toBe(201);
    expect((await answer).json()).toMatchObject({ ready: true });
  });

  it("requires a port, which is null for a worker", async () => {
    expect((await deploy({ name: "web" }, "v1")).statusCode).toBe(400);
    expect((await deploy({ name: "web", port: null }, "v1")).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).not.toHaveProperty("port");
  });

  it.each<[string, object, string, number]>([
    ["a domain of another app", { domain: "taken.example.org" }, 'app "other" already', 409],
    ["an invalid env", { env: { "1": "x" } }, "env", 400],
    ["ingress that makes no sense", { ingress: { stripPrefix: true } }, "stripPrefix", 400],
  ])("refuses %s before the archive is read", async (_what, fields, message, status) => {
    putApp(api.store, "other", { image: "bb:1", port: 80, domain: "taken.example.org" });
    const response = await deploy({ name: "web", port: 80, ...fields }, "x".repeat(100_000));
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).toContain(message);
    expect(api.builds.bytesRead).toBe(0);
    expect(api.store.get("App", "web")).toBeUndefined();
  });

  it("refuses to change fields that a file owns unless forced, without reading the archive", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80 }, "file:web.yaml");
    const refused = await deploy({ name: "web", port: 80 }, "v1");
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("image is set by the file web.yaml");
    expect(api.builds.bytesRead).toBe(0);
    expect((await deploy({ name: "web", port: 80 }, "v1", "?force=true")).statusCode).toBe(202);
  });

  it("stores no part of an archive whose upload fails", async () => {
    api.builds.uploadError = new BerthError("archive_invalid", "../x leads out of the archive");
    const response = await deploy({ name: "web", port: 80 }, "v1");
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toBe("../x leads out of the archive");
    expect(api.store.list("App")).toEqual([]);
  });

  it.each<[string, [string, string, string?][], number, string]>([
    ["no config", [["source", "tar", "s.tgz"]], 400, "config"],
    ["no source", [["config", config]], 400, "source"],
    [
      "config that is not JSON",
      [
        ["config", "{"],
        ["source", "x", "s"],
      ],
      400,
      "not JSON",
    ],
    [
      "a port of text",
      [
        ["config", '{"name":"a","port":"80"}'],
        ["source", "x", "s"],
      ],
      400,
      "port",
    ],
    [
      "no port",
      [
        ["config", '{"name":"a"}'],
        ["source", "x", "s"],
      ],
      400,
      "port",
    ],
    [
      "an unknown field",
      [
        ["config", '{"name":"a","port":1,"prot":2}'],
        ["source", "x", "s"],
      ],
      400,
      "prot",
    ],
    [
      "an unknown part",
      [
        ["config", config],
        ["sauce", "x", "s"],
      ],
      400,
      "sauce",
    ],
    ["a large config", [["config", " ".repeat(70_000), "c.json"]], 413, "64 KiB"],
    ["a large field", [["config", " ".repeat(70_000)]], 413, "64 KiB"],
    [
      "a third part",
      [
        ["config", config],
        ["source", "x", "s"],
        ["more", "x", "s"],
      ],
      400,
      "too many",
    ],
    [
      "a source that is not a file",
      [
        ["config", config],
        ["source", "x"],
      ],
      400,
      "not a file",
    ],
    [
      "two configs",
      [
        ["config", config, "c.json"],
        ["config", config],
      ],
      400,
      "occurs twice",
    ],
    [
      "too large a file",
      [
        ["config", config],
        ["source", "x".repeat(300_000), "s"],
      ],
      413,
      "too large",
    ],
  ])("refuses a request with %s", async (_what, parts, status, message) => {
    const response = await send(parts);
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).toContain(message);
    expect(api.store.list("App")).toEqual([]);
  });

  it("returns 415 for a content type other than multipart/form-data, but 401 if the token is missing", async () => {
    const json = await api.request({ method: "POST", url: "/api/deploy", payload: {} });
    expect(json.statusCode).toBe(415);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const form = await api.request({ method: "POST", url: "/api/deploy", payload: "a=b", headers });
    expect([form.statusCode, readErrorBody(form)]).toEqual([
      415,
      expect.stringContaining("multipart/form-data"),
    ]);
    const open = await api.server.inject({ method: "POST", url: "/api/deploy", payload: {} });
    expect(open.statusCode).toBe(401);
  });
});

describe("PUT /api/archives", () => {
  it("accepts an archive with any content type, and returns its digest", async () => {
    for (const type of ["application/gzip", "application/json", "text/plain", "x/y"]) {
      const response = await put("{not json", type);
      expect([type, response.statusCode]).toEqual([type, 200]);
      expect(response.json()).toEqual({ digest: digestOf("{not json"), bytes: 9 });
    }
    expect([...api.builds.archives.keys()]).toEqual([digestOf("{not json")]);
  });

  it("refuses empty and too large archives, also without Content-Length", async () => {
    const known = await put("x".repeat(300_000));
    expect(known.statusCode).toBe(413);
    expect(readErrorBody(known)).toContain("at most");
    expect(api.builds.bytesRead).toBe(0);
    expect((await put("")).statusCode).toBe(400);

    const { port } = new URL(await api.listen());
    const answer = await new Promise<string>((resolve, reject) => {
      let text = "";
      const socket = connect(Number(port), "127.0.0.1");
      socket.on("data", (chunk) => (text += chunk.toString()));
      socket.on("close", () => resolve(text));
      socket.on("error", reject);
      socket.write(
        `PUT /api/archives HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${api.token("write")}\r\nTransfer-Encoding: chunked\r\n\r\n`,
      );
      for (let index = 0; index < 3; index += 1) {
        socket.write(`${(100_000).toString(16)}\r\n${"x".repeat(100_000)}\r\n`);
      }
      socket.write("0\r\n\r\n");
    });
    expect(answer).toContain("HTTP/1.1 413");
    expect(api.builds.archives.size).toBe(0);
  });

  it("requires the scope write", async () => {
    const headers = { authorization: `Bearer ${api.token("read")}` };
    const response = await api.server.inject({ method: "PUT", url: "/api/archives", headers });
    expect(response.statusCode).toBe(403);
  });
});

const create = (body: object) =>
  api.request({ method: "POST", url: "/api/apps", payload: { name: "web", ...body } });
const deployTo = (payload: object) =>
  api.request({ method: "POST", url: "/api/apps/web/deploy", payload });

describe("an app that is created without an image", () => {
  it("gets its image from the first deploy, and cannot lose the image afterwards", async () => {
    expect((await create({ env: { A: "b" } })).statusCode).toBe(201);
    expect(api.store.get("App", "web")?.spec).toEqual({ env: { A: "b" } });
    const empty = await deployTo({});
    expect(empty.statusCode).toBe(400);
    expect(readErrorBody(empty)).toContain("has neither a source nor an image");
    expect((await deployTo({ image: "nginx:1" })).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({ env: { A: "b" }, image: "nginx:1" });
    const without = await api.request({
      method: "PATCH",
      url: "/api/apps/web",
      payload: { image: null },
    });
    expect(without.statusCode).toBe(400);
    expect(readErrorBody(without)).toContain("needs image");
  });

  it("gets its source from a repository", async () => {
    await create({});
    const git = { url: "https://git.example/shop.git" };
    expect((await deployTo({ git })).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({ source: { git } });
  });

  it("gets its source from an archive", async () => {
    await create({});
    expect((await deploy({ name: "web", port: 80 }, "archive")).statusCode).toBe(202);
    const source = { archive: digestOf("archive") };
    expect(api.store.get("App", "web")?.spec).toEqual({ port: 80, source });
  });
});
