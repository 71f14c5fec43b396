import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/rest/client.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
  putApp(api.store, "web", { port: 80, source: { git: { url: "https://example.org/a.git" } } });
});
afterEach(() => api[Symbol.asyncDispose]());

const build = (revision: string, app = "web") =>
  api.store.builds.create({
    app,
    generation: 1,
    source: "https://example.org/a.git",
    revision,
    image: `built:${revision}`,
  }).id;

const get = (path: string, accept = "application/json") =>
  api.request({ url: `/api/apps/web/builds${path}`, headers: { accept } });

async function* chunks() {
  for (let index = 0; index < 50; index += 1) yield Buffer.alloc(20_000, index);
}

describe("builds in the API", () => {
  it("are listed, newest first, and shown individually; an app shows its last build", async () => {
    const [first, second] = [build("aaa"), build("bbb")];
    api.store.builds.mark(first, "failed", { message: "step 2: RUN false" });
    build("ccc", "other");
    const list = (await get("")).json();
    expect(list).toMatchObject({ total: 2, builds: [{ id: second }, { id: first }] });
    expect((await get("?limit=1")).json()).toMatchObject({ total: 2, builds: [{ id: second }] });
    expect((await get(`/${first}`)).json()).toEqual({
      id: first,
      app: "web",
      generation: 1,
      source: "https://example.org/a.git",
      revision: "aaa",
      image: "built:aaa",
      state: "failed",
      message: "step 2: RUN false",
      image_bytes: null,
      created_at: "2030-01-01T00:00:00.000Z",
      started_at: null,
      finished_at: "2030-01-01T00:00:00.000Z",
    });
    const details = (await api.request({ url: "/api/apps/web" })).json();
    expect(details.build).toMatchObject({ id: second, state: "queued" });
  });

  it.each(["/0", "/x", "/-1", "/1.5", "/%00"])(
    "return 400 for the path /api/apps/web/builds%s, which does not contain the number of a build",
    async (path) => {
      const response = await get(path);
      expect([response.statusCode, response.headers["x-error-code"]]).toEqual([
        400,
        "invalid_request",
      ]);
      expect(readErrorBody(response)).toContain("in the path: id");
    },
  );

  it.each(["/999", "/99999999999999999999"])(
    "return 404 for the path /api/apps/web/builds%s, which names no build",
    async (path) => {
      build("aaa");
      const response = await get(path);
      expect(response.statusCode).toBe(404);
      expect(readErrorBody(response)).toMatch(/has no build .* newest is 1/);
    },
  );

  it("of another app return 404", async () => {
    const other = build("ccc", "other");
    expect((await get(`/${other}`)).statusCode).toBe(404);
    expect((await api.request({ url: "/api/apps/nope/builds" })).statusCode).toBe(404);
  });

  it("can be cancelled while queued or running, and not afterwards", async () => {
    const id = build("aaa");
    const cancel = () => api.request({ method: "POST", url: `/api/apps/web/builds/${id}/cancel` });
    const done = await cancel();
    expect(done.statusCode).toBe(202);
    expect(done.json()).toMatchObject({ id, state: "cancelled" });
    const again = await cancel();
    expect(again.statusCode).toBe(409);
    expect(readErrorBody(again)).toBe(`build ${id} has ended already: cancelled`);
  });
});

describe("the log of a build", () => {
  it("is returned as JSON, or as text on request", async () => {
    const id = build("aaa");
    api.builds.logs.set(id, ["Step 1/2 : FROM x", "Step 2/2 : RUN y"]);
    api.store.builds.mark(id, "succeeded");
    expect((await get(`/${id}/log`)).json()).toEqual({
      id,
      app: "web",
      lines: ["Step 1/2 : FROM x", "Step 2/2 : RUN y"],
    });
    const text = await get(`/${id}/log`, "text/plain");
    expect(text.headers["content-type"]).toContain("text/plain");
    expect(text.body).toBe("Step 1/2 : FROM x\nStep 2/2 : RUN y\n");
    expect((await get("/7/log")).statusCode).toBe(404);
  });

  it("can be followed until the build ends, and then contains the result of the build", async () => {
    const id = build("aaa");
    api.builds.logs.set(id, ["one"]);
    const client = createClient({ baseUrl: await api.listen(), token: api.token("read") });
    const log = client.builds.followLog("web", id);
    expect(await log.next()).toEqual({ done: false, value: "one" });
    const next = log.next();
    await expect.poll(() => api.builds.emitLine(id, "two")).toBe(true);
    expect(await next).toEqual({ done: false, value: "two" });
    const end = log.next();
    api.store.builds.mark(id, "failed", { message: "it broke" });
    api.builds.emitLine(id, null);
    expect(await end).toMatchObject({
      done: true,
      value: { id, state: "failed", message: "it broke" },
    });
  });
});

describe("the REST client", () => {
  it("uploads and deploys archives as streams", async () => {
    const client = createClient({ baseUrl: await api.listen(), token: api.token("write") });
    const { digest, bytes } = await client.builds.upload(chunks());
    expect(bytes).toBe(1_000_000);
    const write = await client.apps.deploySource({ name: "new", port: 80 }, chunks());
    expect(write).toMatchObject({ app: { name: "new", spec: { source: { archive: digest } } } });
    // The upload is refused before its end, and the client still receives the reason.
    putApp(api.store, "file", { image: "bb:1", port: 80 }, "file:web.yaml");
    await expect(
      client.apps.deploySource({ name: "file", port: 80 }, chunks()),
    ).rejects.toMatchObject({ status: 409, message: expect.stringContaining("web.yaml") });
  });
});
