import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CONFIRM_AFTER_MS,
  type DeclaredResource,
  decidePrune,
  type FileView,
  formatDeclaredId,
  type PruneInput,
} from "../../../../src/controller/specs/prune-guard.ts";

const START = 1_000_000;

const app = (name: string, file = `${name}.yaml`): DeclaredResource => ({
  kind: "App",
  name,
  file,
});
const lists = (...names: string[]): FileView => ({
  keys: names.map((name) => ({ kind: "App" as const, name })),
  mentions: () => false,
});
const broken = (text = ""): FileView => ({
  keys: undefined,
  mentions: (word) => text.includes(word),
});

function input(changes: Partial<PruneInput>): PruneInput {
  return {
    declared: [],
    files: new Map(),
    isUnknown: () => false,
    isUnmounted: () => false,
    isEmpty: false,
    missingSince: new Map(),
    approved: new Set(),
    now: START,
    ...changes,
  };
}

/** Returns the decisions of two scans, of which the second one takes place CONFIRM_AFTER_MS after the first one. */
function secondDecision(changes: Partial<PruneInput>) {
  const first = decidePrune(input(changes));
  const second = decidePrune(
    input({ ...changes, missingSince: first.missingSince, now: START + CONFIRM_AFTER_MS }),
  );
  return {
    first,
    second,
    pruned: second.prune.map(formatDeclaredId),
    held: second.held.map(formatDeclaredId),
  };
}

const many = (count: number) => Array.from({ length: count }, (_, index) => app(`a${index}`));
const present = (declared: readonly DeclaredResource[]) =>
  new Map(declared.map(({ name, file }) => [file, lists(name)]));

