import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { timestamp } from "../../../src/base/clock.ts";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  type Resource,
  SOURCE_REVISION_ANNOTATION,
} from "../../../src/resources/resource.ts";
import type { Revision } from "../../../src/store/store.ts";
import {
  appStatus,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

const post = (path: string, payload?: object) =>
  api.request({ method: "POST", url: `/api/apps/${path}`, ...(payload ? { payload } : {}) });

const revision = (generation: number, image: string, state: Revision["state"]) => {
  const { number } = api.store.revisions.ensure({
    app: "web",
    generation,
    specHash: image,
    spec: { image, port: 80 },
    image,
    imageId: null,
  });
  api.store.revisions.mark("web", number, state, null);
  return number;
};

function app(): Resource<"App"> {
  const found = api.store.get("App", "web");
  if (!found) throw new Error("there is no app web");
  return found;
}

const annotate = (annotations: Record<string, string>) =>
  api.store.apply({
    kind: "App",
    name: "web",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: {},
    annotations,
  });

/**
 * Stores a stable revision of the app `web` with an image that was built from `source`, and returns the revision's
 * number.
 */
function builtRevision(source: AppSpec["source"], commit: string): number {
  const image = `built:${commit}`;
  const { number } = api.store.revisions.ensure({
    app: "web",
    generation: 1,
    specHash: image,
    spec: { port: 80, ...(source ? { source } : {}) },
    image,
    imageId: null,
  });
  api.store.revisions.mark("web", number, "stable", null);
  const build = api.store.builds.create({
    app: "web",
    generation: 1,
    source: "x",
    revision: commit,
    image,
  });
  api.store.builds.mark(build.id, "succeeded");
  return number;
}

describe("start and stop of an app", () => {
  it("set `running` of the app, and return 200 without changes if it already has that value", async () => {
    putApp(api.store, "web");
    const running = await post("web/start");
    expect(running.statusCode).toBe(200);
    expect(running.headers["x-berth-changed"]).toBe("false");
    expect(api.store.get("App", "web")?.metadata.generation).toBe(1);

    expect((await post("web/stop")).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec.running).toBe(false);
    expect(api.control.woken).toEqual(["App/web"]);
    expect((await post("web/stop")).statusCode).toBe(200);
    expect(api.store.get("App", "web")?.metadata.generation).toBe(2);

    expect((await post("web/start", {})).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec.running).toBe(true);
  });

  it("are refused if the app's spec file sets `running`, unless forced, and accepted if the file omits `running`", async () => {
    putApp(api.store, "open", { image: "bb:1" }, "file:open.yaml");
    expect((await post("open/stop")).statusCode).toBe(202);
    putApp(api.store, "held", { image: "bb:1", running: true }, "file:held.yaml");
    const refused = await post("held/stop");
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("held.yaml");
    expect((await post("held/stop?force=true")).statusCode).toBe(202);
  });

  it("accept no fields in their body", async () => {
    putApp(api.store, "web");
    const response = await post("web/stop", { now: true });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain('"now"');
    expect(api.store.get("App", "web")?.spec.running).toBeUndefined();
  });
});

describe("restart and retry of an app", () => {
  it("write the current time to an annotation, which increments the generation and wakes the reconciler", async () => {
    putApp(api.store, "web");
    expect((await post("web/restart")).statusCode).toBe(202);
    await api.clock.advance(1000);
    expect((await post("web/retry")).statusCode).toBe(202);
    const { metadata } = api.store.get("App", "web") ?? {};
    expect(metadata?.annotations).toEqual({
      [RESTARTED_AT_ANNOTATION]: "2030-01-01T00:00:00.000Z",
      [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:01.000Z",
    });
    expect(metadata?.generation).toBe(3);
    expect(api.control.woken).toEqual(["App/web", "App/web"]);
  });

  it("refuse to restart a stopped or suspended app", async () => {
    putApp(api.store, "stopped", { image: "bb:1", running: false });
    const stopped = await post("stopped/restart");
    expect(stopped.statusCode).toBe(409);
    expect(readErrorBody(stopped)).toContain("/start");
    putApp(api.store, "suspended", { image: "bb:1", suspend: true });
    expect((await post("suspended/restart")).statusCode).toBe(409);
  });
});

describe("a deploy through the API", () => {
  it("sets the image, and removes the app's source if it had one", async () => {
    putApp(api.store, "web", { source: { git: { url: "https://example.org/x.git" } } });
    const response = await post("web/deploy", { image: "bb:2" });
    expect(response.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({ image: "bb:2" });
  });

  it("resolves the image again, even if the body names the same image or no image", async () => {
    putApp(api.store, "web");
    for (const body of [{ image: "bb:1" }, {}, undefined]) {
      await api.clock.advance(1_000);
      const response = await post("web/deploy", body);
      expect(response.statusCode).toBe(202);
      expect(response.headers).not.toHaveProperty("x-berth-changed");
      const now = timestamp(api.clock.now());
      expect(app().metadata.annotations).toEqual({
        [DEPLOYED_AT_ANNOTATION]: now,
        [RETRIED_AT_ANNOTATION]: now,
      });
    }
    expect(app().spec.image).toBe("bb:1");
  });

  it("refuses a body with both `image` and `git`, and reports the errors in each of them", async () => {
    putApp(api.store, "web");
    const git = { url: "https://example.org/x.git" };
    expect((await post("web/deploy", { image: "bb:2", git })).statusCode).toBe(400);
    const misspelt = await post("web/deploy", { git: { ur: "x" } });
    expect(misspelt.statusCode).toBe(400);
    expect(readErrorBody(misspelt)).toContain('did you mean "url"?');
    const local = await post("web/deploy", { git: { url: "/srv/x.git" } });
    expect(readErrorBody(local)).toContain(
      "git.url: expected https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH",
    );
    expect((await post("nope/deploy", { git })).statusCode).toBe(404);
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:1");
  });

  it("replaces an image by a repository; omitted source fields get their defaults", async () => {
    putApp(api.store, "web", {
      port: 80,
      source: {
        git: { url: "https://example.org/a.git", ref: "v1", credential: "a", interval: "1m" },
      },
    });
    const git = { url: "https://example.org/b.git", path: "app" };
    const response = await post("web/deploy", { git });
    expect(response.statusCode).toBe(202);
    expect(response.json()).toMatchObject({
      source: "https://example.org/b.git:app",
      spec: { source: { git: { ...git, interval: "1m" } } },
    });
    const { spec, metadata } = app();
    expect(spec.source).toEqual({ git: { ...git, interval: "1m" } });
    const now = "2030-01-01T00:00:00.000Z";
    expect(metadata.annotations).toEqual({
      [DEPLOYED_AT_ANNOTATION]: now,
      [RETRIED_AT_ANNOTATION]: now,
    });
    expect(api.control.woken).toEqual(["App/web"]);

    putApp(api.store, "one");
    expect((await post("one/deploy", { git })).statusCode).toBe(202);
    expect(api.store.get("App", "one")?.spec).toEqual({ port: 80, source: { git } });
  });

  it("resolves the source again if the body names no image and no source, and removes the pin that a rollback set", async () => {
    putApp(api.store, "web", { port: 80, source: { git: { url: "https://example.org/a.git" } } });
    annotate({ [SOURCE_REVISION_ANNOTATION]: "c0ffee" });
    await api.clock.advance(5000);
    for (const body of [undefined, {}]) {
      expect((await post("web/deploy", body)).statusCode).toBe(202);
      const now = "2030-01-01T00:00:05.000Z";
      expect(app().metadata.annotations).toEqual({
        [DEPLOYED_AT_ANNOTATION]: now,
        [RETRIED_AT_ANNOTATION]: now,
      });
      expect(app().spec.source).toEqual({ git: { url: "https://example.org/a.git" } });
    }
  });

  it("of an image removes the build options and the pinned commit of the source", async () => {
    putApp(api.store, "web", {
      port: 80,
      source: { git: { url: "https://example.org/a.git" } },
      build: { target: "x" },
    });
    annotate({ [SOURCE_REVISION_ANNOTATION]: "c0ffee" });
    expect((await post("web/deploy", { image: "bb:2" })).statusCode).toBe(202);
    expect(app().spec).toEqual({ image: "bb:2", port: 80 });
    expect(app().metadata.annotations).not.toHaveProperty([SOURCE_REVISION_ANNOTATION]);
  });

  it("refuses to change an image that a spec file declares", async () => {
    putApp(api.store, "web", { image: "bb:1" }, "file:web.yaml");
    const response = await post("web/deploy", { image: "bb:2" });
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("web.yaml");
  });

  it("refuses an invalid image", async () => {
    putApp(api.store, "web");
    for (const image of ["", "a b", "x".repeat(600), 7, null, ["x"]]) {
      const response = await post("web/deploy", { image });
      expect([image, response.statusCode]).toEqual([image, 400]);
      expect(readErrorBody(response)).toMatch(/^(App "web" is not valid: )?image|give one/);
    }
  });
});

describe("a rollback through the API", () => {
  it("returns to the newest stable revision except the present one, and keeps `running` and `replicas`", async () => {
    putApp(api.store, "web", { image: "bb:3", port: 80, replicas: 3, running: false });
    revision(1, "bb:1", "stable");
    revision(2, "bb:2", "quarantined");
    revision(3, "bb:3", "stable");
    const response = await post("web/rollback");
    expect(response.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({
      image: "bb:1",
      port: 80,
      replicas: 3,
      running: false,
    });
  });

  it("returns to the requested revision, even if that revision was quarantined, and then tries it again", async () => {
    putApp(api.store, "web", { image: "bb:3", port: 80, env: { A: "1" } });
    revision(1, "bb:1", "stable");
    const bad = revision(2, "bb:2", "quarantined");
    const response = await post("web/rollback", { revision: bad });
    expect(response.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({ image: "bb:2", port: 80 });
    expect(api.store.get("App", "web")?.metadata.annotations).toHaveProperty([
      RETRIED_AT_ANNOTATION,
    ]);
  });

  it("is refused if there is no stable revision; the error suggests an earlier revision that was never stable or is quarantined", async () => {
    putApp(api.store, "web", { image: "bb:3", port: 80 });
    revision(1, "bb:1", "quarantined");
    expect(readErrorBody(await post("web/rollback"))).toContain("berth rollback web --to 1");
    revision(2, "bb:2", "attempted");
    revision(3, "bb:3", "attempted");
    const response = await post("web/rollback");
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("not Ready for long enough");
    expect(readErrorBody(response)).toContain("berth rollback web --to 2");
  });

  it("returns 404 for a revision that is not kept, and 409 if there is no earlier revision", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80 });
    revision(1, "bb:1", "stable");
    const unknown = await post("web/rollback", { revision: 9 });
    expect(unknown.statusCode).toBe(404);
    expect(readErrorBody(unknown)).toContain("The kept revisions are: 1");
    expect((await post("web/rollback", {})).statusCode).toBe(409);
    expect((await post("web/rollback", { revision: 0 })).statusCode).toBe(400);
    expect((await post("web/rollback", { revision: "1" })).statusCode).toBe(400);
  });

  it("is refused if a file owns a field that would change, unless forced", async () => {
    putApp(api.store, "web", { image: "bb:2", port: 80 }, "file:web.yaml");
    revision(1, "bb:1", "stable");
    const refused = await post("web/rollback", { revision: 1 });
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("image is set by the file web.yaml");
    expect((await post("web/rollback?force=true", { revision: 1 })).statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:1");
  });

  it("to an earlier commit of the same source pins the app to that commit until the next deploy", async () => {
    const git = { url: "https://example.org/a.git" };
    const { uid } = putApp(api.store, "web", { port: 80, source: { git } });
    const first = builtRevision({ git }, "aaa");
    const second = builtRevision({ git }, "bbb");
    const revisions = { attempted: second, applied: second, stable: second };
    api.store.setStatus("App", "web", uid, appStatus(1, { revisions }));
    expect((await post("web/rollback")).statusCode).toBe(202);
    expect(app().metadata.annotations[SOURCE_REVISION_ANNOTATION]).toBe("aaa");
    expect(app().spec.source).toEqual({ git });
    const list = (await api.request({ url: "/api/apps/web/revisions" })).json();
    expect(list.revisions).toMatchObject([
      { number: second, image: "built:bbb", source_revision: "bbb", build_id: 2 },
      { number: first, image: "built:aaa", source_revision: "aaa", build_id: 1 },
    ]);
    await post("web/deploy");
    expect(app().metadata.annotations).not.toHaveProperty([SOURCE_REVISION_ANNOTATION]);
  });

  it("returns to the commit that serves requests if the newest commit does not build", async () => {
    const git = { url: "https://example.org/a.git" };
    const { uid } = putApp(api.store, "web", { port: 80, source: { git } });
    builtRevision({ git }, "aaa");
    const second = builtRevision({ git }, "bbb");
    const revisions = { attempted: second, applied: second, stable: second };
    api.store.setStatus("App", "web", uid, appStatus(1, { revisions }));
    api.store.sourcePins.set("web", { key: "x", revision: "ccc", resolvedAtMs: 0 });
    expect((await post("web/rollback")).statusCode).toBe(202);
    expect(app().metadata.annotations).toEqual({ [SOURCE_REVISION_ANNOTATION]: "bbb" });
    expect((await post("web/rollback")).statusCode).toBe(202);
    expect(app().metadata.annotations).toEqual({ [SOURCE_REVISION_ANNOTATION]: "aaa" });
  });

  it("keeps the settings for following the repository, and the credential", async () => {
    const url = "https://example.org/a.git";
    putApp(api.store, "web", {
      port: 80,
      source: { git: { url, ref: "v2", hookSecret: "hook", interval: "1m", credential: "new" } },
    });
    const number = builtRevision({ git: { url, ref: "v1", credential: "old" } }, "aaa");
    expect((await post("web/rollback", { revision: number })).statusCode).toBe(202);
    expect(app().spec.source).toEqual({
      git: { url, ref: "v1", hookSecret: "hook", interval: "1m", credential: "new" },
    });
    const other = "https://example.org/b.git";
    const away = builtRevision({ git: { url: other, credential: "old" } }, "bbb");
    expect((await post("web/rollback", { revision: away })).statusCode).toBe(202);
    expect(app().spec.source).toEqual({
      git: { url: other, hookSecret: "hook", interval: "1m", credential: "old" },
    });
  });

  it("from a Git source to an image unpins the commit, and a rollback to the source pins its commit again", async () => {
    const git = { url: "https://example.org/a.git" };
    putApp(api.store, "web", { port: 80, source: { git } });
    annotate({ [SOURCE_REVISION_ANNOTATION]: "aaa" });
    const image = revision(1, "bb:1", "stable");
    const built = builtRevision({ git }, "bbb");
    expect((await post("web/rollback", { revision: image })).statusCode).toBe(202);
    expect(app().spec).toEqual({ image: "bb:1", port: 80 });
    expect(app().metadata.annotations).toEqual({});
    expect((await post("web/rollback", { revision: built })).statusCode).toBe(202);
    expect(app().spec).toEqual({ port: 80, source: { git } });
    expect(app().metadata.annotations).toEqual({ [SOURCE_REVISION_ANNOTATION]: "bbb" });
  });

  it("keeps no commit pinned once the app gets another source, through the API or a manifest", async () => {
    const git = { url: "https://example.org/a.git" };
    putApp(api.store, "web", { port: 80, source: { git } });
    const hold = { [SOURCE_REVISION_ANNOTATION]: "aaa" };
    annotate(hold);
    const patch = (payload: object) =>
      api.request({ method: "PATCH", url: "/api/apps/web", payload });
    await patch({ replicas: 2 });
    expect(app().metadata.annotations).toEqual(hold);
    expect((await patch({ source: { git: { ref: "v2" } } })).statusCode).toBe(202);
    expect(app().metadata.annotations).toEqual({});
    annotate(hold);
    const spec = { port: 80, source: { git: { ...git, ref: "v3" } } };
    const manifest = { apiVersion: "berth.dev/v1", kind: "App", metadata: { name: "web" }, spec };
    const payload = { manifests: [manifest], force: true };
    const applied = await api.request({ method: "POST", url: "/api/apply", payload });
    expect(applied.json().results).toMatchObject([{ action: "configured" }]);
    expect(applied.json().results[0].generation).toBe(app().metadata.generation);
    expect(app().spec.source).toEqual({ git: { ...git, ref: "v3" } });
    expect(app().metadata.annotations).toEqual({});
  });

  it("to an uploaded archive sets that archive as the source, and pins no commit", async () => {
    putApp(api.store, "web", { port: 80, source: { archive: "b".repeat(64) } });
    annotate({ [SOURCE_REVISION_ANNOTATION]: "x" });
    const number = builtRevision({ archive: "a".repeat(64) }, "a".repeat(64));
    expect((await post("web/rollback", { revision: number })).statusCode).toBe(202);
    expect(app().spec.source).toEqual({ archive: "a".repeat(64) });
    expect(app().metadata.annotations).toEqual({});
  });

  it("is refused if neither the image nor the source of a revision exists any more", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80 });
    const folder = builtRevision({ local: "/srv/app" }, "ddd");
    const gone = await post("web/rollback", { revision: folder });
    expect(gone.statusCode).toBe(409);
    expect(readErrorBody(gone)).toContain(
      `revision ${folder} is no longer available: the image of the revision has`,
    );
    api.store.ownedImages.add("built:ddd", "web");
    expect((await post("web/rollback", { revision: folder })).statusCode).toBe(202);
    expect(app().metadata.annotations[SOURCE_REVISION_ANNOTATION]).toBe("ddd");

    const git = { url: "https://example.org/a.git" };
    const { number } = api.store.revisions.ensure({
      app: "web",
      generation: 9,
      specHash: "never built",
      spec: { port: 80, source: { git } },
      image: null,
      imageId: null,
    });
    const unknown = await post("web/rollback", { revision: number });
    expect(unknown.statusCode).toBe(409);
    expect(readErrorBody(unknown)).toContain("does not know the source of the revision's image");
  });

  it("can choose from a list of revisions, which begins with the newest and marks the one that was attempted last", async () => {
    const { uid } = putApp(api.store, "web");
    revision(1, "bb:1", "stable");
    revision(2, "bb:2", "stable");
    api.store.setStatus(
      "App",
      "web",
      uid,
      appStatus(1, { revisions: { attempted: 2, applied: 2, stable: 1 } }),
    );
    const { revisions, total } = (await api.request({ url: "/api/apps/web/revisions" })).json();
    expect(total).toBe(2);
    expect(revisions).toMatchObject([
      { number: 2, current: true, image: "bb:2", spec: { image: "bb:2" } },
      { number: 1, current: false },
    ]);
  });
});

describe("dry runs", () => {
  it("of every action return the plan and change nothing", async () => {
    putApp(api.store, "web");
    const before = api.store.lastSequence;
    for (const [path, payload] of [
      ["web/start", undefined],
      ["web/stop", undefined],
      ["web/restart", undefined],
      ["web/retry", undefined],
      ["web/deploy", { image: "bb:2" }],
    ] as const) {
      const response = await post(`${path}?dry_run=true`, payload);
      expect([path, response.statusCode]).toEqual([path, 200]);
      expect(response.json()).toMatchObject({ dry_run: true, kind: "App", plan: { app: "web" } });
    }
    expect(api.store.lastSequence).toBe(before);
    expect(api.control.woken).toEqual([]);
  });
});
