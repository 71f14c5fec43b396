import { mkdtempSync, rmSync, statSync } from "node:fs";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

let harness: SpecsHarness;
beforeEach(() => {
  harness = new SpecsHarness();
});
afterEach(() => harness[Symbol.asyncDispose]());

/** Writes the Apps a0, a1, ..., each to a file of its own. */
async function apps(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await harness.write({ [`a${index}.yaml`]: appText(`a${index}`) });
  }
  await harness.scan();
}

describe("deleting a spec file", () => {
  it("deletes its resources when a scan a second later confirms that the file is gone", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.scan();
    await harness.wait(999);
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/a0", "App/a1"]);
    await harness.wait(1);
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/a1"]);
    expect(harness.app("a0").metadata.deletionTimestamp).not.toBeNull();
    expect(harness.declaringManager("a0")).toBeUndefined();
    expect(harness.eventsOf("Pruned")).toEqual([
      "Pruned a0: deleted: a0.yaml does not declare it any more",
    ]);
    harness.finishDeletion("a0");
    await harness.scanTwice();
    expect(harness.eventsOf("Pruned")).toHaveLength(1);
  });

  it("deletes a resource without a finalizer at once", async () => {
    const secret =
      "apiVersion: berth.dev/v1\nkind: Secret\nmetadata: { name: s }\nspec: { data: {} }\n";
    await harness.write({ "s.yaml": secret, "a.yaml": appText("a") });
    await harness.scan();
    await harness.remove("s.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/a"]);
  });

  it("keeps resources that were created by hand", async () => {
    await apps(2);
    harness.store.apply({
      kind: "App",
      name: "mine",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { image: "a" },
    });
    await harness.remove("a0.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/a1", "App/mine"]);
  });

  it("just before a restart deletes its resources when a second scan after the restart confirms that the file is gone", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.restart();
    await harness.scan();
    expect(harness.resourceNames).toHaveLength(2);
    await harness.wait(1000);
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/a1"]);
  });

  it("and restoring it in time deletes nothing", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.scan();
    await harness.wait(900);
    await harness.write({ "a0.yaml": appText("a0") });
    await harness.scan();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });

  it("and restoring it later creates the resource again after its deletion", async () => {
    await apps(2);
    const { uid } = harness.app("a0").metadata;
    await harness.remove("a0.yaml");
    await harness.scanTwice();
    await harness.write({ "a0.yaml": appText("a0") });
    await harness.scan();
    expect(harness.fileState("a0.yaml")).toMatch(/^conflict\n3:13 App a0 is being deleted/);
    harness.finishDeletion("a0");
    await harness.scan();
    expect(harness.fileState("a0.yaml")).toBe("applied");
    expect(harness.app("a0").metadata.uid).not.toBe(uid);
  });

  it("has the same effect as removing one document from a file", async () => {
    await harness.write({ "both.yaml": joinDocuments(appText("one"), appText("two")) });
    await harness.scan();
    await harness.write({ "both.yaml": appText("one") });
    await harness.scan();
    expect(harness.resourceNames).toHaveLength(2);
    await harness.wait(1000);
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/one"]);
  });
});

describe("a spec file that is being written", () => {
  it("causes no deletion if it is empty for a moment", async () => {
    await apps(2);
    await harness.write({ "a0.yaml": "" });
    await harness.scan();
    await harness.wait(500);
    await harness.write({ "a0.yaml": appText("a0", "nginx:2") });
    await harness.scan();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.image("a0")).toBe("nginx:2");
  });

  it("deletes its resources if it stays empty", async () => {
    await apps(2);
    await harness.write({ "a0.yaml": "# nothing any more\n" });
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/a1"]);
    expect(harness.fileState("a0.yaml")).toBe("applied");
  });

  it("causes no deletion if it ends early, between two documents", async () => {
    const whole = joinDocuments(appText("one"), appText("two"), appText("three"));
    await harness.write({ "all.yaml": whole });
    await harness.scan();
    await harness.write({ "all.yaml": joinDocuments(appText("one"), appText("two")) });
    await harness.scan();
    await harness.write({ "all.yaml": whole });
    await harness.scan();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(3);
  });

  it("causes no deletion if a rename replaces it, as editors do", async () => {
    await apps(2);
    await harness.write({ "a0.yaml.tmp": appText("a0", "nginx:2") });
    await harness.scan();
    await harness.move("a0.yaml.tmp", "a0.yaml");
    await harness.scanTwice();
    expect(harness.image("a0")).toBe("nginx:2");
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });
});

