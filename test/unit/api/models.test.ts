import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import {
  assistantModel,
  failedStatus,
  modelManifest,
  modelStatus,
  putModel,
  runningStatus,
  setModelStatus,
} from "../../support/model-fixtures.ts";

const catalog = [
  {
    ...modelManifest("tiny", { source: "org/Tiny-GGUF", quantization: "Q8_0" }),
    metadata: { name: "tiny", annotations: { description: "Tiny: chats." } },
  },
  modelManifest("large", { source: "org/Large-GGUF", quantization: "Q4_K_M" }),
];

const own = assistantModel("my.Own_model");

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ models: catalog });
});
afterEach(() => api[Symbol.asyncDispose]());

const get = (path: string) => api.request({ url: `/api/llm/models${path}` });
const list = async (query = "") => (await get(query)).json();
const namesOf = (answer: { models: { name: string }[] }) => answer.models.map(({ name }) => name);

const apply = (manifests: readonly object[], query = "", scope: "admin" | "write" = "admin") =>
  api.request({
    method: "POST",
    url: `/api/apply${query}`,
    payload: { manifests },
    headers: { authorization: `Bearer ${api.token(scope)}` },
  });

describe("the list of models", () => {
  it("has Models first, then files that the assistant has without a Model, then the other catalog entries", async () => {
    putModel(api.store, "small");
    api.control.assistantModels = [
      own,
      { ...own, id: "another", state: "resident", memoryBytes: 99 },
    ];
    const answer = await list();
    expect(namesOf(answer)).toEqual(["small", "another", "my.Own_model", "large", "tiny"]);
    expect(answer.total).toBe(5);
    expect(answer.models).toMatchObject([
      { id: "org/small", origin: "resource", status: "absent", generation: 1, managed_by: "api" },
      { id: "another", origin: "assistant", status: "running", running: true, memory_bytes: 99 },
      {
        origin: "assistant",
        status: "ready",
        size_bytes: 77,
        downloaded_bytes: 77,
        progress: 1,
        file: "my.Own_model.gguf",
      },
      { id: "org/Large-GGUF", origin: "catalog", status: "absent", generation: null },
      { id: "org/Tiny-GGUF", description: "Tiny: chats.", quantization: "Q8_0" },
    ]);
    expect(JSON.stringify(answer)).not.toContain("/srv/models");
  });

  it("lists no model twice", async () => {
    putModel(api.store, "of-catalog", { source: "org/Tiny-GGUF", quantization: "q8_0" });
    putModel(api.store, "large", { source: "other/thing" });
    putModel(api.store, "by-path", { source: "/srv/models/my.Own_model.gguf" });
    api.control.assistantModels = [own, { ...own, id: "large", path: "/srv/models/large.gguf" }];
    expect(namesOf(await list())).toEqual(["by-path", "large", "of-catalog"]);
    // Another quantization of the same repository is a separate model.
    putModel(api.store, "of-catalog", { source: "org/Tiny-GGUF", quantization: "Q4_0" });
    expect(namesOf(await list())).toContain("tiny");
  });

  it("shows all facts about a model that is on the disk", async () => {
    putModel(api.store, "small", { source: "org/small", revision: "v1", contextSize: 4096 });
    setModelStatus(api.store, "small", modelStatus);
    expect((await list("?limit=1")).models).toEqual([
      {
        id: "org/small",
        name: "small",
        origin: "resource",
        source: "org/small",
        description: null,
        status: "ready",
        step: null,
        size_bytes: 4000,
        downloaded_bytes: 4000,
        progress: 1,
        bytes_per_second: null,
        message: "on the disk",
        ready: true,
        running: false,
        file: "small-q4_k_m.gguf",
        sha256: "ab".repeat(32),
        revision: "v1",
        commit: "c0ffee",
        architecture: "llama",
        parameters: 1_000_000,
        quantization: "Q4_K_M",
        kind: "chat",
        context_length: 4096,
        max_context_length: 32_768,
        memory_bytes: 9000,
        aliases: ["org/small", "org/small:Q4_K_M"],
        managed_by: "api",
        created_at: "2030-01-01T00:00:00.000Z",
        loaded_at: null,
        generation: 1,
        observed_generation: 1,
        error: null,
        next_retry_at: null,
      },
    ]);
  });

  it("shows the progress of a download, which is newer than the status", async () => {
    putModel(api.store, "small");
    const progress = { doneBytes: 1000, totalBytes: 4000, bytesPerSecond: 50 } as const;
    api.control.progress.set("small", { step: "downloading", ...progress });
    expect((await list()).models[0]).toMatchObject({
      status: "downloading",
      step: "downloading",
      downloaded_bytes: 1000,
      size_bytes: 4000,
      progress: 0.25,
      bytes_per_second: 50,
    });
    setModelStatus(api.store, "small", modelStatus);
    api.control.progress.set("small", { step: "verifying", ...progress });
    expect((await list()).models[0]).toMatchObject({
      status: "ready",
      step: "verifying",
      downloaded_bytes: 4000,
      progress: 0.25,
      message: "25 % of 3.9 KiB compared with its digest",
    });
  });

  it("reports `running` only if the generation has been reconciled, and omits an alias that two models share", async () => {
    putModel(api.store, "small", { source: "org/x", running: true });
    setModelStatus(api.store, "small", runningStatus);
    expect((await list()).models[0]).toMatchObject({
      running: true,
      ready: true,
      memory_bytes: 8000,
      context_length: 8192,
      loaded_at: "2030-01-01T00:00:00.000Z",
    });
    putModel(api.store, "second", { source: "org/x", quantization: "Q8_0", running: true });
    putModel(api.store, "small", { source: "org/x", running: true, contextSize: 512 });
    const { models } = await list();
    expect(models[1]).toMatchObject({ status: "starting", running: false, ready: false });
    expect(models[1].aliases).toEqual(["org/x:Q4_K_M"]);
    expect(models[0].aliases).toEqual(["org/x:Q8_0"]);
  });

  it("explains failures without paths of the server or queries of URLs", async () => {
    putModel(api.store, "bad");
    setModelStatus(api.store, "bad", (generation) =>
      failedStatus(generation, "SourceNotFound", "there is no org/bad"),
    );
    putModel(api.store, "file", { source: "/srv/secret/file.gguf" });
    putModel(api.store, "url", { source: "https://example.org/a/b.gguf?key=hunter2" });
    const { models } = await list("?limit=3");
    expect(models).toMatchObject([
      { status: "failed", error: "there is no org/bad", message: "there is no org/bad" },
      { id: "file", source: "file", aliases: [] },
      { id: "url", source: "https://example.org/a/b.gguf" },
    ]);
    expect(JSON.stringify(models)).not.toMatch(/secret|hunter2/);
  });

  it("can be filtered and paged like apps", async () => {
    putModel(api.store, "one");
    putModel(api.store, "two");
    setModelStatus(api.store, "two", modelStatus);
    expect(await list("?status=ready")).toMatchObject({ total: 1, models: [{ name: "two" }] });
    const page = await list("?status=absent&offset=1&limit=1");
    expect(namesOf(page)).toEqual(["large"]);
    expect(page.total).toBe(3);
    expect((await get("?status=Ready")).statusCode).toBe(400);
  });
});

