import * as fc from "fast-check";
import { expect, it } from "vitest";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

type Step =
  | {
      readonly do: "write";
      readonly file: string;
      readonly apps: readonly string[];
      readonly tag: number;
    }
  | { readonly do: "break" | "empty" | "remove"; readonly file: string }
  | { readonly do: "rename"; readonly file: string; readonly to: string }
  | { readonly do: "scan" | "restart" | "wait" | "finish" };

const file = fc.constantFrom("a.yaml", "b.yaml", "c/d.yaml", "e.yml");
const apps = fc.uniqueArray(fc.constantFrom("one", "two", "three", "four", "five"), {
  minLength: 1,
  maxLength: 3,
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("write" as const), file, apps, tag: fc.nat(9) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("break" as const, "empty" as const, "remove" as const),
      file,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rename" as const), file, to: file }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom("scan" as const, "restart" as const, "wait" as const, "finish" as const),
    }),
  },
);

/** Computes which resources must exist for the files of a scenario. */
class Model {
  readonly files = new Map<
    string,
    { readonly apps: readonly string[]; readonly isBroken: boolean; readonly tag: number }
  >();
  readonly #harness: SpecsHarness;

  constructor(harness: SpecsHarness) {
    this.#harness = harness;
  }

  async take(next: Step): Promise<void> {
    const harness = this.#harness;
    switch (next.do) {
      case "write": {
        const texts = next.apps.map((name) => appText(name, `nginx:${next.tag}`));
        await harness.write({ [next.file]: joinDocuments(...texts) });
        this.files.set(next.file, { apps: next.apps, isBroken: false, tag: next.tag });
        return;
      }
      case "break":
        await harness.write({ [next.file]: "kind: {" });
        this.files.set(next.file, { apps: [], isBroken: true, tag: 0 });
        return;
      case "empty":
        await harness.write({ [next.file]: "" });
        this.files.set(next.file, { apps: [], isBroken: false, tag: 0 });
        return;
      case "remove":
        if (this.files.delete(next.file)) await harness.remove(next.file);
        return;
      case "rename": {
        const moved = this.files.get(next.file);
        if (!moved || next.file === next.to) return;
        if (next.to.startsWith("c/")) await harness.write({ "c/keep.txt": "" });
        await harness.move(next.file, next.to);
        this.files.delete(next.file);
        this.files.set(next.to, moved);
        return;
      }
      case "restart":
        return harness.restart();
      case "wait":
        return harness.wait(600);
      case "finish":
        return this.finishDeletions();
      case "scan":
        return harness.scan();
    }
  }

  async finishDeletions(): Promise<void> {
    for (const { metadata } of this.#harness.store.list("App")) {
      if (metadata.deletionTimestamp !== null) this.#harness.finishDeletion(metadata.name);
    }
  }
}

it("after any sequence of file changes, the store matches the files", {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      await using harness = new SpecsHarness();
      // This file keeps the folder from being empty, because Berth deletes nothing for an empty folder without a
      // confirmation.
      await harness.write({ "anchor.yaml": appText("anchor") });
      await harness.scan();
      const model = new Model(harness);
      for (const next of steps) await model.take(next);

      for (const [path, { isBroken }] of model.files) {
        if (isBroken) await model.take({ do: "remove", file: path });
      }
      for (let round = 0; round < 3; round += 1) {
        await harness.scanTwice();
        harness.specs.confirmPrune();
        await harness.scan();
        await model.finishDeletions();
      }
      await harness.scanTwice();

      const listed = new Set([...model.files.values()].flatMap((one) => one.apps));
      const declared = harness.store.listDeclared("file:");
      const strays = [...declared].flatMap(([manager, keys]) =>
        keys
          .filter(({ name }) => name !== "anchor" && !listed.has(name))
          .map(({ name }) => `${manager} ${name}`),
      );
      expect(strays).toEqual([]);
      for (const [path, one] of model.files) {
        const others = one.apps.filter((name) => {
          const [declarer] =
            [...declared].find(([, keys]) => keys.some((key) => key.name === name)) ?? [];
          return declarer !== undefined && declarer !== `file:${path}`;
        });
        // A file may be refused only if another existing file declares the same resource.
        expect([path, harness.fileState(path)?.split("\n")[0]]).toEqual([
          path,
          others.length > 0 ? "conflict" : "applied",
        ]);
        if (others.length > 0) continue;
        const expected = one.apps.map((name) => [name, `file:${path}`, `nginx:${one.tag}`]);
        expect(
          one.apps.map((name) => [name, harness.declaringManager(name), harness.image(name)]),
        ).toEqual(expected);
      }
      expect(harness.pending).toEqual([]);
    }),
    { numRuns: 60 },
  );
});