describe("decidePrune", () => {
  it("keeps resources that their file declares", () => {
    const { second } = secondDecision({ declared: [app("a")], files: present([app("a")]) });
    expect(second).toMatchObject({ prune: [], held: [], recheckAt: null });
    expect(second.missingSince.size).toBe(0);
  });

  it("prunes resources that their file no longer declares, if a scan after the waiting time confirms it", () => {
    const declared = [app("a"), app("b", "a.yaml")];
    const { first, pruned } = secondDecision({
      declared,
      files: new Map([["a.yaml", lists("a")]]),
    });
    expect(first.prune).toEqual([]);
    expect(first.recheckAt).toBe(START + CONFIRM_AFTER_MS);
    expect(pruned).toEqual(["App/b a.yaml"]);
  });

  it("does not confirm a deletion in a second scan that comes too soon", () => {
    const changes = { declared: [app("a"), app("b")], files: present([app("b")]) };
    const first = decidePrune(input(changes));
    const soon = decidePrune(
      input({ ...changes, missingSince: first.missingSince, now: START + CONFIRM_AFTER_MS - 1 }),
    );
    expect(soon.prune).toEqual([]);
    expect(soon.recheckAt).toBe(START + CONFIRM_AFTER_MS);
  });

  it("restarts the waiting time of a deletion if the file reappears and disappears again", () => {
    const declared = [app("a"), app("b")];
    const gone = decidePrune(input({ declared, files: present([app("b")]) }));
    const back = decidePrune(
      input({
        declared,
        files: present(declared),
        missingSince: gone.missingSince,
        now: START + 900,
      }),
    );
    const goneAgain = decidePrune(
      input({
        declared,
        files: present([app("b")]),
        missingSince: back.missingSince,
        now: START + 1100,
      }),
    );
    expect(goneAgain.prune).toEqual([]);
    expect(goneAgain.recheckAt).toBe(START + 1100 + CONFIRM_AFTER_MS);
  });

  it("keeps the resources of a file that cannot be parsed", () => {
    const files = new Map([["a.yaml", broken()]]);
    expect(secondDecision({ declared: [app("a")], files }).second.prune).toEqual([]);
  });

  it("prunes nothing in a part of the folder that cannot be read", () => {
    const declared = [app("a", "sub/a.yaml"), app("b")];
    const { second } = secondDecision({
      declared,
      files: present([app("b")]),
      isUnknown: (file) => file.startsWith("sub/"),
    });
    expect(second).toMatchObject({ prune: [], held: [] });
  });

  it("keeps resources that another file declares but cannot apply yet", () => {
    const files = new Map([["other.yaml", lists("a")]]);
    const { first, second } = secondDecision({ declared: [app("a")], files });
    expect(second).toMatchObject({ prune: [], held: [] });
    expect(first.recheckAt).toBe(START + CONFIRM_AFTER_MS);
    expect(second.missingSince.get("App/a a.yaml")).toBe(START);
  });

  it("waits for approval to delete resources that an invalid file mentions", () => {
    const files = new Map([
      ["moved.yaml", broken("name: a")],
      ["b.yaml", lists("b")],
    ]);
    const { held, second } = secondDecision({ declared: [app("a"), app("b")], files });
    expect(held).toEqual(["App/a a.yaml"]);
    expect(second.held[0]?.reason).toBe("moved.yaml is invalid and mentions the resource");
  });

  it("waits for approval of all deletions while the folder is empty", () => {
    const { second } = secondDecision({ declared: [app("a")], isEmpty: true });
    expect(second.prune).toEqual([]);
    expect(second.held).toEqual([{ ...app("a"), reason: "the folder is empty" }]);
  });

  it("waits for approval to delete resources whose files a mounted file system hides", () => {
    const { second } = secondDecision({
      declared: [app("a"), app("b")],
      files: present([app("b")]),
      isUnmounted: (file) => file === "a.yaml",
    });
    expect(second.prune).toEqual([]);
    expect(second.held[0]?.reason).toBe("another file system now hides the file of the resource");
  });

  it.each([
    [2, 2, "pruned"],
    [3, 3, "held"],
    [9, 3, "held"],
    [10, 3, "pruned"],
    [10, 4, "held"],
    [100, 30, "pruned"],
    [100, 31, "held"],
  ])("with %i resources, the deletion of %i at once is %s", (total, gone, expected) => {
    const declared = many(total);
    const files = present(declared.slice(gone));
    files.set("other.yaml", lists());
    const { pruned, held } = secondDecision({ declared, files });
    expect({ pruned: pruned.length, held: held.length }).toEqual(
      expected === "held" ? { pruned: 0, held: gone } : { pruned: gone, held: 0 },
    );
  });

  it("adds new deletions to those whose waiting time is over, so that a slow removal of many files is a mass deletion", () => {
    const declared = many(10);
    const early = new Map(
      declared.slice(0, 2).map((one) => [formatDeclaredId(one), START - CONFIRM_AFTER_MS]),
    );
    const decision = decidePrune(
      input({ declared, files: present(declared.slice(5)), missingSince: early }),
    );
    expect(decision.prune).toEqual([]);
    expect(decision.held).toHaveLength(2);
  });

  it("executes deletions that the user has approved, and does not count them towards a mass deletion", () => {
    const declared = many(10);
    const approved = new Set(declared.slice(0, 5).map(formatDeclaredId));
    const { pruned } = secondDecision({ declared, files: present(declared.slice(5)), approved });
    expect(pruned).toHaveLength(5);
    const more = secondDecision({ declared, files: present(declared.slice(7)), approved });
    expect(more.pruned).toHaveLength(7);
  });

  it("never prunes in the first scan, never a resource that a file declares, and never over a third of all resources without approval", () => {
    const scenario = fc.record({
      total: fc.integer({ min: 1, max: 40 }),
      there: fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
      broken: fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
      isEmpty: fc.boolean(),
    });
    fc.assert(
      fc.property(scenario, (given) => {
        const declared = many(given.total);
        const files = new Map<string, FileView>();
        for (const [index, { name, file }] of declared.entries()) {
          if (given.there[index]) files.set(file, given.broken[index] ? broken() : lists(name));
        }
        const { first, second } = secondDecision({ declared, files, isEmpty: given.isEmpty });
        expect(first.prune).toEqual([]);
        expect(second.prune.filter(({ file }) => files.has(file))).toEqual([]);
        expect(second.prune.length <= Math.max(2, declared.length * 0.3)).toBe(true);
        const gone = declared.filter(({ file }) => !files.has(file));
        expect(second.prune.length + second.held.length).toBe(gone.length);
      }),
    );
  });
});
