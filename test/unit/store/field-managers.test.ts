import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, deepEqual, hashJson } from "../../../src/base/canonical-json.ts";
import { flattenFields, unflattenLeaves } from "../../../src/store/field-leaves.ts";
import {
  applyFields,
  type FieldOutcome,
  type FieldWrite,
  type Ownership,
  releaseFields,
} from "../../../src/store/field-managers.ts";

const NOTHING: Ownership = { leaves: new Map(), owners: {}, managers: {} };

type Spec = Readonly<Record<string, unknown>>;

function writeOf(manager: string, spec: Spec, more: Partial<FieldWrite> = {}): FieldWrite {
  const leaves = flattenFields({ spec, labels: {}, annotations: {} });
  const merge = more.mode === "merge";
  return {
    manager,
    mode: "replace",
    set: new Map([...leaves].filter(([, value]) => !merge || value !== null)),
    remove: merge ? [...leaves].filter(([, value]) => value === null).map(([path]) => path) : [],
    contentHash: hashJson(spec),
    declares: manager.startsWith("file:"),
    force: false,
    takeOverFrom: [],
    time: "2030-01-01T00:00:00.000Z",
    ...more,
  };
}

const specOf = (ownership: Ownership) => unflattenLeaves(ownership.leaves).spec;

/** An initial state, a write, and the expected result. */
interface Case {
  readonly name: string;
  readonly before: readonly FieldWrite[];
  readonly write: FieldWrite;
  readonly spec?: Spec;
  readonly owners?: Readonly<Record<string, string>>;
  readonly conflicts?: readonly string[];
  readonly yielded?: readonly string[];
  readonly managers?: readonly string[];
}

const file = (spec: Spec, more: Partial<FieldWrite> = {}) => writeOf("file:a.yaml", spec, more);
const api = (spec: Spec, more: Partial<FieldWrite> = {}) =>
  writeOf("api", spec, { mode: "merge", ...more });
const cli = (spec: Spec, more: Partial<FieldWrite> = {}) => writeOf("cli", spec, more);