describe("a request for one model", () => {
  it("finds the model by its name, its repository with or without a quantization, or the id of the assistant's file", async () => {
    putModel(api.store, "small", { source: "org/Small-GGUF" });
    setModelStatus(api.store, "small", modelStatus);
    putModel(api.store, "small-8", { source: "org/Other-GGUF", quantization: "Q8_0" });
    putModel(api.store, "other", { source: "org/Other-GGUF", quantization: "Q4_0" });
    api.control.assistantModels = [own, { ...own, id: "with space (1)" }];
    for (const [id, name] of [
      ["small", "small"],
      ["org%2FSmall-GGUF", "small"],
      ["org%2fsmall-gguf", "small"],
      ["org%2FSmall-GGUF:q4_k_m", "small"],
      ["hf.co%2Forg%2FSmall-GGUF:Q4_K_M", "small"],
      ["org%2FOther-GGUF%3AQ8_0", "small-8"],
      ["tiny", "tiny"],
      ["org%2FTiny-GGUF", "tiny"],
      ["org%2FTiny-GGUF:Q8_0", "tiny"],
      ["my.Own_model", "my.Own_model"],
      ["with%20space%20(1)", "with space (1)"],
    ]) {
      const response = await get(`/${id}`);
      expect([id, response.statusCode]).toEqual([id, 200]);
      expect([id, response.json().name]).toEqual([id, name]);
    }
  });

  it("returns 409 if several models match, and 404 if none does", async () => {
    putModel(api.store, "small-8", { source: "org/Other-GGUF", quantization: "Q8_0" });
    putModel(api.store, "other", { source: "org/Other-GGUF", quantization: "Q4_0" });
    const several = await get("/org%2FOther-GGUF");
    expect(several.statusCode).toBe(409);
    expect(readErrorBody(several)).toBe(
      "org/Other-GGUF is the repository of several models: other, small-8. Use the name of one of these models.",
    );
    for (const id of ["org%2FNew", "org%2FOther-GGUF:Q2_K", "nobody"]) {
      expect([id, (await get(`/${id}`)).statusCode]).toEqual([id, 404]);
    }
    expect(readErrorBody(await get("/tinny"))).toContain('Did you mean "tiny"?');
    for (const id of ["..%2f..%2fetc", "a%2Fb%2Fc", "org%2F", "%20", "%2Fetc%2Fpasswd", "a%00b"]) {
      expect([id, (await get(`/${id}`)).statusCode]).toEqual([id, 400]);
    }
  });

  it("returns the spec, conditions, files, owners and events of the model", async () => {
    putModel(api.store, "small", { source: "org/small", running: true }, "file:small.yaml");
    setModelStatus(api.store, "small", runningStatus);
    const event = { kind: "Model", name: "small", type: "Normal", reason: "Loaded" } as const;
    api.store.events.record({ ...event, message: "it is in memory" });
    const details = (await get("/small")).json();
    expect(details).toMatchObject({
      managed_by: "file:small.yaml",
      spec: { source: "org/small", running: true },
      conditions: [{ type: "Ready", status: "True", observed_generation: 1 }, {}, {}],
      files: [{ name: "small-q4_k_m.gguf", size_bytes: 4000, sha256: "ab".repeat(32) }],
      memory: { loaded_bytes: 8000, wanted_bytes: 9000, least_bytes: 5000 },
      sequences: 4,
      owners: { "/spec/source": "file:small.yaml" },
      events: [{ message: "it is in memory" }],
    });
    api.control.assistantModels = [own];
    expect((await get(`/${own.id}`)).json()).toMatchObject({
      spec: null,
      files: [{ name: "my.Own_model.gguf", size_bytes: 77, sha256: null }],
    });
    expect((await get("/tiny")).json()).toMatchObject({
      origin: "catalog",
      spec: { source: "org/Tiny-GGUF" },
      files: [],
    });
  });

  it("returns the plan of the model, even if there is no Model resource for it", async () => {
    putModel(api.store, "small");
    api.control.modelPlan = { blockedBy: "no room" };
    expect((await get("/small/plan")).json()).toEqual({
      model: "small",
      generation: 1,
      operations: [{ operation: "download", target: "small", cause: "not on disk" }],
      changes: [],
      blocked_by: "no room",
    });
    expect((await get("/org%2FTiny-GGUF/plan")).json().model).toBe("tiny");
    expect(api.control.plannedModels.at(-1)).toEqual({ name: "tiny", spec: catalog[0]?.spec });
    expect((await get("/nobody/plan")).statusCode).toBe(404);
  });
});

