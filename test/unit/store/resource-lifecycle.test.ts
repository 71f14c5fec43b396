import { describe, expect, it, onTestFinished } from "vitest";
import { type AppStatus, emptyReconcileState } from "../../../src/resources/app-status.ts";
import { APP_FINALIZER, VOLUME_POLICY_ANNOTATION } from "../../../src/resources/resource.ts";
import type { ApplyIntent, DeleteIntent, Store } from "../../../src/store/store.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

const actor = { name: "user:admin", requestId: "r-1" };
const byApi: DeleteIntent = { actor, manager: "api" };

function open(): TestStore {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

function makeApp(store: Store, name: string, manager = "api", more: Partial<ApplyIntent> = {}) {
  return store.apply({
    kind: "App",
    name,
    manager,
    actor,
    mode: "replace",
    spec: { image: "nginx:1" },
    declares: manager.startsWith("file:"),
    ...more,
  }).resource;
}

const status = (phase: AppStatus["phase"]): AppStatus => ({
  phase,
  observedGeneration: 1,
  conditions: [],
  revisions: { attempted: 1, applied: null, stable: null },
  containers: [],
  url: null,
  nextRetryAt: null,
  restarts: 0,
  memory: emptyReconcileState,
});

describe("a deletion in the store", () => {
  it("marks an App; removing its last finalizer then deletes the App and everything that belongs to it", async () => {
    const { store, clock } = open();
    const made = makeApp(store, "web");
    store.setStatus("App", "web", made.metadata.uid, status("running"));
    const revision = {
      app: "web",
      generation: 1,
      specHash: "h",
      spec: { image: "nginx:1" },
      image: null,
      imageId: null,
    };
    store.revisions.ensure(revision);
    const port = store.ports.lease("web", 0, 80);
    store.addresses.lease("web", 0);
    await clock.advance(1_000);
    const deleted = store.delete("App", "web", byApi);
    expect(deleted.metadata).toMatchObject({
      deletionTimestamp: "2030-01-01T00:00:01.000Z",
      finalizers: [APP_FINALIZER],
      generation: 1,
    });
    expect(store.get("App", "web")).toEqual(deleted);
    expect(catchBerthError(() => makeApp(store, "web")).code).toBe("conflict");

    store.removeFinalizer("App", "web", "of/somebody-else");
    expect(store.get("App", "web")).toEqual(deleted);
    store.removeFinalizer("App", "web", APP_FINALIZER);
    expect(store.get("App", "web")).toBeUndefined();
    expect(store.list("App")).toEqual([]);
    expect(store.revisions.list("web")).toEqual([]);
    const others = Array.from({ length: 12_000 }, (_, index) => 20_000 + index);
    const free = others.filter((other) => other !== port);
    expect(store.ports.lease("other", 0, 80, free)).toBe(port);
    expect(store.addresses.get("web", 0)).toBeUndefined();
    store.ports.release("other");
    expect(store.changesSince(0, 100)?.map((change) => change.type)).toEqual([
      "added",
      "status",
      "modified",
      "deleted",
    ]);
    store.removeFinalizer("App", "web", APP_FINALIZER);

    const again = makeApp(store, "web");
    expect(again.metadata.uid).not.toBe(made.metadata.uid);
    expect(again.metadata.generation).toBe(1);
    expect(again.status).toBeNull();
    expect(store.revisions.ensure(revision).number).toBe(1);
    expect(store.ports.lease("web", 0, 80)).toBe(port);
  });

  it("removes a resource without a finalizer immediately", () => {
    const { store } = open();
    store.apply({
      kind: "Secret",
      name: "s",
      manager: "api",
      actor,
      mode: "replace",
      spec: { data: { A: "x" } },
    });
    const gone = store.delete("Secret", "s", byApi);
    expect(gone.metadata.deletionTimestamp).not.toBeNull();
    expect(gone.metadata.resourceVersion).toBe(store.lastSequence);
    expect(store.get("Secret", "s")).toBeUndefined();
    expect(store.secrets.reveal("s")).toBeUndefined();
  });

  it("changes nothing when it is repeated, unless it adds the deletion of volumes", () => {
    const { store } = open();
    makeApp(store, "web");
    store.delete("App", "web", byApi);
    const sequence = store.lastSequence;
    store.delete("App", "web", byApi);
    expect(store.lastSequence).toBe(sequence);
    const withVolumes = store.delete("App", "web", { ...byApi, deleteVolumes: true });
    expect(withVolumes.metadata.annotations[VOLUME_POLICY_ANNOTATION]).toBe("delete");
    expect(withVolumes.metadata.generation).toBe(2);
    expect(store.audit.list({ limit: 10 }).map((entry) => entry.action)).toEqual([
      "delete",
      "delete",
      "create",
    ]);
  });

  it("throws not_found for a missing resource", () => {
    const { store } = open();
    expect(catchBerthError(() => store.delete("App", "web", byApi)).code).toBe("not_found");
  });

  it("of a resource that a file declares is possible only for that file, or with force", () => {
    const { store } = open();
    makeApp(store, "web", "file:apps/web.yaml");
    expect(catchBerthError(() => store.delete("App", "web", byApi))).toMatchObject({
      code: "field_owned",
      message: "App web is declared by the file apps/web.yaml",
      hint: expect.stringContaining("?force=true"),
    });
    expect(store.get("App", "web")?.metadata.deletionTimestamp).toBeNull();
    const byFile = { actor, manager: "file:apps/web.yaml" };
    expect(store.delete("App", "web", byFile).metadata.deletionTimestamp).not.toBeNull();
    makeApp(store, "two", "file:two.yaml");
    const forced = store.delete("App", "two", { ...byApi, force: true });
    expect(forced.metadata.deletionTimestamp).not.toBeNull();
  });

  it("changes nothing in a dry run", () => {
    const { store } = open();
    const made = makeApp(store, "web");
    const dry = store.delete("App", "web", { ...byApi, dryRun: true });
    expect(dry.metadata.deletionTimestamp).not.toBeNull();
    expect(store.get("App", "web")).toEqual(made);
    expect(store.audit.list({ limit: 10 })).toHaveLength(1);
  });
});

describe("removeFinalizer", () => {
  it("removes only the finalizer if the resource is not being deleted", () => {
    const { store } = open();
    makeApp(store, "web");
    store.removeFinalizer("App", "web", APP_FINALIZER);
    expect(store.get("App", "web")?.metadata.finalizers).toEqual([]);
  });
});

describe("setStatus", () => {
  it("writes a changed status with a new resourceVersion and the same generation", () => {
    const { store } = open();
    const { uid } = makeApp(store, "web").metadata;
    store.setStatus("App", "web", uid, status("pending"));
    expect(store.get("App", "web")).toMatchObject({
      status: { phase: "pending" },
      metadata: { generation: 1, resourceVersion: 2 },
    });
    store.setStatus("App", "web", uid, { ...status("pending") });
    expect(store.lastSequence).toBe(2);
    store.setStatus("App", "web", uid, status("running"));
    expect(store.get("App", "web")?.status?.phase).toBe("running");
    expect(store.changesSince(2, 10)).toMatchObject([{ type: "status", name: "web", sequence: 3 }]);
    expect(store.audit.list({ limit: 10 })).toHaveLength(1);
  });

  it("does nothing if the resource no longer exists, or if a new resource has its name", () => {
    const { store } = open();
    const { uid } = makeApp(store, "web").metadata;
    store.setStatus("App", "gone", uid, status("running"));
    store.setStatus("App", "web", "another-uid", status("running"));
    expect(store.get("App", "web")?.status).toBeNull();
    expect(store.lastSequence).toBe(1);
  });

  it("writes a status that stays unchanged when the spec changes", () => {
    const { store } = open();
    const { uid } = makeApp(store, "web").metadata;
    store.setStatus("App", "web", uid, status("running"));
    makeApp(store, "web", "api", { spec: { image: "nginx:2" } });
    expect(store.get("App", "web")?.status?.phase).toBe("running");
  });
});

describe("listDeclared", () => {
  it("lists the resources that each file currently declares", () => {
    const { store } = open();
    makeApp(store, "b", "file:apps/x.yaml");
    makeApp(store, "a", "file:apps/x.yaml");
    makeApp(store, "c", "file:other.yaml");
    makeApp(store, "d", "api");
    expect(store.listDeclared("file:")).toEqual(
      new Map([
        [
          "file:apps/x.yaml",
          [
            { kind: "App", name: "a" },
            { kind: "App", name: "b" },
          ],
        ],
        ["file:other.yaml", [{ kind: "App", name: "c" }]],
      ]),
    );
    expect([...store.listDeclared("file:apps/").keys()]).toEqual(["file:apps/x.yaml"]);
  });
});
