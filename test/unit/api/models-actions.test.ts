import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError, NotFoundError } from "../../../src/base/errors.ts";
import {
  FILE_POLICY_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  STARTED_AT_ANNOTATION,
} from "../../../src/resources/resource.ts";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import {
  assistantModel,
  failedStatus,
  finishModelDeletion,
  modelManifest,
  modelStatus,
  putModel,
  requireModel,
  runningStatus,
  setModelStatus,
} from "../../support/model-fixtures.ts";

const now = "2030-01-01T00:00:00.000Z";
const catalog = [
  {
    ...modelManifest("tiny", { source: "org/Tiny-GGUF", quantization: "Q8_0" }),
    metadata: { name: "tiny", annotations: { description: "Tiny: chats." } },
  },
];

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ models: catalog });
});
afterEach(() => api[Symbol.asyncDispose]());

const post = (path: string, payload?: object) =>
  api.request({ method: "POST", url: `/api/llm/${path}`, ...(payload ? { payload } : {}) });
const start = (model: string, query = "") => post(`start${query}`, { model });
const download = (id: string, query = "") =>
  post(`models/${encodeURIComponent(id)}/download${query}`);
const remove = (id: string, query = "") =>
  api.request({ method: "DELETE", url: `/api/llm/models/${encodeURIComponent(id)}${query}` });
const modelOf = (name: string) => requireModel(api.store, name);
const startedAt = (name: string) => modelOf(name).metadata.annotations[STARTED_AT_ANNOTATION];
const namesThere = () => api.store.list("Model").map(({ metadata }) => metadata.name);

