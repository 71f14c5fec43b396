import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { quarantineDigest } from "../../../../src/controller/apps/app-inputs.ts";
import { AppReferences } from "../../../../src/controller/apps/app-references.ts";
import { buildDesiredApp } from "../../../../src/controller/apps/desired-app.ts";
import { findPendingModel } from "../../../../src/controller/apps/model-inputs.ts";
import { resolveApp } from "../../../../src/controller/apps/resolve-app.ts";
import { revisionHash } from "../../../../src/controller/apps/revision-hash.ts";
import {
  type ContainerListenerStatus,
  defaultContainerListener,
} from "../../../../src/controller/models/container-listener.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { emptyReconcileState } from "../../../../src/resources/app-status.ts";
import {
  emptyModelReconcileState,
  type ModelPhase,
} from "../../../../src/resources/model-status.ts";
import { appResource } from "../../../support/app-resource.ts";
import { applyResource, openTestStore, type TestStore } from "../../../support/test-store.ts";

function desired(spec: AppSpec, modelsPort?: number) {
  return buildDesiredApp({
    instance: "0123abcd",
    resource: appResource("web", spec, { generation: 3 }),
    spec,
    image: { reference: spec.image ?? "", id: null, digest: null },
    ingress: { mode: "process", reachability: "address" },
    revealSecret: () => "from a secret",
    loopbackPort: () => 0,
    ...(modelsPort === undefined ? {} : { modelsPort }),
  });
}

const envOf = (spec: AppSpec, port?: number) => desired(spec, port).containers[0]?.env;

const plain: AppSpec = {
  image: "web:1",
  port: 8080,
  env: { A: "1", OPENAI_BASE_URL: "https://api.example.org/v1" },
  dependsOn: ["db"],
  volumes: [{ name: "data", path: "/data" }],
};

describe("the environment variables that containers get for models", () => {
  it("contain the URL, a key, and the names of the models", () => {
    const [container] = desired({ image: "web:1", models: ["chat", "embed"] }).containers;
    expect(container?.env).toEqual([
      "OPENAI_BASE_URL=http://models.berth.internal:7777/v1",
      "OPENAI_API_KEY=berth",
      "OPENAI_MODEL=chat",
      "BERTH_MODELS=chat,embed",
    ]);
    expect(container?.hostAliases).toEqual(["models.berth.internal"]);
  });

  it("never override variables that the spec sets", () => {
    const env = {
      OPENAI_BASE_URL: "https://api.example.org/v1",
      OPENAI_API_KEY: { secret: "openai" },
      OPENAI_MODEL: "",
    };
    expect(envOf({ image: "web:1", models: ["chat"], env })).toEqual([
      "OPENAI_BASE_URL=https://api.example.org/v1",
      "OPENAI_API_KEY=from a secret",
      "OPENAI_MODEL=",
      "BERTH_MODELS=chat",
    ]);
  });

  it("are listed after the variable PORT if the image was built from source", () => {
    const spec: AppSpec = { source: { archive: "0".repeat(64) }, port: 80, models: ["chat"] };
    expect(envOf(spec)?.[0]).toBe("PORT=80");
  });

  it("change with the port of the endpoint", () => {
    const spec = { image: "web:1", models: ["chat"] };
    expect(envOf(spec, 7790)?.[0]).toBe("OPENAI_BASE_URL=http://models.berth.internal:7790/v1");
    expect(desired(spec, 7790).hash).not.toBe(desired(spec).hash);
  });
});

describe("an App without models", () => {
  it("keeps the containers and revisions that versions of Berth without models have created", () => {
    // The expected values come from the last version of Berth in which Apps could not name models.
    const before = {
      hash: "a60e7836d687a3c5",
      version: "9f983821d3543a4d",
      revision: "9b525ce0f21569af",
      quarantine: "ef22d5ec26261266",
    };
    const cases: readonly (readonly [AppSpec, number | undefined])[] = [
      [plain, undefined],
      [plain, 7790],
      [{ ...plain, models: [] }, undefined],
    ];
    for (const [spec, port] of cases) {
      const app = desired(spec, port);
      expect({
        hash: app.hash,
        version: app.version,
        revision: revisionHash(spec, null, null),
        quarantine: quarantineDigest(testStore.store, app, "Unhealthy"),
      }).toEqual(before);
      expect(app.containers[0]).not.toHaveProperty("hostAliases");
      expect(envOf(spec)).toEqual(["A=1", "OPENAI_BASE_URL=https://api.example.org/v1"]);
    }
  });
});

const made = (models: string[], env: AppSpec["env"] = {}) => {
  const spec: AppSpec = { image: "web:1", models, env };
  const app = desired(spec);
  return {
    hash: app.hash,
    revision: revisionHash(spec, null, null),
    quarantine: quarantineDigest(testStore.store, app, "Unhealthy"),
  };
};

describe("a change of the models of an App", () => {
  it("replaces the containers and creates a revision if it changes the environment of the containers", () => {
    expect(made(["b"]).hash).not.toBe(made(["a"]).hash);
    expect(made(["b"]).revision).not.toBe(made(["a"]).revision);
    expect(made(["b", "a"]).revision).not.toBe(made(["a", "b"]).revision);
  });

  it("replaces no container if the spec itself sets all variables for models, but lets Berth retry a failed version", () => {
    const env = { OPENAI_BASE_URL: "u", OPENAI_API_KEY: "k", OPENAI_MODEL: "m", BERTH_MODELS: "m" };
    const [before, after] = [made(["a"], env), made(["b"], env)];
    expect(after.hash).toBe(before.hash);
    expect(after.revision).toBe(before.revision);
    expect(after.quarantine).not.toBe(before.quarantine);
  });
});

