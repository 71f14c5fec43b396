import { mkdir, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../../src/base/clock.ts";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

/** Uses the real clock and the real file system, so every expectation is a wait for a condition. */
let world: SpecsHarness;
let stop: AbortController;

beforeEach(() => {
  world = new SpecsHarness(systemClock);
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await world[Symbol.asyncDispose]();
});

const until = (condition: () => void) => vi.waitFor(condition, { ...WAIT_OPTIONS, interval: 10 });
const start = () => world.specs.start(stop.signal);

describe("a started folder", () => {
  it("has applied everything when start resolves", async () => {
    await world.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    expect(world.resourceNames).toEqual(["App/a", "App/b"]);
  });

  it("follows created, changed, moved and deleted files", async () => {
    await world.write({ "a.yaml": appText("a"), "keep.yaml": appText("keep") });
    await start();
    await world.write({ "new.yaml": appText("new") });
    await until(() => expect(world.resourceNames).toContain("App/new"));
    await world.write({ "new.yaml": appText("new", "nginx:2") });
    await until(() => expect(world.image("new")).toBe("nginx:2"));
    await mkdir(join(world.folder, "team"));
    await world.move("new.yaml", "team/moved.yaml");
    await until(() => expect(world.declaringManager("new")).toBe("file:team/moved.yaml"));
    await world.write({ "team/moved.yaml": appText("new", "nginx:3") });
    await until(() => expect(world.image("new")).toBe("nginx:3"));
    await world.remove("team");
    await until(() => expect(world.resourceNames).toEqual(["App/a", "App/keep"]));
  });

  it("follows a file that is written in parts, and reports it as invalid while it is incomplete", async () => {
    await world.write({ "a.yaml": appText("a") });
    await start();
    const whole = joinDocuments(appText("a", "nginx:2"), appText("b"));
    await writeFile(join(world.folder, "a.yaml"), whole.slice(0, 40));
    await until(() => expect(world.fileState("a.yaml")).toMatch(/^invalid/));
    expect(world.image("a")).toBe("nginx");
    await writeFile(join(world.folder, "a.yaml"), whole);
    await until(() => expect(world.resourceNames).toEqual(["App/a", "App/b"]));
    expect(world.image("a")).toBe("nginx:2");
  });

  it("follows every save of an editor that unlinks, renames or writes in place", async () => {
    await world.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    const file = join(world.folder, "a.yaml");
    for (let round = 0; round < 12; round += 1) {
      const text = appText("a", `nginx:${round}`);
      if (round % 3 === 0) {
        await unlink(file);
        await writeFile(file, text);
      } else if (round % 3 === 1) {
        await writeFile(join(world.folder, ".a.yaml.swp"), text);
        await rename(join(world.folder, ".a.yaml.swp"), file);
      } else {
        await writeFile(file, text);
      }
      await until(() => expect(world.image("a")).toBe(`nginx:${round}`));
    }
    expect(world.eventsOf("Pruned")).toEqual([]);
  });

  it("waits for a folder that does not exist, nor any of its parents", async () => {
    await start();
    expect(world.specs.report().state).toBe("missing");
    await world.write({ "a.yaml": appText("a") });
    await until(() => expect(world.resourceNames).toEqual(["App/a"]));
    await world.write({ "b.yaml": appText("b") });
    await until(() => expect(world.resourceNames).toEqual(["App/a", "App/b"]));
  });

  it("follows a folder that was deleted and created again", async () => {
    await world.write({ "a.yaml": appText("a") });
    await start();
    await rm(world.folder, { recursive: true });
    await world.write({ "a.yaml": appText("a", "nginx:2") });
    await until(() => expect(world.image("a")).toBe("nginx:2"));
    await world.write({ "a.yaml": appText("a", "nginx:3") });
    await until(() => expect(world.image("a")).toBe("nginx:3"));
  });

  it("follows a linked folder to the new target of its link", async () => {
    await world.write({ "../v1/a.yaml": appText("a", "v1"), "../v2/a.yaml": appText("a", "v2") });
    await symlink("v1", world.folder);
    await start();
    await symlink("v2", join(world.root, "next"));
    await rename(join(world.root, "next"), world.folder);
    await until(() => expect(world.image("a")).toBe("v2"));
    await world.write({ "../v2/a.yaml": appText("a", "v2.1") });
    await until(() => expect(world.image("a")).toBe("v2.1"));
  });

  it("follows a config map", async () => {
    await world.write({ "..1/a.yaml": appText("a", "v1") });
    await symlink("..1", join(world.folder, "..data"));
    await symlink("..data/a.yaml", join(world.folder, "a.yaml"));
    await start();
    for (const version of [2, 3]) {
      await world.write({ [`..${version}/a.yaml`]: appText("a", `v${version}`) });
      await symlink(`..${version}`, join(world.folder, "..data_tmp"));
      await world.move("..data_tmp", "..data");
      await world.remove(`..${version - 1}`);
      await until(() => expect(world.image("a")).toBe(`v${version}`));
    }
    expect(world.eventsOf("Pruned")).toEqual([]);
  });

  it("deletes at once what the user confirms", async () => {
    await world.write({ "a.yaml": appText("a") });
    await start();
    await world.remove("a.yaml");
    await until(() => expect(world.pending).toEqual(["App/a a.yaml"]));
    expect(world.specs.confirmPrune()).toHaveLength(1);
    await until(() => expect(world.resourceNames).toEqual([]));
  });

  it("applies a resource as soon as its name is free", async () => {
    await world.write({ "a.yaml": appText("a"), "b.yaml": appText("b") });
    await start();
    await world.remove("a.yaml");
    await until(() => expect(world.resourceNames).toEqual(["App/b"]));
    await world.write({ "a.yaml": appText("a", "nginx:2") });
    await until(() => expect(world.fileState("a.yaml")).toMatch(/^conflict/));
    world.finishDeletion("a");
    await until(() => expect(world.image("a")).toBe("nginx:2"));
  });

  it("stops when it is disposed of, and starts nothing more", async () => {
    await world.write({ "a.yaml": appText("a") });
    await start();
    stop.abort();
    await world.specs[Symbol.asyncDispose]();
    await world.write({ "b.yaml": appText("b") });
    await expect(world.scan()).rejects.toThrow(/abort/i);
    expect(world.resourceNames).toEqual(["App/a"]);
  });
});

describe("a folder of a thousand files", () => {
  const COUNT = 1000;

  it("is applied, and then only changed files are read", { timeout: 60_000 }, async () => {
    await world.write(
      Object.fromEntries(
        Array.from({ length: COUNT }, (_, index) => [
          `team${index % 10}/a${index}.yaml`,
          appText(`a${index}`),
        ]),
      ),
    );
    await start();
    expect(world.resourceNames).toHaveLength(COUNT);

    const sequence = world.store.lastSequence;
    const times = () => world.specs.report().files.map(({ time }) => time);
    const before = times();
    for (let round = 0; round < 5; round += 1) {
      await world.write({
        [`team${round}/a${round}.yaml`]: appText(`a${round}`, `nginx:${round}`),
      });
      await until(() => expect(world.image(`a${round}`)).toBe(`nginx:${round}`));
    }
    expect(times().filter((time, index) => time !== before[index])).toHaveLength(5);
    const written = world.store.changesSince(sequence, COUNT) ?? [];
    expect(written.filter(({ type }) => type === "modified")).toHaveLength(5);
  });
});