describe("the API request to download a model", () => {
  it("creates a Model for a repository that no Model has, and is idempotent", async () => {
    const response = await download("Org/Some_Model-1.5B-GGUF");
    expect(response.statusCode).toBe(202);
    expect(response.json()).toMatchObject({
      id: "Org/Some_Model-1.5B-GGUF",
      name: "some-model-1-5b",
      status: "absent",
      origin: "resource",
      managed_by: "api",
    });
    expect(modelOf("some-model-1-5b").spec).toEqual({ source: "Org/Some_Model-1.5B-GGUF" });
    expect(api.control.woken).toEqual(["Model/some-model-1-5b"]);
    const again = await download("org/some_model-1.5b-gguf");
    expect([again.statusCode, again.headers["x-berth-changed"]]).toEqual([202, "false"]);
    expect(namesThere()).toEqual(["some-model-1-5b"]);
    expect(modelOf("some-model-1-5b").metadata.generation).toBe(1);
  });

  it("accepts a quantization after a colon, and the address of a hub before the repository", async () => {
    expect((await download("hf.co/org/Model-GGUF:Q4_K_M")).statusCode).toBe(202);
    expect(modelOf("model").spec).toEqual({ source: "org/Model-GGUF", quantization: "Q4_K_M" });
    await download("org/Model-GGUF:Q8_0");
    await download("other/Model-GGUF");
    await download("org/Model-GGUF:Q4_K_M");
    expect(namesThere()).toEqual(["model", "model-q8-0", "other-model"]);
  });

  it("accepts a repository in the path whose encoded slash a proxy has decoded", async () => {
    expect((await post("models/org/model/download")).statusCode).toBe(202);
    expect(modelOf("model").spec.source).toBe("org/model");
  });

  it("chooses Model names that are unused and not too long", async () => {
    api.control.assistantModels = [assistantModel("used")];
    await download("org/used");
    await download("x/tiny");
    for (const org of ["one", "two", "one-more"]) await download(`${org}/${"n".repeat(90)}`);
    await download("o/0");
    const names = namesThere();
    expect(names).toEqual(expect.arrayContaining(["org-used", "x-tiny", "n".repeat(63), "0"]));
    expect(names).toHaveLength(6);
    expect(names.every((name) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name))).toBe(true);
    expect(Math.max(...names.map((name) => name.length))).toBe(63);
  });

  it("creates a Model from a catalog entry, with all fields of the entry", async () => {
    expect((await download("org/tiny-gguf")).json()).toMatchObject({
      name: "tiny",
      origin: "resource",
      description: "Tiny: chats.",
      quantization: "Q8_0",
    });
  });

  it("verifies the files of an existing model again, and retries a failed or waiting model", async () => {
    putModel(api.store, "small");
    setModelStatus(api.store, "small", modelStatus);
    const response = await download("small");
    expect(response.statusCode).toBe(202);
    expect(modelOf("small").metadata.annotations).toEqual({ [RETRIED_AT_ANNOTATION]: now });
    await api.clock.advance(1000);
    setModelStatus(api.store, "small", (generation) => failedStatus(generation, "X", "x"));
    await download("small");
    expect(modelOf("small").metadata.annotations).toEqual({
      [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:01.000Z",
    });
    expect(api.control.woken).toEqual(["Model/small", "Model/small"]);
  });

  it("changes nothing during a running download", async () => {
    putModel(api.store, "small");
    setModelStatus(api.store, "small", (generation) =>
      modelStatus(generation, { phase: "downloading" }),
    );
    const progress = { doneBytes: 1, totalBytes: 2, bytesPerSecond: null };
    api.control.progress.set("small", { step: "downloading", ...progress });
    const response = await download("small");
    expect([response.statusCode, response.headers["x-berth-changed"]]).toEqual([202, "false"]);
    expect(response.json().status).toBe("downloading");
    expect(modelOf("small").metadata.generation).toBe(1);
  });

  it("changes nothing for a file that the assistant has without a Model", async () => {
    api.control.assistantModels = [assistantModel("mine")];
    const response = await download("mine");
    expect([response.statusCode, response.headers["x-berth-changed"]]).toEqual([200, "false"]);
    expect(response.json()).toMatchObject({ name: "mine", status: "ready" });
    expect((await download("mine", "?dry_run=true")).json().message).toContain("unchanged");
    expect(namesThere()).toEqual([]);
  });

  it("returns 404 for an unknown name, and 400 for an invalid id", async () => {
    expect((await download("nobody")).statusCode).toBe(404);
    for (const id of [
      "a/b/c",
      "https://example.org/x.gguf",
      "/etc/passwd",
      "org/..",
      "a:b:c",
      "",
    ]) {
      const response = await download(id);
      expect([id, response.statusCode]).toEqual([id, 400]);
    }
    expect(readErrorBody(await download("a/b/c"))).toContain("org%2Fname");
    expect(namesThere()).toEqual([]);
  });

  it("is refused before anything is created if the hub reports a problem", async () => {
    api.control.sourceError = new NotFoundError("there is no repository org/nowhere");
    const missing = await download("org/nowhere");
    expect(missing.statusCode).toBe(404);
    expect(readErrorBody(missing)).toContain("org/nowhere");
    api.control.sourceError = new BerthError("hub_denied", "org/gated is gated");
    expect((await download("org/gated")).statusCode).toBe(409);
    expect(namesThere()).toEqual([]);
  });

  it("returns a plan on a dry run, and writes nothing", async () => {
    const fresh = (await download("org/model", "?dry_run=true")).json();
    expect(fresh).toMatchObject({
      dry_run: true,
      name: "model",
      message: 'would create model "model" and download it',
      plan: { model: "model", operations: [{ operation: "download" }] },
    });
    expect(fresh.changes).toContainEqual({ path: "/spec/source", after: "org/model" });
    expect(api.store.lastSequence).toBe(0);
    putModel(api.store, "small");
    expect((await download("small", "?dry_run=true")).json().message).toContain(
      "download is in progress",
    );
    expect(api.control.woken).toEqual([]);
  });
});

