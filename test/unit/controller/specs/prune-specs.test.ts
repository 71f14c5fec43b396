import { mkdtempSync, rmSync, statSync } from "node:fs";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

let world: SpecsHarness;
beforeEach(() => {
  world = new SpecsHarness();
});
afterEach(() => world[Symbol.asyncDispose]());

/** Writes Apps a0, a1, ... to files of their own. */
async function apps(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await world.write({ [`a${index}.yaml`]: appText(`a${index}`) });
  }
  await world.scan();
}

describe("deleting a file", () => {
  it("deletes its resources in two phases", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.scan();
    await world.wait(999);
    await world.scan();
    expect(world.resourceNames).toEqual(["App/a0", "App/a1"]);
    await world.wait(1);
    await world.scan();
    expect(world.resourceNames).toEqual(["App/a1"]);
    expect(world.app("a0").metadata.deletionTimestamp).not.toBeNull();
    expect(world.declaringManager("a0")).toBeUndefined();
    expect(world.eventsOf("Pruned")).toEqual([
      "Pruned a0: deleted: a0.yaml does not declare it any more",
    ]);
    world.finishDeletion("a0");
    await world.scanTwice();
    expect(world.eventsOf("Pruned")).toHaveLength(1);
  });

  it("deletes a resource without a finalizer at once", async () => {
    const secret =
      "apiVersion: berth.dev/v1\nkind: Secret\nmetadata: { name: s }\nspec: { data: {} }\n";
    await world.write({ "s.yaml": secret, "a.yaml": appText("a") });
    await world.scan();
    await world.remove("s.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toEqual(["App/a"]);
  });

  it("keeps resources that were created by hand", async () => {
    await apps(2);
    world.store.apply({
      kind: "App",
      name: "mine",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { image: "a" },
    });
    await world.remove("a0.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toEqual(["App/a1", "App/mine"]);
  });

  it("deletes after a restart too, again in two phases", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.restart();
    await world.scan();
    expect(world.resourceNames).toHaveLength(2);
    await world.wait(1000);
    await world.scan();
    expect(world.resourceNames).toEqual(["App/a1"]);
  });

  it("and restoring it in time deletes nothing", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.scan();
    await world.wait(900);
    await world.write({ "a0.yaml": appText("a0") });
    await world.scan();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.eventsOf("Pruned")).toEqual([]);
  });

  it("and restoring it later creates the resource again after its deletion", async () => {
    await apps(2);
    const { uid } = world.app("a0").metadata;
    await world.remove("a0.yaml");
    await world.scanTwice();
    await world.write({ "a0.yaml": appText("a0") });
    await world.scan();
    expect(world.fileState("a0.yaml")).toMatch(/^conflict\n3:13 App a0 is being deleted/);
    world.finishDeletion("a0");
    await world.scan();
    expect(world.fileState("a0.yaml")).toBe("applied");
    expect(world.app("a0").metadata.uid).not.toBe(uid);
  });

  it("has the same effect as removing one document from a file", async () => {
    await world.write({ "both.yaml": joinDocuments(appText("one"), appText("two")) });
    await world.scan();
    await world.write({ "both.yaml": appText("one") });
    await world.scan();
    expect(world.resourceNames).toHaveLength(2);
    await world.wait(1000);
    await world.scan();
    expect(world.resourceNames).toEqual(["App/one"]);
  });
});

describe("a file that is being written", () => {
  it("may be empty for a moment without a deletion", async () => {
    await apps(2);
    await world.write({ "a0.yaml": "" });
    await world.scan();
    await world.wait(500);
    await world.write({ "a0.yaml": appText("a0", "nginx:2") });
    await world.scan();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.image("a0")).toBe("nginx:2");
  });

  it("deletes its resources if it stays empty", async () => {
    await apps(2);
    await world.write({ "a0.yaml": "# nothing any more\n" });
    await world.scanTwice();
    expect(world.resourceNames).toEqual(["App/a1"]);
    expect(world.fileState("a0.yaml")).toBe("applied");
  });

  it("may be cut at the end of a document without a deletion", async () => {
    const whole = joinDocuments(appText("one"), appText("two"), appText("three"));
    await world.write({ "all.yaml": whole });
    await world.scan();
    await world.write({ "all.yaml": joinDocuments(appText("one"), appText("two")) });
    await world.scan();
    await world.write({ "all.yaml": whole });
    await world.scan();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(3);
  });

  it("may be replaced by a rename, as editors save, without a deletion", async () => {
    await apps(2);
    await world.write({ "a0.yaml.tmp": appText("a0", "nginx:2") });
    await world.scan();
    await world.move("a0.yaml.tmp", "a0.yaml");
    await world.scanTwice();
    expect(world.image("a0")).toBe("nginx:2");
    expect(world.eventsOf("Pruned")).toEqual([]);
  });
});