describe("a rename of a spec file", () => {
  it("moves the resource and keeps its fields", async () => {
    await apps(2);
    const { uid, generation } = harness.app("a0").metadata;
    await harness.move("a0.yaml", "renamed.yaml");
    await harness.scanTwice();
    expect(harness.declaringManager("a0")).toBe("file:renamed.yaml");
    expect(harness.app("a0").metadata).toMatchObject({ uid, generation });
    expect(harness.app("a0").metadata.owners["/spec/image"]).toBe("file:renamed.yaml");
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });

  it("keeps the resource even if the file also changes and one scan finds neither file", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.scan();
    await harness.wait(300);
    await harness.write({ "renamed.yaml": appText("a0", "nginx:2") });
    await harness.scan();
    await harness.scanTwice();
    expect(harness.image("a0")).toBe("nginx:2");
    expect(harness.resourceNames).toHaveLength(2);
  });

  it("of a whole folder moves all its resources", async () => {
    await harness.write(
      Object.fromEntries(
        Array.from({ length: 20 }, (_, i) => [`old/a${i}.yaml`, appText(`a${i}`)]),
      ),
    );
    await harness.scan();
    await harness.move("old", "new");
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(20);
    expect(harness.declaringManager("a7")).toBe("file:new/a7.yaml");
    expect(harness.pending).toEqual([]);
  });

  it("while Berth is not running moves the resource too", async () => {
    await apps(2);
    await harness.move("a0.yaml", "renamed.yaml");
    await harness.restart();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.declaringManager("a0")).toBe("file:renamed.yaml");
  });

  it("that makes the file invalid keeps the resources that the file mentions, until the user confirms their deletion", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.write({ "renamed.yaml": appText("a0", "nginx", "  prot: 80\n") });
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.pending).toEqual(["App/a0 a0.yaml"]);
    await harness.write({ "renamed.yaml": appText("a0", "nginx", "  port: 80\n") });
    await harness.scanTwice();
    expect(harness.pending).toEqual([]);
    expect(harness.declaringManager("a0")).toBe("file:renamed.yaml");
  });

  it("to a file that the store refuses does not delete the resources that the new file declares", async () => {
    await harness.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await harness.scan();
    await harness.remove("a.yaml");
    await harness.write({ "c.yaml": joinDocuments(appText("a"), appText("b")) });
    await harness.scanTwice();
    expect(harness.fileState("c.yaml")).toMatch(/^conflict/);
    expect(harness.resourceNames).toEqual(["App/a", "App/b"]);
  });
});

it("a document that is moved to another spec file keeps its resource, whichever file name sorts first", async () => {
  await harness.write({
    "a.yaml": joinDocuments(appText("one"), appText("two")),
    "b.yaml": appText("three"),
  });
  await harness.scan();
  await harness.write({
    "a.yaml": joinDocuments(appText("one"), appText("three")),
    "b.yaml": appText("two"),
  });
  await harness.scanTwice();
  expect(harness.resourceNames).toHaveLength(3);
  expect(harness.declaringManager("two")).toBe("file:b.yaml");
  expect(harness.declaringManager("three")).toBe("file:a.yaml");
});