describe("the API request to start a model", () => {
  it("sets `running` and the start time, and creates the Model if it does not exist", async () => {
    expect((await start("org/model:Q8_0")).statusCode).toBe(202);
    expect(modelOf("model")).toMatchObject({
      spec: { source: "org/model", quantization: "Q8_0", running: true },
      metadata: { annotations: { [STARTED_AT_ANNOTATION]: now }, generation: 1 },
    });
    expect((await start("tiny")).json()).toMatchObject({
      name: "tiny",
      description: "Tiny: chats.",
    });
    putModel(api.store, "small");
    setModelStatus(api.store, "small", modelStatus);
    await api.clock.advance(1000);
    const response = await start("org/small");
    expect(response.statusCode).toBe(202);
    expect(response.json()).toMatchObject({ name: "small", status: "ready" });
    expect(modelOf("small")).toMatchObject({
      spec: { running: true },
      metadata: {
        annotations: { [STARTED_AT_ANNOTATION]: "2030-01-01T00:00:01.000Z" },
        generation: 2,
      },
    });
    expect(api.control.woken).toEqual(["Model/model", "Model/tiny", "Model/small"]);
  });

  it("returns 200 without changes for a running model, and gives priority to a model that waits for memory", async () => {
    putModel(api.store, "small", { source: "org/small", running: true });
    setModelStatus(api.store, "small", runningStatus);
    const running = await start("small");
    expect([running.statusCode, running.headers["x-berth-changed"]]).toEqual([200, "false"]);
    expect(modelOf("small").metadata.generation).toBe(1);
    expect((await start("small", "?dry_run=true")).json()).toMatchObject({
      message: 'would leave model "small" unchanged',
      changes: [],
    });
    setModelStatus(api.store, "small", modelStatus);
    expect((await start("small")).statusCode).toBe(202);
    expect(modelOf("small").metadata.annotations).toEqual({ [STARTED_AT_ANNOTATION]: now });
  });

  it("records a start time that is later than every other start, even if the clock was set back", async () => {
    await start("org/one");
    await start("org/two");
    expect([startedAt("one"), startedAt("two")]).toEqual([now, now.replace("000Z", "001Z")]);
    for (const [name, time] of [
      ["ahead", "2031-05-05T05:05:05.000Z"],
      ["nonsense", "yesterday"],
      ["always", "9999-12-31T23:59:59.999Z"],
    ] as const)
      putModel(api.store, name, { source: `org/${name}` }, "api", {
        [STARTED_AT_ANNOTATION]: time,
      });
    await start("org/three");
    expect(startedAt("three")).toBe("2031-05-05T05:05:05.001Z");
  });

  it("does not change fields that a spec file owns, unless forced", async () => {
    putModel(api.store, "open", { source: "org/open" }, "file:open.yaml");
    expect((await start("open")).statusCode).toBe(202);
    putModel(api.store, "held", { source: "org/held", running: false }, "file:held.yaml");
    const refused = await start("held");
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("running is set by the file held.yaml");
    expect((await start("held", "?dry_run=true")).statusCode).toBe(409);
    expect((await start("held", "?force=true")).statusCode).toBe(202);
    expect(modelOf("held").spec.running).toBe(true);
    putModel(api.store, "said", { source: "org/said", running: true }, "file:said.yaml");
    expect((await start("said")).statusCode).toBe(202);
    expect(modelOf("said").metadata.owners["/spec/running"]).toBe("file:said.yaml");
  });

  it("creates a Model for a file that the assistant has without a Model, so that the file stays loaded", async () => {
    api.control.assistantModels = [
      assistantModel("My.File Q4"),
      assistantModel("plain", { state: "resident" }),
      assistantModel("kept", { state: "resident", pinned: true }),
      assistantModel("stub", { path: null }),
    ];
    expect((await start("My.File Q4")).json().name).toBe("my-file-q4");
    expect(modelOf("my-file-q4").spec).toEqual({
      source: "/srv/models/My.File Q4.gguf",
      running: true,
    });
    expect((await start("plain")).json().name).toBe("plain");
    expect((await start("kept")).statusCode).toBe(200);
    const stub = await start("stub");
    expect([stub.statusCode, readErrorBody(stub)]).toEqual([
      409,
      expect.stringContaining("no file"),
    ]);
    expect(namesThere()).toEqual(["my-file-q4", "plain"]);
  });

  it("returns 404, 400 or 409 for models that cannot be started", async () => {
    expect((await start("nobody")).statusCode).toBe(404);
    expect((await start("org/../x")).statusCode).toBe(400);
    expect((await post("start", {})).statusCode).toBe(400);
    expect((await post("start", { modle: "x" })).statusCode).toBe(400);
    expect((await post("start")).statusCode).toBe(400);
    putModel(api.store, "going");
    await remove("going");
    for (const response of [await start("going"), await download("going")]) {
      expect([response.statusCode, readErrorBody(response)]).toEqual([
        409,
        expect.stringContaining("being deleted"),
      ]);
    }
  });
});