const cases: readonly Case[] = [
  {
    name: "replace removes fields that the manager owned and no longer gives",
    before: [cli({ image: "a", port: 80, env: { A: "1", B: "2" } })],
    write: cli({ image: "b", env: { B: "2" } }),
    spec: { image: "b", env: { B: "2" } },
    owners: { "/spec/image": "cli", "/spec/env/B": "cli" },
  },
  {
    name: "replace keeps the fields of other managers",
    before: [file({ image: "a" }), api({ running: false, env: { X: "1" } })],
    write: file({ image: "b", env: { Y: "2" } }),
    spec: { image: "b", running: false, env: { X: "1", Y: "2" } },
    owners: {
      "/spec/image": "file:a.yaml",
      "/spec/running": "api",
      "/spec/env/X": "api",
      "/spec/env/Y": "file:a.yaml",
    },
  },
  {
    name: "merge sets the given fields and keeps the others",
    before: [api({ image: "a", env: { A: "1" } })],
    write: api({ env: { B: "2" } }),
    spec: { image: "a", env: { A: "1", B: "2" } },
  },
  {
    name: "merge with null removes a field and everything below it",
    before: [api({ image: "a", env: { A: "1", B: "2" }, port: 80 })],
    write: api({ env: null, port: null }),
    spec: { image: "a" },
    owners: { "/spec/image": "api" },
  },
  {
    name: "merge with null for the last key leaves an empty map, as a JSON merge patch does",
    before: [api({ data: { A: "1" } })],
    write: api({ data: { A: null } }),
    spec: { data: {} },
    owners: { "/spec/data": "api" },
  },
  {
    name: "null for a missing field does nothing",
    before: [api({ image: "a" })],
    write: api({ env: { A: null }, port: null }),
    spec: { image: "a" },
  },
  {
    name: "api and cli take each other's fields without force",
    before: [api({ image: "a", port: 80 })],
    write: cli({ image: "b" }),
    spec: { image: "b", port: 80 },
    owners: { "/spec/image": "cli", "/spec/port": "api" },
    managers: ["api", "cli"],
  },
  {
    name: "a manager that has lost all fields is removed",
    before: [api({ image: "a" })],
    write: cli({ image: "b" }),
    spec: { image: "b" },
    managers: ["cli"],
  },
  {
    name: "a file takes fields of api without force",
    before: [api({ image: "a", running: false })],
    write: file({ image: "b" }),
    spec: { image: "b", running: false },
    owners: { "/spec/image": "file:a.yaml", "/spec/running": "api" },
  },
  {
    name: "writes of other managers to fields of a file are refused, and each field is named",
    before: [file({ image: "a", port: 80, env: { A: "1" } })],
    write: api({ image: "b", port: 81, env: { A: "1", B: "2" } }),
    conflicts: ["/spec/image", "/spec/port"],
  },
  {
    name: "removing a field of a file is refused too",
    before: [file({ env: { A: "1" } })],
    write: api({ env: null }),
    conflicts: ["/spec/env/A"],
  },
  {
    name: "a value equal to the file's is not a conflict, and the file stays the owner",
    before: [file({ image: "a" })],
    write: api({ image: "a", running: true }),
    spec: { image: "a", running: true },
    owners: { "/spec/image": "file:a.yaml", "/spec/running": "api" },
  },
  {
    name: "force moves the field, and records it as yielded by the file",
    before: [file({ image: "a", port: 80 })],
    write: api({ image: "b" }, { force: true }),
    spec: { image: "b", port: 80 },
    owners: { "/spec/image": "api", "/spec/port": "file:a.yaml" },
  },
  {
    name: "the unchanged file, applied again, yields the taken field",
    before: [file({ image: "a", port: 80 }), api({ image: "b" }, { force: true })],
    write: file({ image: "a", port: 80 }),
    spec: { image: "b", port: 80 },
    yielded: ["/spec/image"],
  },
  {
    name: "a field removed with force stays removed while the file is unchanged",
    before: [file({ image: "a", port: 80 }), api({ port: null }, { force: true })],
    write: file({ image: "a", port: 80 }),
    spec: { image: "a" },
    yielded: ["/spec/port"],
  },
  {
    name: "the changed file takes the field back",
    before: [file({ image: "a", port: 80 }), api({ image: "b" }, { force: true })],
    write: file({ image: "a", port: 81 }),
    spec: { image: "a", port: 81 },
    owners: { "/spec/image": "file:a.yaml", "/spec/port": "file:a.yaml" },
    yielded: [],
    managers: ["file:a.yaml"],
  },
  {
    name: "the unchanged file takes the field back with force",
    before: [file({ image: "a" }), api({ image: "b" }, { force: true })],
    write: file({ image: "a" }, { force: true }),
    spec: { image: "a" },
    owners: { "/spec/image": "file:a.yaml" },
  },
  {
    name: "a renamed file keeps its fields and its yielded fields",
    before: [file({ image: "a", port: 80 }), api({ image: "b" }, { force: true })],
    write: writeOf("file:b.yaml", { image: "a", port: 80 }, { takeOverFrom: ["file:a.yaml"] }),
    spec: { image: "b", port: 80 },
    owners: { "/spec/image": "api", "/spec/port": "file:b.yaml" },
    yielded: ["/spec/image"],
    managers: ["api", "file:b.yaml"],
  },
  {
    name: "a renamed and changed file removes fields that it no longer gives",
    before: [file({ image: "a", port: 80 })],
    write: writeOf("file:b.yaml", { image: "c" }, { takeOverFrom: ["file:a.yaml"] }),
    spec: { image: "c" },
    owners: { "/spec/image": "file:b.yaml" },
    managers: ["file:b.yaml"],
  },
  {
    name: "replacing a scalar by a map is a write to the scalar",
    before: [file({ env: { A: "text" } })],
    write: api({ env: { A: { secret: "s" } } }),
    conflicts: ["/spec/env/A"],
  },
  {
    name: "replacing a map by a scalar with force takes all of its fields",
    before: [file({ env: { A: { secret: "s", key: "k" } } })],
    write: api({ env: { A: "text" } }, { force: true }),
    spec: { env: { A: "text" } },
    owners: { "/spec/env/A": "api" },
  },
  {
    name: "an empty map is replaced by its first field, whichever manager owns it",
    before: [file({ image: "a", env: {} })],
    write: api({ env: { A: "1" } }),
    spec: { image: "a", env: { A: "1" } },
    owners: { "/spec/image": "file:a.yaml", "/spec/env/A": "api" },
  },
  {
    name: "an empty map given again keeps the fields of other managers in it",
    before: [file({ image: "a", env: {} }), api({ env: { A: "1" } })],
    write: file({ image: "a", env: {} }),
    spec: { image: "a", env: { A: "1" } },
  },
  {
    name: "an array is a single field",
    before: [file({ command: ["a", "b"] })],
    write: api({ command: ["a", "c"] }),
    conflicts: ["/spec/command"],
  },
];

