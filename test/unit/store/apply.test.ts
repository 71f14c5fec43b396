import * as fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { ConflictError, InvalidSpecError } from "../../../src/base/errors.ts";
import {
  APP_FINALIZER,
  MODEL_FINALIZER,
  ORIGIN_ANNOTATION,
  RESTARTED_AT_ANNOTATION,
} from "../../../src/resources/resource.ts";
import { flattenFields } from "../../../src/store/field-leaves.ts";
import type { ApplyIntent, Store } from "../../../src/store/store.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { openTestStore, type TestStore } from "../../support/test-store.ts";

function open(): TestStore {
  const harness = openTestStore();
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

type Fields = Partial<ApplyIntent<"App">>;

function app(name: string, manager: string, spec: ApplyIntent["spec"], more: Fields = {}) {
  const isFile = manager.startsWith("file:");
  const intent: ApplyIntent<"App"> = {
    kind: "App",
    name,
    manager,
    actor: { name: isFile ? manager : "user:admin" },
    mode: isFile ? "replace" : "merge",
    declares: isFile,
    spec,
    ...more,
  };
  return intent;
}

const snapshot = (store: Store) => ({
  sequence: store.lastSequence,
  web: store.get("App", "web"),
  audit: store.audit.list({ limit: 1000 }),
});

describe("apply: one manager sets an image and another one sets a source", () => {
  const source = { git: { url: "https://example.org/a.git" } };

  it("the error names the manager that has set the source, and the file is accepted once the source is replaced", () => {
    const { store } = open();
    store.apply(app("web", "api", { source, port: 80 }));
    const file = app("web", "file:web.yaml", { image: "nginx:1", port: 80 });
    const error = catchBerthError(() => store.apply(file));
    expect(error).toBeInstanceOf(InvalidSpecError);
    expect(error.message).toBe(
      'app "web" has a source, which api has set, and cannot have an image too; replace the source first: berth deploy web --image IMAGE',
    );
    expect(error.details).toMatchObject({ issues: [{ path: "/spec/image" }] });
    store.apply(app("web", "api", { image: "nginx:1", source: null, build: null }));
    expect(store.apply(file).resource.spec).toEqual({ image: "nginx:1", port: 80 });
  });

  it("the error names the file that has set the image", () => {
    const { store } = open();
    store.apply(app("web", "file:web.yaml", { image: "nginx:1" }));
    const error = catchBerthError(() => store.apply(app("web", "api", { source })));
    expect(error.message).toContain("an image, which the file web.yaml has set");
  });
});

const origin = (value: string | null) =>
  value === null ? {} : { annotations: { [ORIGIN_ANNOTATION]: value } };

const madeBy = (manager: string, image: string, made: string | null, more: Fields = {}) =>
  app("db", manager, { image }, { mode: "replace", ...origin(made), ...more });

describe("apply: an app that an import, a template, a file or a user has made", () => {
  it("cannot be taken over by another import, template or document, and the error names the import or template", () => {
    const { store } = open();
    store.apply(madeBy("cli", "mysql:8", "import:blog"));
    const before = store.get("App", "db");
    for (const intent of [
      madeBy("cli", "postgres:17", "import:shop"),
      madeBy("api", "postgres:17", "template:wiki"),
      madeBy("api", "postgres:17", null),
      madeBy("file:db.yaml", "postgres:17", "import:shop"),
      app("db", "file:db.yaml", { image: "postgres:17" }),
      madeBy("cli", "postgres:17", "import:shop", { force: true }),
    ]) {
      const error = catchBerthError(() => store.apply(intent));
      expect(error).toMatchObject({
        code: "conflict",
        message: "App db was made by the import of the project blog",
      });
      expect(error.details).toMatchObject({ origin: "import:blog" });
    }
    expect(store.get("App", "db")).toEqual(before);
  });

  it("can be changed by the import that made it, by patches, and by a file with the annotation for that import", () => {
    const { store } = open();
    store.apply(madeBy("cli", "mysql:8", "import:blog"));
    store.apply(madeBy("cli", "mysql:9", "import:blog"));
    store.apply(app("db", "api", { replicas: 2 }));
    store.apply(madeBy("file:db.yaml", "mysql:9", "import:blog"));
    expect(store.get("App", "db")?.spec).toEqual({ image: "mysql:9", replicas: 2 });
  });

  it("is taken over as a whole if the request names it as an app to take over", () => {
    const { store } = open();
    store.apply(
      app(
        "db",
        "api",
        { image: "mysql:8", command: ["--old"] },
        { mode: "replace", ...origin("template:a") },
      ),
    );
    store.apply(madeBy("cli", "postgres:17", "import:shop", { takeOver: true }));
    expect(store.get("App", "db")).toMatchObject({
      spec: { image: "postgres:17" },
      metadata: { annotations: { [ORIGIN_ANNOTATION]: "import:shop" } },
    });
    expect(store.get("App", "db")?.spec).not.toHaveProperty("command");
  });

  it("is not taken over by an import if a user or a file has made it", () => {
    const { store } = open();
    store.apply(madeBy("api", "mysql:8", null));
    expect(catchBerthError(() => store.apply(madeBy("cli", "x:1", "import:shop"))).message).toBe(
      "App db was made by hand",
    );
    store.apply(app("web", "file:web.yaml", { image: "a:1" }));
    const taken = app("web", "cli", { image: "a:2" }, { mode: "replace", ...origin("import:x") });
    expect(catchBerthError(() => store.apply(taken)).message).toBe(
      "App web is declared by the file web.yaml",
    );
    store.apply(app("web", "file:web.yaml", { image: "a:2" }, origin("import:mine")));
  });
});

describe("apply: a new resource", () => {
  it("has generation 1, a finalizer if it is an App or a Model, and no status", () => {
    const { store } = open();
    const { resource, created, changes } = store.apply(
      app("web", "file:web.yaml", { image: "nginx:1" }, { labels: { team: "a" } }),
    );
    expect(created).toBe(true);
    expect(changes).toEqual([
      { path: "/metadata/labels/team", before: undefined, after: "a" },
      { path: "/spec/image", before: undefined, after: "nginx:1" },
    ]);
    expect(resource).toMatchObject({
      apiVersion: "berth.dev/v1",
      kind: "App",
      spec: { image: "nginx:1" },
      status: null,
      metadata: {
        name: "web",
        generation: 1,
        resourceVersion: 1,
        labels: { team: "a" },
        annotations: {},
        finalizers: [APP_FINALIZER],
        deletionTimestamp: null,
        creationTimestamp: "2030-01-01T00:00:00.000Z",
        owners: { "/spec/image": "file:web.yaml", "/metadata/labels/team": "file:web.yaml" },
        managers: { "file:web.yaml": { declares: true, yielded: [] } },
      },
    });
    expect(resource.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(store.get("App", "web")).toEqual(resource);
    const model = store.apply({ ...app("m", "api", { source: "org/m" }), kind: "Model" });
    expect(model.resource.metadata.finalizers).toEqual([MODEL_FINALIZER]);
  });

  it("is the same after the store has been opened again", async () => {
    const harness = open();
    const { resource } = harness.store.apply(
      app("web", "api", { image: "nginx:1", env: { "A.b": "1" } }),
    );
    const reopened = await harness.reopen();
    expect(reopened.get("App", "web")).toEqual(resource);
    expect(reopened.instanceId).toMatch(/^[0-9a-f]{8}$/);
  });

  it("is refused with createOnly if the name is in use", () => {
    const { store } = open();
    store.apply(app("web", "api", { image: "a" }, { createOnly: true }));
    const error = catchBerthError(() =>
      store.apply(app("web", "api", { image: "b" }, { createOnly: true })),
    );
    expect(error).toMatchObject({ code: "name_taken", message: "App web exists already" });
    expect(store.get("App", "web")?.spec.image).toBe("a");
  });

  it("is not created with updateOnly", () => {
    const { store } = open();
    const error = catchBerthError(() => store.apply(app("web", "api", {}, { updateOnly: true })));
    expect(error.code).toBe("not_found");
    expect(store.lastSequence).toBe(0);
  });
});

describe("apply: what counts as a change", () => {
  it("applying an identical document writes nothing", async () => {
    const { store, clock } = open();
    const intent = app("web", "file:web.yaml", { image: "nginx:1", env: { A: "1", B: "2" } });
    store.apply(intent);
    const before = snapshot(store);
    await clock.advance(5_000);
    const again = store.apply({ ...intent, spec: { env: { B: "2", A: "1" }, image: "nginx:1" } });
    expect(again).toMatchObject({ created: false, changes: [], yielded: [] });
    expect(again.resource).toEqual(before.web);
    expect(snapshot(store)).toEqual(before);
  });

  it("a patch with the current values changes nothing", () => {
    const { store } = open();
    store.apply(app("web", "api", { image: "nginx:1", running: true }));
    const before = snapshot(store);
    store.apply(app("web", "api", { running: true }));
    expect(snapshot(store)).toEqual(before);
  });

  it("only changes of the spec and of Berth's own annotations increment the generation", () => {
    const { store } = open();
    const generation = () => store.get("App", "web")?.metadata.generation;
    store.apply(app("web", "api", { image: "nginx:1" }));
    store.apply(app("web", "api", {}, { labels: { team: "a" }, annotations: { note: "x" } }));
    expect(generation()).toBe(1);
    store.apply(app("web", "api", {}, { annotations: { [RESTARTED_AT_ANNOTATION]: "now" } }));
    expect(generation()).toBe(2);
    store.apply(app("web", "api", { replicas: 2 }));
    expect(generation()).toBe(3);
    store.apply(app("web", "api", {}, { labels: { team: null }, annotations: { note: null } }));
    expect(generation()).toBe(3);
    expect(store.get("App", "web")?.metadata).toMatchObject({
      labels: {},
      annotations: { [RESTARTED_AT_ANNOTATION]: "now" },
      resourceVersion: 5,
    });
  });

  it("a new owner of an unchanged field increments the resourceVersion and not the generation", () => {
    const { store } = open();
    store.apply(app("web", "api", { image: "a" }));
    const { resource, changes } = store.apply(app("web", "file:web.yaml", { image: "a" }));
    expect(changes).toEqual([]);
    expect(resource.metadata).toMatchObject({
      generation: 1,
      resourceVersion: 2,
      owners: { "/spec/image": "file:web.yaml" },
    });
  });

  it("a dry run returns the result and writes nothing", () => {
    const { store } = open();
    store.apply(app("web", "api", { image: "a" }));
    const before = snapshot(store);
    const dry = store.apply(app("web", "api", { image: "b" }, { dryRun: true }));
    expect(dry.changes).toEqual([{ path: "/spec/image", before: "a", after: "b" }]);
    expect(dry.resource.spec.image).toBe("b");
    expect(dry.resource.metadata.generation).toBe(2);
    const fresh = store.apply(app("other", "api", { image: "b" }, { dryRun: true }));
    expect(fresh.created).toBe(true);
    expect(store.get("App", "other")).toBeUndefined();
    expect(snapshot(store)).toEqual(before);
  });

  it("later changes to the caller's objects do not affect the store", () => {
    const { store } = open();
    const command = ["a"];
    store.apply(app("web", "api", { image: "a", command }));
    command.push("b");
    expect(store.get("App", "web")?.spec.command).toEqual(["a"]);
    const shown = store.get("App", "web");
    expect(() => shown?.spec.command?.push("c")).toThrow(TypeError);
  });
});

describe("apply: fields of a file", () => {
  it("cannot be changed by other managers; the error names the field, the file and a remedy", () => {
    const { store } = open();
    store.apply(app("web", "file:apps/web.yaml", { image: "a", port: 80, env: { A: "1" } }));
    const before = snapshot(store);
    const error = catchBerthError(() =>
      store.apply(app("web", "api", { image: "b", env: { A: "2" }, running: false })),
    );
    expect(error).toBeInstanceOf(ConflictError);
    expect(error.code).toBe("field_owned");
    expect(error.message).toBe("App web: spec.env.A, spec.image are set by the file apps/web.yaml");
    expect(error.hint).toContain("?force=true");
    expect(error.details).toEqual({
      fields: [
        { path: "/spec/env/A", manager: "file:apps/web.yaml" },
        { path: "/spec/image", manager: "file:apps/web.yaml" },
      ],
    });
    expect(snapshot(store)).toEqual(before);
  });

  it("do not include the fields that the file omits, which the API may change", () => {
    const { store } = open();
    store.apply(app("web", "file:web.yaml", { image: "a" }));
    const { resource } = store.apply(app("web", "api", { running: false }));
    expect(resource.spec).toEqual({ image: "a", running: false });
    const again = store.apply(app("web", "file:web.yaml", { image: "a2" }));
    expect(again.resource.spec).toEqual({ image: "a2", running: false });
  });

  it("that the API has overridden with force keep the API's value until the file changes, even after a restart", async () => {
    const harness = open();
    const document = { image: "a", port: 80 };
    harness.store.apply(app("web", "file:web.yaml", document));
    harness.store.apply(app("web", "api", { image: "b" }, { force: true }));
    await harness.reopen();
    const same = harness.store.apply(app("web", "file:web.yaml", document));
    expect(same.yielded).toEqual(["/spec/image"]);
    expect(same.changes).toEqual([]);
    expect(same.resource.spec.image).toBe("b");
    expect(same.resource.metadata.managers["file:web.yaml"]?.yielded).toEqual(["/spec/image"]);
    const changed = harness.store.apply(app("web", "file:web.yaml", { ...document, port: 81 }));
    expect(changed.yielded).toEqual([]);
    expect(changed.resource.spec).toEqual({ image: "a", port: 81 });
    expect(changed.resource.metadata.owners).toEqual({
      "/spec/image": "file:web.yaml",
      "/spec/port": "file:web.yaml",
    });
  });

  it("belong to one file: another file that declares the same resource is refused", () => {
    const { store } = open();
    store.apply(app("web", "file:a.yaml", { image: "a" }));
    const error = catchBerthError(() => store.apply(app("web", "file:b.yaml", { image: "a" })));
    expect(error).toMatchObject({
      code: "conflict",
      message: "App web is declared by the file a.yaml already",
    });
    expect(store.listDeclared("file:")).toEqual(
      new Map([["file:a.yaml", [{ kind: "App", name: "web" }]]]),
    );
  });

  it("move with the file when it is renamed", () => {
    const { store } = open();
    store.apply(app("web", "file:a.yaml", { image: "a", port: 80 }));
    const moved = store.apply(
      app("web", "file:b.yaml", { image: "a", port: 80 }, { takeOverFrom: ["file:a.yaml"] }),
    );
    expect(moved.changes).toEqual([]);
    expect(moved.resource.metadata.generation).toBe(1);
    expect([...store.listDeclared("file:").keys()]).toEqual(["file:b.yaml"]);
  });

  it("keep their values when the file releases them, and then any manager may change them", () => {
    const { store } = open();
    store.apply(app("web", "file:a.yaml", { image: "a" }));
    store.releaseManager("App", "web", "file:a.yaml");
    expect(store.get("App", "web")).toMatchObject({
      spec: { image: "a" },
      metadata: { owners: {}, managers: {}, generation: 1, resourceVersion: 2 },
    });
    expect(store.listDeclared("file:").size).toBe(0);
    expect(store.apply(app("web", "api", { image: "b" })).resource.spec.image).toBe("b");
    const sequence = store.lastSequence;
    store.releaseManager("App", "web", "file:a.yaml");
    store.releaseManager("App", "gone", "file:a.yaml");
    expect(store.lastSequence).toBe(sequence);
  });
});

describe("apply: invalid input", () => {
  const bad: readonly [string, ApplyIntent<"App">, RegExp][] = [
    ["an unknown key", app("web", "api", { image: "a", prot: 80 }), /prot/],
    ["a wrong type", app("web", "api", { image: "a", port: "eighty" }), /spec\.port/],
    ["a bad name", app("../etc", "api", { image: "a" }), /name/],
    ["a bad label", app("web", "api", { image: "a" }, { labels: { "a b": "c" } }), /a b/],
    ["a forbidden key", app("web", "api", JSON.parse('{"env":{"__proto__":"x"}}')), /__proto__/],
    ["a list for a spec", app("web", "api", JSON.parse("[1]")), /mapping/],
    ["a bottomless value", app("web", "api", { env: nested(100) }), /deeper than/],
    ["null in a replace", app("web", "cli", { image: null }, { mode: "replace" }), /image/],
  ];

  it.each(bad)("%s is refused, and nothing is written", (_, intent, message) => {
    const { store } = open();
    const error = catchBerthError(() => store.apply(intent));
    expect(error).toBeInstanceOf(InvalidSpecError);
    expect(error.message).toMatch(message);
    expect(store.lastSequence).toBe(0);
    expect(store.list("App")).toEqual([]);
    expect(store.audit.list({ limit: 10 })).toEqual([]);
  });

  it("a patch is validated by the spec that it produces", () => {
    const { store } = open();
    store.apply({ ...app("m", "api", { source: "org/m" }), kind: "Model" });
    const error = catchBerthError(() =>
      store.apply({ ...app("m", "api", { source: null }), kind: "Model" }),
    );
    expect(error).toBeInstanceOf(InvalidSpecError);
    expect(store.get("Model", "m")?.spec.source).toBe("org/m");
  });
});

describe("a list of resources in the store", () => {
  it("is sorted by name, and filtered by labels on request", () => {
    const { store } = open();
    for (const [name, team] of [
      ["c", "x"],
      ["a", "x"],
      ["b", "y"],
    ] as const) {
      store.apply(app(name, "api", { image: "i" }, { labels: { team, all: "1" } }));
    }
    const names = (labels?: Record<string, string>) =>
      store.list("App", labels ? { labels } : {}).map((one) => one.metadata.name);
    expect(names()).toEqual(["a", "b", "c"]);
    expect(names({ team: "x" })).toEqual(["a", "c"]);
    expect(names({ team: "x", all: "2" })).toEqual([]);
    expect(store.list("Model")).toEqual([]);
    store.apply(app("aa", "api", { image: "i" }));
    expect(names()).toEqual(["a", "aa", "b", "c"]);
  });
});

describe("apply, for any order of writes", () => {
  const spec = fc.record(
    {
      image: fc.constantFrom("a", "b"),
      replicas: fc.integer({ min: 1, max: 3 }),
      running: fc.boolean(),
      env: fc.dictionary(fc.constantFrom("A", "B", "C"), fc.constantFrom("1", "2")),
      command: fc.array(fc.constantFrom("x", "y"), { maxLength: 2 }),
    },
    { requiredKeys: [] },
  );
  const step = fc.record({
    manager: fc.constantFrom("file:1.yaml", "api", "cli"),
    spec,
    force: fc.boolean(),
    mode: fc.constantFrom("replace" as const, "merge" as const),
  });

  it("the owned fields are the leaves of the spec, generations count changes of the spec, and a restart changes nothing", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        await using harness = openTestStore();
        for (const one of steps) {
          const mode = one.manager === "file:1.yaml" ? "replace" : one.mode;
          const before = harness.store.get("App", "web");
          const sequence = harness.store.lastSequence;
          const result = accepted(() =>
            harness.store.apply(app("web", one.manager, one.spec, { force: one.force, mode })),
          );
          const after = harness.store.get("App", "web");
          const specChanged = result?.changes.some(({ path }) => path.startsWith("/spec/"));
          const bumped = specChanged || (result && !before) ? 1 : 0;
          expect(after?.metadata.generation ?? 0).toBe((before?.metadata.generation ?? 0) + bumped);
          const wrote = after?.metadata.resourceVersion !== before?.metadata.resourceVersion;
          expect(harness.store.lastSequence).toBe(wrote ? sequence + 1 : sequence);
          // A refused write changes nothing.
          expect(after).toEqual(wrote ? result?.resource : before);
          const leaves = flattenFields({ spec: after?.spec ?? {}, labels: {}, annotations: {} });
          expect(Object.keys(after?.metadata.owners ?? {}).toSorted()).toEqual(
            [...leaves.keys()].toSorted(),
          );
        }
        const end = harness.store.get("App", "web");
        expect((await harness.reopen()).get("App", "web")).toEqual(end);
      }),
      { numRuns: 60 },
    );
  });
});

/** Returns the result of a write, or undefined if the store refused the write as a conflict or as invalid. */
function accepted<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof ConflictError || error instanceof InvalidSpecError) return undefined;
    throw error;
  }
}

function nested(depth: number): Record<string, unknown> {
  return depth === 0 ? {} : { a: nested(depth - 1) };
}