describe("the API request to stop models", () => {
  it("unloads the given model, or all running models if none is given", async () => {
    for (const name of ["a", "b", "c"]) putModel(api.store, name, { source: "o/x", running: true });
    putModel(api.store, "idle");
    const one = await post("stop", { model: "a" });
    expect([one.statusCode, one.json().total]).toEqual([202, 1]);
    expect(modelOf("a").spec.running).toBe(false);
    const all = await post("stop");
    expect(all.statusCode).toBe(202);
    expect(all.json().models.map(({ name }: { name: string }) => name)).toEqual(["b", "c"]);
    expect(modelOf("c").spec.running).toBe(false);
    expect(modelOf("idle").spec.running).toBeUndefined();
    expect(api.control.woken).toEqual(["Model/a", "Model/b", "Model/c"]);
  });

  it("returns 200 without changes if no model should run", async () => {
    putModel(api.store, "idle");
    for (const body of [undefined, {}, { model: "idle" }, { model: "tiny" }]) {
      const response = await post("stop", body);
      expect([response.statusCode, response.headers["x-berth-changed"]]).toEqual([200, "false"]);
    }
    expect(modelOf("idle").metadata.generation).toBe(1);
  });

  it("stops no model if a spec file sets `running` of one of them, unless forced", async () => {
    putModel(api.store, "a", { source: "o/x", running: true });
    putModel(api.store, "b", { source: "o/x", running: true }, "file:b.yaml");
    putModel(api.store, "c", { source: "o/x", running: true }, "file:c.yaml");
    const refused = await post("stop");
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toMatch(
      /running is set by the file b\.yaml; .* the file c\.yaml/,
    );
    expect(modelOf("a").spec.running).toBe(true);
    expect((await post("stop?force=true")).statusCode).toBe(202);
    expect(namesThere().map((name) => modelOf(name).spec.running)).toEqual([false, false, false]);
  });

  it("refuses models that Berth cannot stop", async () => {
    expect((await post("stop", { model: "nobody" })).statusCode).toBe(404);
    expect((await post("stop", { model: "org/unknown" })).statusCode).toBe(404);
    expect((await post("stop", { modle: "x" })).statusCode).toBe(400);
    api.control.assistantModels = [
      assistantModel("mine", { state: "resident" }),
      assistantModel("cold"),
    ];
    expect((await post("stop", { model: "mine" })).statusCode).toBe(409);
    expect((await post("stop", { model: "cold" })).statusCode).toBe(200);
  });

  it("returns a report for each model on a dry run", async () => {
    for (const name of ["a", "b"]) putModel(api.store, name, { source: "o/x", running: true });
    const { reports } = (await post("stop?dry_run=true")).json();
    expect(reports).toMatchObject([
      { message: 'would stop model "a"', changes: [{ path: "/spec/running", after: false }] },
      { message: 'would stop model "b"', plan: { model: "b" } },
    ]);
    expect(modelOf("a").spec.running).toBe(true);
  });
});

describe("the deletion of a model through the API", () => {
  it("returns 202, and deletes files only on request", async () => {
    putModel(api.store, "keep");
    putModel(api.store, "drop");
    const kept = await remove("org/keep");
    expect([kept.statusCode, kept.json().status]).toEqual([202, "deleting"]);
    expect(modelOf("keep").metadata.annotations).toEqual({});
    const dry = (await remove("drop", "?files=true&dry_run=true")).json();
    expect(dry.message).toBe('would delete model "drop" and delete its files');
    expect(modelOf("drop").metadata.deletionTimestamp).toBeNull();
    await remove("drop", "?files=true");
    expect(modelOf("drop").metadata.annotations).toEqual({ [FILE_POLICY_ANNOTATION]: "delete" });
    // A second delete request can still delete the model's files, although the first one kept them.
    await remove("keep", "?files=true");
    expect(modelOf("keep").metadata.annotations).toEqual({ [FILE_POLICY_ANNOTATION]: "delete" });
    finishModelDeletion(api.store, "keep");
    expect((await remove("keep")).statusCode).toBe(404);
  });

  it("is refused for a Model that a spec file declares, unless forced", async () => {
    putModel(api.store, "held", { source: "org/held" }, "file:held.yaml");
    expect((await remove("held")).statusCode).toBe(409);
    expect((await remove("held", "?force=true")).statusCode).toBe(202);
  });

  it("is refused with 409 for a model that no Model resource declares, and with 404 for an unknown model", async () => {
    api.control.assistantModels = [assistantModel("mine")];
    expect((await remove("mine")).statusCode).toBe(409);
    expect((await remove("tiny")).statusCode).toBe(409);
    expect((await remove("nobody")).statusCode).toBe(404);
  });
});

describe("the scopes in the API of models", () => {
  it("allow a token of scope read to show models, but not to change them", async () => {
    putModel(api.store, "small");
    const headers = { authorization: `Bearer ${api.token("read")}` };
    const call = async (method: "GET" | "POST" | "DELETE", url: string, payload?: object) =>
      (await api.request({ method, url: `/api/llm/${url}`, headers, ...(payload && { payload }) }))
        .statusCode;
    expect(await call("GET", "models")).toBe(200);
    expect(await call("GET", "models/small")).toBe(200);
    expect(await call("POST", "models/small/download")).toBe(403);
    expect(await call("POST", "start", { model: "small" })).toBe(403);
    expect(await call("POST", "stop")).toBe(403);
    expect(await call("DELETE", "models/small")).toBe(403);
    expect((await api.server.inject({ url: "/api/llm/models" })).statusCode).toBe(401);
  });
});