describe("manifests of models", () => {
  it("are returned with their plans on a dry run", async () => {
    const manifest = modelManifest("small", { source: "org/small", running: true });
    const { results } = (await apply([manifest], "?dry_run=true")).json();
    expect(results).toMatchObject([
      { kind: "Model", action: "created", plan: null, model_plan: { model: "small" } },
    ]);
    expect(api.store.list("Model")).toEqual([]);
  });

  it("may name files of the server only with the scope admin", async () => {
    const local = modelManifest("local", { source: "/srv/model.gguf" });
    const refused = await apply([local], "", "write");
    expect(refused.statusCode).toBe(403);
    expect(readErrorBody(refused)).toContain("scope admin");
    expect(
      (await apply([modelManifest("small", { source: "org/s" })], "", "write")).statusCode,
    ).toBe(200);
    expect((await apply([local])).statusCode).toBe(200);
    expect((await apply([local], "", "write")).statusCode).toBe(200);
  });

  it("may name a file as chat template only with the scope admin; its text needs no more than write", async () => {
    const source = "org/s";
    const file = modelManifest("small", { source, chatTemplate: "/etc/shadow" });
    const refused = await apply([file], "", "write");
    expect(refused.statusCode).toBe(403);
    expect(readErrorBody(refused)).toContain("spec.chatTemplate");
    const text = modelManifest("small", { source, chatTemplate: "{{ messages[0].content }}" });
    expect((await apply([text], "", "write")).statusCode).toBe(200);
    expect((await apply([file])).statusCode).toBe(200);
  });
});