let testStore: TestStore;
beforeEach(() => {
  testStore = openTestStore();
});
afterEach(() => testStore[Symbol.asyncDispose]());

function putModel(name: string, running: boolean | undefined): void {
  applyResource(testStore.store, "Model", name, {
    source: "org/name",
    ...(running === undefined ? {} : { running }),
  });
}

function setPhase(name: string, phase: ModelPhase, message: string): void {
  const uid = testStore.store.get("Model", name)?.metadata.uid ?? "";
  testStore.store.setStatus("Model", name, uid, {
    phase,
    observedGeneration: 1,
    conditions: [
      {
        type: "Ready",
        status: "False",
        reason: "Any",
        message,
        lastTransitionTime: "2030-01-01T00:00:00.000Z",
        observedGeneration: 1,
      },
    ],
    commit: null,
    files: [],
    sizeBytes: null,
    downloadedBytes: 0,
    facts: null,
    loaded: null,
    nextRetryAt: null,
    memory: emptyModelReconcileState,
  });
}

const closedListener: ContainerListenerStatus = {
  port: 7777,
  getUnavailableReason: () => ({ reason: "ModelsOutOfReach", message: "no way" }),
};
const pending = (spec: AppSpec, door = defaultContainerListener) =>
  findPendingModel(testStore.store, spec, door);

describe("an App with models waits", () => {
  const spec: AppSpec = { image: "web:1", models: ["chat"] };

  it("for a model that does not exist", () => {
    expect(pending(spec)).toMatchObject({
      reason: "ModelNotFound",
      message: expect.stringContaining('needs model "chat", which does not exist'),
    });
  });

  it("for a model that has not been reconciled", () => {
    putModel("chat", true);
    expect(pending(spec)).toEqual({
      reason: "ModelNotReady",
      message: 'waits for model "chat": not reconciled yet',
    });
  });

  it.each([
    ["downloading", "downloading, 34 %"],
    ["starting", "being loaded into memory"],
    ["failed", "the file is damaged"],
    ["ready", "2 GiB of memory are missing"],
    ["stopping", "being unloaded from memory"],
  ] as const)("for a model that is %s, and reports the progress of the model", (phase, message) => {
    putModel("chat", true);
    setPhase("chat", phase, message);
    expect(pending(spec)).toEqual({
      reason: "ModelNotReady",
      message: `waits for model "chat": ${message}`,
    });
  });

  it.each([false, undefined])("for a model that is not started (running: %s)", (running) => {
    putModel("chat", running);
    setPhase("chat", "ready", "on the disk");
    expect(pending(spec)?.message).toContain("berth models start chat");
  });

  it("for a model that is being deleted, although the model still answers", () => {
    putModel("chat", true);
    setPhase("chat", "running", "answers");
    testStore.store.delete("Model", "chat", { actor: { name: "test" }, manager: "api" });
    expect(pending(spec)?.message).toMatch(/being deleted|not there/);
  });

  it("for all of its models, and reports one at a time", () => {
    putModel("chat", true);
    setPhase("chat", "running", "answers");
    expect(pending(spec)).toBeUndefined();
    expect(pending({ ...spec, models: ["chat", "embed"] })?.message).toContain('"embed"');
  });

  it("for the container listener, unless the spec sets the base URL", () => {
    putModel("chat", true);
    setPhase("chat", "running", "answers");
    expect(pending(spec, closedListener)).toEqual({
      reason: "ModelsOutOfReach",
      message: "no way",
    });
    const env = { OPENAI_BASE_URL: "https://api.example.org/v1" };
    expect(pending({ ...spec, env }, closedListener)).toBeUndefined();
    expect(pending({ image: "web:1" }, closedListener)).toBeUndefined();
  });
});

const resolved = (spec: AppSpec, modelDoor?: ContainerListenerStatus) =>
  resolveApp({
    store: testStore.store,
    resource: appResource("web", spec),
    memory: emptyReconcileState,
    ingress: { mode: "process", reachability: "address" },
    source: null,
    pin: null,
    serving: null,
    getLoopbackPort: () => 0,
    getAddressPair: () => undefined,
    ...(modelDoor ? { containerListener: modelDoor } : {}),
  });

describe("the resolution of an App with models", () => {
  it("returns the desired version even if the App waits for a missing model", () => {
    const { blocked, desired: app, refused } = resolved({ image: "web:1", models: ["chat"] });
    expect(refused).toBeNull();
    expect(blocked?.reason).toBe("ModelNotFound");
    expect(app?.containers[0]?.env).toContain("OPENAI_MODEL=chat");
  });

  it("puts the port of the container listener into the environment variables of the containers", () => {
    putModel("chat", true);
    setPhase("chat", "running", "answers");
    const { blocked, desired: app } = resolved(
      { image: "web:1", models: ["chat"] },
      { port: 7790, getUnavailableReason: () => null },
    );
    expect(blocked).toBeNull();
    expect(app?.containers[0]?.env[0]).toContain(":7790/");
  });

  it("reports a missing dependency before a missing model", () => {
    const { blocked } = resolved({ image: "web:1", models: ["chat"], dependsOn: ["db"] });
    expect(blocked?.reason).toBe("DependencyNotFound");
  });
});

it("the index of references lists the Apps that use a model", () => {
  const references = new AppReferences();
  references.update(appResource("web", { image: "web:1", models: ["chat", "embed"] }));
  references.update(appResource("worker", { image: "web:1", models: ["embed"] }));
  expect(references.usersOfModel("embed")).toEqual(["web", "worker"]);
  references.update(appResource("worker", { image: "web:1" }));
  expect(references.usersOfModel("embed")).toEqual(["web"]);
  references.remove("web");
  expect(references.usersOfModel("chat")).toEqual([]);
});
