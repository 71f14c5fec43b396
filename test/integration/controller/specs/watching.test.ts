import { mkdir, readdir, readFile, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../../src/base/clock.ts";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

/** These tests use the real clock and the real file system, so every expectation waits for a condition. */

let harness: SpecsHarness;
let stop: AbortController;

beforeEach(() => {
  harness = new SpecsHarness(systemClock);
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await harness[Symbol.asyncDispose]();
});

const until = (condition: () => void) => vi.waitFor(condition, { ...WAIT_OPTIONS, interval: 10 });
const start = () => harness.specs.start(stop.signal);

/** Counts the watches that this process has asked the kernel for. */
async function countWatches(): Promise<number> {
  let count = 0;
  for (const descriptor of await readdir("/proc/self/fdinfo")) {
    const info = await readFile(`/proc/self/fdinfo/${descriptor}`, "utf8").catch(() => "");
    count += info.split("\n").filter((line) => line.startsWith("inotify wd:")).length;
  }
  return count;
}

describe("a watched specs folder", () => {
  it("has applied everything when start resolves", async () => {
    await harness.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    expect(harness.resourceNames).toEqual(["App/a", "App/b"]);
  });

  it("follows created, changed, moved and deleted files", async () => {
    await harness.write({ "a.yaml": appText("a"), "keep.yaml": appText("keep") });
    await start();
    await harness.write({ "new.yaml": appText("new") });
    await until(() => expect(harness.resourceNames).toContain("App/new"));
    await harness.write({ "new.yaml": appText("new", "nginx:2") });
    await until(() => expect(harness.image("new")).toBe("nginx:2"));
    await mkdir(join(harness.folder, "team"));
    await harness.move("new.yaml", "team/moved.yaml");
    await until(() => expect(harness.declaringManager("new")).toBe("file:team/moved.yaml"));
    await harness.write({ "team/moved.yaml": appText("new", "nginx:3") });
    await until(() => expect(harness.image("new")).toBe("nginx:3"));
    await harness.remove("team");
    await until(() => expect(harness.resourceNames).toEqual(["App/a", "App/keep"]));
  });

  it("follows a file that is written in parts, and reports it as invalid while it is incomplete", async () => {
    await harness.write({ "a.yaml": appText("a") });
    await start();
    const whole = joinDocuments(appText("a", "nginx:2"), appText("b"));
    await writeFile(join(harness.folder, "a.yaml"), whole.slice(0, 40));
    await until(() => expect(harness.fileState("a.yaml")).toMatch(/^invalid/));
    expect(harness.image("a")).toBe("nginx");
    await writeFile(join(harness.folder, "a.yaml"), whole);
    await until(() => expect(harness.resourceNames).toEqual(["App/a", "App/b"]));
    expect(harness.image("a")).toBe("nginx:2");
  });

  it("follows every save of an editor that unlinks, renames or writes in place", async () => {
    await harness.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    const file = join(harness.folder, "a.yaml");
    for (let round = 0; round < 12; round += 1) {
      const text = appText("a", `nginx:${round}`);
      if (round % 3 === 0) {
        await unlink(file);
        await writeFile(file, text);
      } else if (round % 3 === 1) {
        await writeFile(join(harness.folder, ".a.yaml.swp"), text);
        await rename(join(harness.folder, ".a.yaml.swp"), file);
      } else {
        await writeFile(file, text);
      }
      await until(() => expect(harness.image("a")).toBe(`nginx:${round}`));
    }
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });

  it("waits for a folder whose parents do not exist either", async () => {
    await start();
    expect(harness.specs.report().state).toBe("missing");
    await harness.write({ "a.yaml": appText("a") });
    await until(() => expect(harness.resourceNames).toEqual(["App/a"]));
    await harness.write({ "b.yaml": appText("b") });
    await until(() => expect(harness.resourceNames).toEqual(["App/a", "App/b"]));
  });

  it("follows a folder that was deleted and created again", async () => {
    await harness.write({ "a.yaml": appText("a") });
    await start();
    await rm(harness.folder, { recursive: true });
    await harness.write({ "a.yaml": appText("a", "nginx:2") });
    await until(() => expect(harness.image("a")).toBe("nginx:2"));
    await harness.write({ "a.yaml": appText("a", "nginx:3") });
    await until(() => expect(harness.image("a")).toBe("nginx:3"));
  });

  it("follows a linked folder to the new target of its link", async () => {
    await harness.write({ "../v1/a.yaml": appText("a", "v1"), "../v2/a.yaml": appText("a", "v2") });
    await symlink("v1", harness.folder);
    await start();
    await symlink("v2", join(harness.root, "next"));
    await rename(join(harness.root, "next"), harness.folder);
    await until(() => expect(harness.image("a")).toBe("v2"));
    await harness.write({ "../v2/a.yaml": appText("a", "v2.1") });
    await until(() => expect(harness.image("a")).toBe("v2.1"));
  });

  it("follows a folder that is a Kubernetes config map", async () => {
    await harness.write({ "..1/a.yaml": appText("a", "v1") });
    await symlink("..1", join(harness.folder, "..data"));
    await symlink("..data/a.yaml", join(harness.folder, "a.yaml"));
    await start();
    for (const version of [2, 3]) {
      await harness.write({ [`..${version}/a.yaml`]: appText("a", `v${version}`) });
      await symlink(`..${version}`, join(harness.folder, "..data_tmp"));
      await harness.move("..data_tmp", "..data");
      await harness.remove(`..${version - 1}`);
      await until(() => expect(harness.image("a")).toBe(`v${version}`));
    }
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });

  it("watches no folder behind a link to the whole disk, and follows the other files", async () => {
    await harness.write({ "a.yaml": appText("a") });
    await symlink("/", join(harness.folder, "disk"));
    const before = await countWatches();
    await start();
    await harness.write({ "new.yaml": appText("new") });
    await until(() => expect(harness.resourceNames).toContain("App/new"));
    expect((await countWatches()) - before).toBeLessThan(10);
    expect(harness.specs.report().message).toBe(
      "the folder disk is not read: a link to a folder that contains the link itself",
    );
  });

  it("follows the files behind a link to another folder, and folders that are added there later", async () => {
    const other = join(harness.folder, "../other");
    await mkdir(other);
    await writeFile(join(other, "o.yaml"), appText("o"));
    await mkdir(harness.folder, { recursive: true });
    await symlink(other, join(harness.folder, "linked"));
    await start();
    await writeFile(join(other, "o.yaml"), appText("o", "nginx:2"));
    await until(() => expect(harness.image("o")).toBe("nginx:2"));
    await mkdir(join(other, "sub/deep"), { recursive: true });
    await writeFile(join(other, "sub/deep/d.yaml"), appText("d"));
    await until(() => expect(harness.resourceNames).toContain("App/d"));
    await writeFile(join(other, "sub/deep/d.yaml"), appText("d", "nginx:2"));
    await until(() => expect(harness.image("d")).toBe("nginx:2"));
  });

  it("deletes resources immediately when the user confirms their deletion", async () => {
    await harness.write({ "a.yaml": appText("a") });
    await start();
    await harness.remove("a.yaml");
    await until(() => expect(harness.pending).toEqual(["App/a a.yaml"]));
    expect(harness.specs.confirmPrune()).toHaveLength(1);
    await until(() => expect(harness.resourceNames).toEqual([]));
  });

  it("applies a resource as soon as the deletion of an earlier resource of the same name is complete", async () => {
    await harness.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    await harness.remove("a.yaml");
    await until(() => expect(harness.resourceNames).toEqual(["App/b"]));
    await harness.write({ "a.yaml": appText("a", "nginx:2") });
    await until(() => expect(harness.fileState("a.yaml")).toMatch(/^conflict/));
    harness.finishDeletion("a");
    await until(() => expect(harness.image("a")).toBe("nginx:2"));
  });

  it("stops when it is disposed of, and applies nothing afterwards", async () => {
    await harness.write({ "a.yaml": appText("a") });
    await start();
    stop.abort();
    await harness.specs[Symbol.asyncDispose]();
    await harness.write({ "b.yaml": appText("b") });
    await expect(harness.scan()).rejects.toThrow(/abort/i);
    expect(harness.resourceNames).toEqual(["App/a"]);
  });
});

describe("a folder of a thousand files", () => {
  const COUNT = 1000;

  it("is applied, and then only changed files are read", { timeout: 60_000 }, async () => {
    await harness.write(
      Object.fromEntries(
        Array.from({ length: COUNT }, (_, index) => [
          `team${index % 10}/a${index}.yaml`,
          appText(`a${index}`),
        ]),
      ),
    );
    await start();
    expect(harness.resourceNames).toHaveLength(COUNT);

    const sequence = harness.store.lastSequence;
    const times = () => harness.specs.report().files.map(({ time }) => time);
    const before = times();
    for (let round = 0; round < 5; round += 1) {
      await harness.write({
        [`team${round}/a${round}.yaml`]: appText(`a${round}`, `nginx:${round}`),
      });
      await until(() => expect(harness.image(`a${round}`)).toBe(`nginx:${round}`));
    }
    expect(times().filter((time, index) => time !== before[index])).toHaveLength(5);
    const written = harness.store.changesSince(sequence, COUNT) ?? [];
    expect(written.filter(({ type }) => type === "modified")).toHaveLength(5);
  });
});