describe("applyFields", () => {
  it.each(cases)("follows the rule: $name", (example) => {
    const before = example.before.reduce<Ownership>(succeed, NOTHING);
    const outcome = applyFields(before, example.write);
    expect(outcome.conflicts.map((conflict) => conflict.path)).toEqual(example.conflicts ?? []);
    if (example.conflicts) return;
    expectSound(outcome);
    const seen = {
      spec: specOf(outcome),
      owners: outcome.owners,
      yielded: outcome.yielded,
      managers: Object.keys(outcome.managers).toSorted(),
    };
    // A case checks only the fields that it mentions.
    const { spec = seen.spec, owners = seen.owners } = example;
    const { yielded = seen.yielded, managers = seen.managers } = example;
    expect(seen).toEqual({ spec, owners, yielded, managers });
  });

  it("does not treat an unchanged document as new after a patch by the same manager", () => {
    const documented = succeed(NOTHING, cli({ image: "a" }));
    const patched = succeed(documented, writeOf("cli", { running: false }, { mode: "merge" }));
    expect(patched.managers["cli"]?.contentHash).toBe(hashJson({ image: "a" }));
  });

  it("never changes its arguments", () => {
    const before = succeed(NOTHING, file({ image: "a", env: { A: "1" } }));
    const text = canonicalJson([[...before.leaves], before.owners, before.managers]);
    applyFields(before, api({ image: "b", env: null }, { force: true }));
    expect(canonicalJson([[...before.leaves], before.owners, before.managers])).toBe(text);
  });

  it("releasing a manager keeps the values of its fields, which then have no owner", () => {
    const before = succeed(succeed(NOTHING, file({ image: "a" })), api({ running: true }));
    const after = releaseFields(before, "file:a.yaml");
    expect(specOf(after)).toEqual({ image: "a", running: true });
    expect(after.owners).toEqual({ "/spec/running": "api" });
    expect(Object.keys(after.managers)).toEqual(["api"]);
  });
});