describe("a rename", () => {
  it("moves the resource and keeps its fields", async () => {
    await apps(2);
    const { uid, generation } = world.app("a0").metadata;
    await world.move("a0.yaml", "renamed.yaml");
    await world.scanTwice();
    expect(world.declaringManager("a0")).toBe("file:renamed.yaml");
    expect(world.app("a0").metadata).toMatchObject({ uid, generation });
    expect(world.app("a0").metadata.owners["/spec/image"]).toBe("file:renamed.yaml");
    expect(world.eventsOf("Pruned")).toEqual([]);
  });

  it("may also change the file, and may be split over two scans", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.scan();
    await world.wait(300);
    await world.write({ "renamed.yaml": appText("a0", "nginx:2") });
    await world.scan();
    await world.scanTwice();
    expect(world.image("a0")).toBe("nginx:2");
    expect(world.resourceNames).toHaveLength(2);
  });

  it("of a whole folder moves all its resources", async () => {
    await world.write(
      Object.fromEntries(
        Array.from({ length: 20 }, (_, i) => [`old/a${i}.yaml`, appText(`a${i}`)]),
      ),
    );
    await world.scan();
    await world.move("old", "new");
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(20);
    expect(world.declaringManager("a7")).toBe("file:new/a7.yaml");
    expect(world.pending).toEqual([]);
  });

  it("while Berth is not running moves the resource too", async () => {
    await apps(2);
    await world.move("a0.yaml", "renamed.yaml");
    await world.restart();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.declaringManager("a0")).toBe("file:renamed.yaml");
  });

  it("of a document to another file keeps it, in either order of names", async () => {
    await world.write({
      "a.yaml": joinDocuments(appText("one"), appText("two")),
      "b.yaml": appText("three"),
    });
    await world.scan();
    await world.write({
      "a.yaml": joinDocuments(appText("one"), appText("three")),
      "b.yaml": appText("two"),
    });
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(3);
    expect(world.declaringManager("two")).toBe("file:b.yaml");
    expect(world.declaringManager("three")).toBe("file:a.yaml");
  });

  it("that breaks the file keeps what it names, until the user confirms", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.write({ "renamed.yaml": appText("a0", "nginx", "  prot: 80\n") });
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.pending).toEqual(["App/a0 a0.yaml"]);
    await world.write({ "renamed.yaml": appText("a0", "nginx", "  port: 80\n") });
    await world.scanTwice();
    expect(world.pending).toEqual([]);
    expect(world.declaringManager("a0")).toBe("file:renamed.yaml");
  });

  it("to a file that the store refuses does not delete what it lists", async () => {
    await world.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await world.scan();
    await world.remove("a.yaml");
    await world.write({ "c.yaml": joinDocuments(appText("a"), appText("b")) });
    await world.scanTwice();
    expect(world.fileState("c.yaml")).toMatch(/^conflict/);
    expect(world.resourceNames).toEqual(["App/a", "App/b"]);
  });
});