describe("many deletions of spec files at once", () => {
  it("wait for a confirmation, and are executed after it", async () => {
    await apps(5);
    await harness.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(5);
    expect(harness.pending).toEqual(["App/a0 a0.yaml", "App/a1 a1.yaml", "App/a2 a2.yaml"]);
    expect(harness.specs.report().message).toBe(
      "3 deletions wait until `berth prune --confirm` is run: 3 of 5 resources would be deleted at once",
    );
    expect(harness.eventsOf("PruneHeld")).toEqual([
      "PruneHeld : not deleted: App a0, App a1, App a2, because 3 of 5 resources would be deleted at once; to delete them run: berth prune --confirm",
    ]);
    expect(harness.specs.confirmPrune()).toEqual([
      { kind: "App", name: "a0", file: "a0.yaml" },
      { kind: "App", name: "a1", file: "a1.yaml" },
      { kind: "App", name: "a2", file: "a2.yaml" },
    ]);
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/a3", "App/a4"]);
    expect(harness.pending).toEqual([]);
    expect(harness.specs.confirmPrune()).toEqual([]);
  });

  it("still wait for a confirmation after a restart, although Berth stores no list of them", async () => {
    await apps(5);
    await harness.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await harness.scanTwice();
    await harness.restart();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(5);
    expect(harness.pending).toHaveLength(3);
    harness.specs.confirmPrune();
    await harness.scan();
    expect(harness.resourceNames).toHaveLength(2);
  });

  it("are confirmed only for the resources that the user has seen", async () => {
    await apps(10);
    await harness.remove("a0.yaml", "a1.yaml", "a2.yaml", "a3.yaml");
    await harness.scanTwice();
    harness.specs.confirmPrune();
    await harness.remove("a4.yaml", "a5.yaml", "a6.yaml", "a7.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(6);
    expect(harness.pending).toHaveLength(4);
  });

  it("no longer need a confirmation when the files are back", async () => {
    await apps(5);
    await harness.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await harness.scanTwice();
    await apps(5);
    expect(harness.pending).toEqual([]);
    expect(harness.specs.report().message).toBeNull();
    expect(harness.resourceNames).toHaveLength(5);
  });

  it("need no confirmation if they are a small part of all resources", async () => {
    await apps(10);
    await harness.remove("a0.yaml", "a1.yaml", "a2.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(7);
  });
});

describe("a specs folder without readable files", () => {
  it("deletes nothing if it is missing, and is reported", async () => {
    await apps(2);
    await rename(harness.folder, join(harness.root, "away"));
    await harness.scanTwice();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.specs.report()).toMatchObject({ state: "missing", pendingPrune: [] });
    expect(harness.specs.report().message).toContain("there is no such folder");
    expect(harness.specs.confirmPrune()).toEqual([]);
    expect(harness.eventsOf("SpecFolderMissing")).toHaveLength(1);
    await harness.restart();
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);

    await rename(join(harness.root, "away"), harness.folder);
    await harness.write({ "a0.yaml": appText("a0", "nginx:2") });
    await harness.scan();
    expect(harness.specs.report()).toMatchObject({ state: "watching", message: null });
    expect(harness.image("a0")).toBe("nginx:2");
  });

  it("delays a pending deletion: when the folder is back, the waiting time begins again", async () => {
    await apps(2);
    await harness.remove("a0.yaml");
    await harness.scan();
    await rename(harness.folder, join(harness.root, "away"));
    await harness.wait(1000);
    await harness.scan();
    await rename(join(harness.root, "away"), harness.folder);
    await harness.scan();
    expect(harness.resourceNames).toHaveLength(2);
  });

  it("keeps the resources if it cannot be read", async () => {
    await apps(2);
    await rename(harness.folder, join(harness.root, "away"));
    await symlink("specs", harness.folder);
    await harness.scanTwice();
    expect(harness.specs.report().state).toBe("unreadable");
    expect(harness.resourceNames).toHaveLength(2);
  });

  it("deletes the resources only after a confirmation if it is empty, as after an unmount", async () => {
    await apps(2);
    await harness.remove("a0.yaml", "a1.yaml");
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.specs.report().state).toBe("empty");
    expect(harness.pending).toHaveLength(2);
    harness.specs.confirmPrune();
    await harness.scan();
    expect(harness.resourceNames).toEqual([]);
    expect(harness.specs.report().state).toBe("watching");
  });

  it("is not reported as a problem if no resource was ever declared", async () => {
    await mkdir(harness.folder);
    await harness.scan();
    expect(harness.specs.report()).toMatchObject({ state: "watching", message: null, files: [] });
  });

  it("keeps the resources of a subfolder that cannot be read", async () => {
    await harness.write({ "team/a.yaml": appText("a"), "b.yaml": appText("b") });
    await harness.scan();
    await harness.move("team", "../team");
    await symlink("team", join(harness.folder, "team"));
    await harness.scanTwice();
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.pending).toEqual([]);
  });

  it("keeps, until a confirmation, the resources of a subfolder that another file system hides", async () => {
    const mounted = mkdtempSync("/dev/shm/berth-specs-");
    try {
      await writeFile(join(mounted, "a.yaml"), appText("a"));
      await harness.write({ "b.yaml": appText("b"), "../below/README.md": "" });
      expect(statSync(mounted).dev).not.toBe(statSync(harness.root).dev);
      await symlink(mounted, join(harness.folder, "team"));
      await harness.scan();
      expect(harness.resourceNames).toHaveLength(2);
      await rm(join(harness.folder, "team"));
      await symlink(join(harness.root, "below"), join(harness.folder, "team"));
      await harness.scanTwice();
      expect(harness.resourceNames).toHaveLength(2);
      expect(harness.specs.report().message).toContain(
        "another file system now hides the file of the resource",
      );
      harness.specs.confirmPrune();
      await harness.scan();
      expect(harness.resourceNames).toEqual(["App/b"]);
    } finally {
      rmSync(mounted, { recursive: true });
    }
  });
});

describe("a specs folder behind a link", () => {
  it("is followed to the next release when the link is swapped", async () => {
    await harness.write({ "../v1/a.yaml": appText("a", "v1"), "../v1/b.yaml": appText("b", "v1") });
    await harness.write({ "../v2/a.yaml": appText("a", "v2"), "../v2/c.yaml": appText("c", "v2") });
    await symlink("v1", harness.folder);
    await harness.scan();
    await symlink("v2", join(harness.root, "next"));
    await rename(join(harness.root, "next"), harness.folder);
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/a", "App/c"]);
    expect(harness.image("a")).toBe("v2");
  });

  it("is followed if it is a Kubernetes config map, whose files all change in one step", async () => {
    await harness.write({ "..1/a.yaml": appText("a", "v1"), "..1/b.yaml": appText("b", "v1") });
    await symlink("..1", join(harness.folder, "..data"));
    for (const name of ["a.yaml", "b.yaml"])
      await symlink(`..data/${name}`, join(harness.folder, name));
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/a", "App/b"]);

    await harness.write({ "..2/a.yaml": appText("a", "v2"), "..2/b.yaml": appText("b", "v2") });
    await symlink("..2", join(harness.folder, "..data_tmp"));
    await harness.move("..data_tmp", "..data");
    await harness.remove("..1");
    await harness.scanTwice();
    expect([harness.image("a"), harness.image("b")]).toEqual(["v2", "v2"]);
    expect(harness.resourceNames).toHaveLength(2);
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });
});