describe("applyFields, for any writes in any order", () => {
  const value = fc.oneof(
    fc.constantFrom<unknown>("x", "y", 1, 2, true, {}),
    fc.array(fc.constantFrom("p", "q"), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom("k", "l"), fc.constantFrom<unknown>("x", 1, {}), { maxKeys: 2 }),
  );
  const key = fc.constantFrom("a", "b", "c", "d");
  const document = fc.dictionary(key, value, { maxKeys: 4 });
  const patch = fc.dictionary(key, fc.oneof(value, fc.constant(null)), { maxKeys: 3 });
  const step: fc.Arbitrary<FieldWrite> = fc.oneof(
    fc
      .tuple(fc.constantFrom("file:1", "api", "cli"), document, fc.boolean())
      .map(([manager, spec, force]) => writeOf(manager, spec, { force })),
    fc
      .tuple(fc.constantFrom("api", "cli"), patch, fc.boolean())
      .map(([manager, spec, force]) => writeOf(manager, spec, { force, mode: "merge" })),
  );
  const history = fc.array(step, { maxLength: 12 });

  it("every field has exactly one owner, and the spec is the union of all owned fields", () => {
    fc.assert(
      fc.property(history, (writes) => {
        const end = run(writes);
        expectSound(end);
        const union = [...new Set(Object.values(end.owners))].flatMap((manager) =>
          [...end.leaves].filter(([path]) => end.owners[path] === manager),
        );
        expect(canonicalJson(unflattenLeaves(new Map(union)))).toBe(
          canonicalJson(unflattenLeaves(end.leaves)),
        );
      }),
      { numRuns: 500 },
    );
  });

  it("applying the same document again changes nothing", () => {
    fc.assert(
      fc.property(history, step, (writes, write) => {
        const once = applyFields(run(writes), write);
        if (once.conflicts.length > 0) return;
        const twice = applyFields(once, { ...write, time: "2031-01-01T00:00:00.000Z" });
        expect(twice.conflicts).toEqual([]);
        expectSame(twice, once);
      }),
      { numRuns: 500 },
    );
  });

  it("a file that is applied with force, or has changed, owns all fields that it contains", () => {
    fc.assert(
      fc.property(history, document, (writes, spec) => {
        const write = writeOf("file:1", spec, { force: true });
        const outcome = applyFields(run(writes), write);
        expect(outcome.conflicts).toEqual([]);
        for (const [path, wanted] of write.set) {
          if (deepEqual(wanted, {})) continue;
          expect(outcome.leaves.get(path)).toEqual(wanted);
          expect(outcome.owners[path]).toBe("file:1");
        }
      }),
      { numRuns: 300 },
    );
  });

  it("no other manager changes a file's field without force", () => {
    fc.assert(
      fc.property(history, step, (writes, write) => {
        const before = run(writes);
        if (write.force || write.manager === "file:1") return;
        const outcome = applyFields(before, write);
        if (outcome.conflicts.length > 0) return;
        for (const [path, owner] of Object.entries(before.owners)) {
          if (owner !== "file:1" || deepEqual(before.leaves.get(path), {})) continue;
          expect(outcome.leaves.get(path)).toEqual(before.leaves.get(path));
          expect(outcome.owners[path]).toBe("file:1");
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** Returns the result of a history of writes; refused writes are skipped. */
function run(writes: readonly FieldWrite[]): Ownership {
  return writes.reduce<Ownership>((before, write) => {
    const outcome = applyFields(before, write);
    return outcome.conflicts.length > 0 ? before : outcome;
  }, NOTHING);
}

function succeed(before: Ownership, write: FieldWrite): Ownership {
  const outcome: FieldOutcome = applyFields(before, write);
  expect(outcome.conflicts).toEqual([]);
  return outcome;
}

function expectSound(ownership: Ownership): void {
  expect(Object.keys(ownership.owners).toSorted()).toEqual([...ownership.leaves.keys()].toSorted());
  // No leaf path may be a prefix of another leaf path.
  const paths = [...flattenFields(unflattenLeaves(ownership.leaves)).keys()];
  expect(paths.toSorted()).toEqual([...ownership.leaves.keys()].toSorted());
  for (const owner of Object.values(ownership.owners)) {
    expect(Object.keys(ownership.managers)).toContain(owner);
  }
}

function expectSame(actual: Ownership, expected: Ownership): void {
  expect(canonicalJson(unflattenLeaves(actual.leaves))).toBe(
    canonicalJson(unflattenLeaves(expected.leaves)),
  );
  expect(actual.owners).toEqual(expected.owners);
  expect(actual.managers).toEqual(expected.managers);
}