describe("many deletions at once", () => {
  it("wait for a confirmation, and are executed after it", async () => {
    await apps(5);
    await world.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(5);
    expect(world.pending).toEqual(["App/a0 a0.yaml", "App/a1 a1.yaml", "App/a2 a2.yaml"]);
    expect(world.specs.report().message).toBe(
      "3 deletions wait for `berth prune --confirm`: 3 of 5 resources would go at once",
    );
    expect(world.eventsOf("PruneHeld")).toEqual([
      "PruneHeld : not deleted: App a0, App a1, App a2, because 3 of 5 resources would go at once; to delete them run: berth prune --confirm",
    ]);
    expect(world.specs.confirmPrune()).toEqual([
      { kind: "App", name: "a0", file: "a0.yaml" },
      { kind: "App", name: "a1", file: "a1.yaml" },
      { kind: "App", name: "a2", file: "a2.yaml" },
    ]);
    await world.scan();
    expect(world.resourceNames).toEqual(["App/a3", "App/a4"]);
    expect(world.pending).toEqual([]);
    expect(world.specs.confirmPrune()).toEqual([]);
  });

  it("wait across a restart, without any stored state", async () => {
    await apps(5);
    await world.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await world.scanTwice();
    await world.restart();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(5);
    expect(world.pending).toHaveLength(3);
    world.specs.confirmPrune();
    await world.scan();
    expect(world.resourceNames).toHaveLength(2);
  });

  it("are confirmed only as far as the user saw them", async () => {
    await apps(10);
    await world.remove("a0.yaml", "a1.yaml", "a2.yaml", "a3.yaml");
    await world.scanTwice();
    world.specs.confirmPrune();
    await world.remove("a4.yaml", "a5.yaml", "a6.yaml", "a7.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(6);
    expect(world.pending).toHaveLength(4);
  });

  it("are no longer held when the files are back", async () => {
    await apps(5);
    await world.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await world.scanTwice();
    await apps(5);
    expect(world.pending).toEqual([]);
    expect(world.specs.report().message).toBeNull();
    expect(world.resourceNames).toHaveLength(5);
  });

  it("are not held if they are few of many", async () => {
    await apps(10);
    await world.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(7);
  });
});

describe("a missing folder", () => {
  it("deletes nothing, and is reported", async () => {
    await apps(2);
    await rename(world.folder, join(world.root, "away"));
    await world.scanTwice();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.specs.report()).toMatchObject({ state: "missing", pendingPrune: [] });
    expect(world.specs.report().message).toContain("there is no such folder");
    expect(world.specs.confirmPrune()).toEqual([]);
    expect(world.eventsOf("SpecFolderMissing")).toHaveLength(1);
    await world.restart();
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);

    await rename(join(world.root, "away"), world.folder);
    await world.write({ "a0.yaml": appText("a0", "nginx:2") });
    await world.scan();
    expect(world.specs.report()).toMatchObject({ state: "watching", message: null });
    expect(world.image("a0")).toBe("nginx:2");
  });

  it("begins the two phases again when it is back", async () => {
    await apps(2);
    await world.remove("a0.yaml");
    await world.scan();
    await rename(world.folder, join(world.root, "away"));
    await world.wait(1000);
    await world.scan();
    await rename(join(world.root, "away"), world.folder);
    await world.scan();
    expect(world.resourceNames).toHaveLength(2);
  });

  it("may be a folder that cannot be read", async () => {
    await apps(2);
    await rename(world.folder, join(world.root, "away"));
    await symlink("specs", world.folder);
    await world.scanTwice();
    expect(world.specs.report().state).toBe("unreadable");
    expect(world.resourceNames).toHaveLength(2);
  });

  it("may be an empty folder, as after an unmount, whose deletions need a confirmation", async () => {
    await apps(2);
    await world.remove("a0.yaml", "a1.yaml");
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.specs.report().state).toBe("empty");
    expect(world.pending).toHaveLength(2);
    world.specs.confirmPrune();
    await world.scan();
    expect(world.resourceNames).toEqual([]);
    expect(world.specs.report().state).toBe("watching");
  });

  it("is no problem if nothing was ever declared", async () => {
    await mkdir(world.folder);
    await world.scan();
    expect(world.specs.report()).toMatchObject({ state: "watching", message: null, files: [] });
  });

  it("may be a part of it: a folder that cannot be read keeps its resources", async () => {
    await world.write({ "team/a.yaml": appText("a"), "b.yaml": appText("b") });
    await world.scan();
    await world.move("team", "../team");
    await symlink("team", join(world.folder, "team"));
    await world.scanTwice();
    expect(world.resourceNames).toHaveLength(2);
    expect(world.pending).toEqual([]);
  });

  it("may be a part that another file system has hidden", async () => {
    const mounted = mkdtempSync("/dev/shm/berth-specs-");
    try {
      await writeFile(join(mounted, "a.yaml"), appText("a"));
      await world.write({ "b.yaml": appText("b"), "../below/README.md": "" });
      expect(statSync(mounted).dev).not.toBe(statSync(world.root).dev);
      await symlink(mounted, join(world.folder, "team"));
      await world.scan();
      expect(world.resourceNames).toHaveLength(2);
      await rm(join(world.folder, "team"));
      await symlink(join(world.root, "below"), join(world.folder, "team"));
      await world.scanTwice();
      expect(world.resourceNames).toHaveLength(2);
      expect(world.specs.report().message).toContain("another file system is where its file was");
      world.specs.confirmPrune();
      await world.scan();
      expect(world.resourceNames).toEqual(["App/b"]);
    } finally {
      rmSync(mounted, { recursive: true });
    }
  });
});

describe("a folder behind a link", () => {
  it("is followed to the next release when the link is swapped", async () => {
    await world.write({ "../v1/a.yaml": appText("a", "v1"), "../v1/b.yaml": appText("b", "v1") });
    await world.write({ "../v2/a.yaml": appText("a", "v2"), "../v2/c.yaml": appText("c", "v2") });
    await symlink("v1", world.folder);
    await world.scan();
    await symlink("v2", join(world.root, "next"));
    await rename(join(world.root, "next"), world.folder);
    await world.scanTwice();
    expect(world.resourceNames).toEqual(["App/a", "App/c"]);
    expect(world.image("a")).toBe("v2");
  });

  it("may be a config map, whose files all change in one step", async () => {
    await world.write({ "..1/a.yaml": appText("a", "v1"), "..1/b.yaml": appText("b", "v1") });
    await symlink("..1", join(world.folder, "..data"));
    for (const name of ["a.yaml", "b.yaml"])
      await symlink(`..data/${name}`, join(world.folder, name));
    await world.scan();
    expect(world.resourceNames).toEqual(["App/a", "App/b"]);

    await world.write({ "..2/a.yaml": appText("a", "v2"), "..2/b.yaml": appText("b", "v2") });
    await symlink("..2", join(world.folder, "..data_tmp"));
    await world.move("..data_tmp", "..data");
    await world.remove("..1");
    await world.scanTwice();
    expect([world.image("a"), world.image("b")]).toEqual(["v2", "v2"]);
    expect(world.resourceNames).toHaveLength(2);
    expect(world.eventsOf("Pruned")).toEqual([]);
  });
});
