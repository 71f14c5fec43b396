import { existsSync, lstatSync } from "node:fs";
import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import {
  createUnreachableError,
  FakeGitClient,
  SpecsGitHarness,
} from "../../../support/specs-git-harness.ts";
import { appText } from "../../../support/specs-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

function open(config: ConstructorParameters<typeof SpecsGitHarness>[1] = {}) {
  const git = new FakeGitClient();
  const world = new SpecsGitHarness(git, config);
  onTestFinished(() => world[Symbol.asyncDispose]());
  return { git, world };
}

it("writes the spec files of the repository to a folder of their own, and they are applied", async () => {
  const { git, world } = open();
  git.files = {
    "web.yaml": appText("web"),
    "db/db.yml": appText("db"),
    "README.md": "# Shop",
    ".github/ci.yaml": "on: push",
    "src/index.js": "",
  };
  await world.write("mine.yaml", appText("mine"));
  const report = await world.sync();
  expect(report).toEqual({
    url: "https://git.example/team/shop.git",
    ref: "main",
    path: ".",
    folder: "shop",
    commit: git.commit,
    state: "following",
    message: null,
    checkedAt: "2030-01-01T00:00:00.000Z",
    appliedAt: "2030-01-01T00:00:00.000Z",
  });
  expect(await world.files()).toEqual([
    "mine.yaml",
    "shop/.berth-git.json",
    "shop/db/db.yml",
    "shop/web.yaml",
  ]);
  expect(await world.marker()).toEqual({
    url: "https://git.example/team/shop.git",
    ref: "main",
    commit: git.commit,
    applied_at: "2030-01-01T00:00:00.000Z",
  });
  expect(world.apps).toEqual(["db", "mine", "web"]);
  expect(world.fileStates()).toEqual({
    "mine.yaml": "applied",
    "shop/db/db.yml": "applied",
    "shop/web.yaml": "applied",
  });
  expect(world.events("SpecsGitApplied")).toEqual([
    `commit ${git.commit.slice(0, 12)} of main is in shop/: 2 files written, 0 removed`,
  ]);
  expect(git.limits).toEqual({ bytesMax: 64 * 1024 * 1024, filesMax: 20_000 });
  expect(await readdir(join(world.root, "checkouts"))).toEqual([]);
});

it("applies changed, new, moved and deleted files at each interval", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b"), "c.yaml": appText("c") };
  world.follower.start();
  await vi.waitFor(() => expect(world.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  git.push({
    "a.yaml": appText("a", "nginx:2"),
    "moved/b.yaml": appText("b"),
    "d.yaml": appText("d"),
  });
  await world.clock.advance(59_999);
  expect(git.resolves).toBe(1);
  await world.clock.advance(1);
  await vi.waitFor(() => expect(world.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  await world.scanTwice();
  expect(world.apps).toEqual(["a", "b", "d"]);
  expect(world.store.get("App", "a")?.spec.image).toBe("nginx:2");
  expect(await world.files()).toEqual([
    "shop/.berth-git.json",
    "shop/a.yaml",
    "shop/d.yaml",
    "shop/moved/b.yaml",
  ]);
  git.push({ "a.yaml": appText("a", "nginx:2"), "b.yaml": appText("b") });
  await world.sync();
  expect(existsSync(join(world.folder, "shop/moved"))).toBe(false);
});

it("resolves only the commit while nothing changes", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.sync();
  await world.clock.advance(5_000);
  const report = await world.sync();
  expect(git).toMatchObject({ resolves: 2, checkouts: 1 });
  expect(report).toMatchObject({
    checkedAt: "2030-01-01T00:00:05.000Z",
    appliedAt: "2030-01-01T00:00:00.000Z",
  });
});

it("restores files that were changed by hand, and reports it", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b") };
  await world.sync();
  await world.write("shop/a.yaml", appText("a", "mine:1"));
  await rm(join(world.folder, "shop/b.yaml"));
  await world.write("shop/sub/c.yaml", appText("c"));
  await world.write("shop/notes.txt", "kept");
  await world.sync();
  expect(await world.read("shop/a.yaml")).toBe(appText("a"));
  expect(await world.files()).toEqual([
    "shop/.berth-git.json",
    "shop/a.yaml",
    "shop/b.yaml",
    "shop/notes.txt",
  ]);
  expect(world.events("SpecsGitDrift")).toEqual([
    "changed by hand, and restored from the repository: shop/a.yaml, shop/b.yaml, shop/sub/c.yaml",
  ]);
  await world.restart();
  await world.write("shop/a.yaml", appText("a", "mine:2"));
  await world.sync();
  expect(await world.read("shop/a.yaml")).toBe(appText("a"));
  expect(world.events("SpecsGitDrift")).toHaveLength(2);
});

it("does not touch a folder that it does not own", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.write("shop/old.yaml", appText("old"));
  expect(await world.sync()).toMatchObject({
    state: "failing",
    commit: null,
    message:
      '"shop" in the watched folder is not Berth\'s own; move it away, so that the files of the repository can be written there',
  });
  expect(await world.files()).toEqual(["shop/old.yaml"]);
  await rm(join(world.folder, "shop"), { recursive: true });
  await mkdir(join(world.root, "elsewhere"));
  await symlink(join(world.root, "elsewhere"), join(world.folder, "shop"));
  expect((await world.sync()).state).toBe("failing");
  expect(await readdir(join(world.root, "elsewhere"))).toEqual([]);
  expect(await readdir(world.folder)).toEqual(["shop"]);
});

it("does not touch a folder any more whose marker was removed", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.sync();
  await rm(join(world.folder, "shop/.berth-git.json"));
  await world.write("shop/a.yaml", appText("a", "mine:1"));
  expect(await world.sync()).toMatchObject({ state: "failing" });
  expect(await world.read("shop/a.yaml")).toBe(appText("a", "mine:1"));
});

it("uses an empty folder of its name", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await mkdir(join(world.folder, "shop"), { recursive: true });
  expect((await world.sync()).state).toBe("following");
});

it("follows no link, neither of the repository nor of the folder", async () => {
  const { git, world } = open();
  const outside = join(world.root, "outside");
  await mkdir(outside);
  await writeFile(join(outside, "secret.yaml"), appText("secret"));
  git.files = {
    "a.yaml": appText("a"),
    "link.yaml": { link: join(outside, "secret.yaml") },
    dir: { link: outside },
    "sub/b.yaml": appText("b"),
  };
  await world.sync();
  expect(await world.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/sub/b.yaml"]);
  await rm(join(world.folder, "shop/sub"), { recursive: true });
  await symlink(outside, join(world.folder, "shop/sub"));
  await symlink(join(outside, "secret.yaml"), join(world.folder, "shop/c.yaml"));
  await writeFile(join(outside, "same.yaml"), appText("a"));
  await rm(join(world.folder, "shop/a.yaml"));
  await symlink(join(outside, "same.yaml"), join(world.folder, "shop/a.yaml"));
  await world.sync();
  expect(await readdir(outside)).toEqual(["same.yaml", "secret.yaml"]);
  expect(lstatSync(join(world.folder, "shop/a.yaml")).isFile()).toBe(true);
  expect(lstatSync(join(world.folder, "shop/sub")).isDirectory()).toBe(true);
  expect(await world.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/sub/b.yaml"]);
});

it("follows a folder of the repository", async () => {
  const { git, world } = open({ path: "deploy/prod" });
  git.files = { "deploy/prod/a.yaml": appText("a"), "other.yaml": appText("other") };
  await world.sync();
  expect(await world.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml"]);
});

it.each([
  ["gone", { "other/a.yaml": appText("a") }, "no folder deploy"],
  ["a link", { deploy: { link: "other" }, "other/a.yaml": appText("a") }, "no folder deploy"],
  ["without specs", { "deploy/README.md": "" }, "holds no spec file"],
])("removes nothing if the path is %s", async (_, files, why) => {
  const { git, world } = open({ path: "deploy" });
  git.files = { "deploy/a.yaml": appText("a") };
  await world.sync();
  git.push(files);
  const report = await world.sync();
  expect(report.state).toBe("failing");
  expect(report.message).toContain(why);
  expect(report.message).not.toContain(world.root);
  await world.scanTwice();
  expect(world.apps).toEqual(["a"]);
});

it("reads nothing outside the repository, whatever the path is", async () => {
  const { git, world } = open({ path: "../../specs" });
  git.files = { "a.yaml": appText("a") };
  await world.write("mine.yaml", appText("mine"));
  expect((await world.sync()).message).toContain("no folder ../../specs");
});

it("keeps the last state while the repository is away, reports it once, and recovers", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  world.follower.start();
  await vi.waitFor(() => expect(world.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  git.failure = createUnreachableError();
  await world.clock.advance(60_000);
  await vi.waitFor(() => expect(world.follower.report().state).toBe("failing"), WAIT_OPTIONS);
  expect(world.follower.report()).toMatchObject({
    commit: git.commit,
    message: "git.example does not answer; try later",
  });
  for (const [index, waitMs] of [5_000, 10_000, 20_000, 40_000].entries()) {
    expect(git.resolves).toBe(index + 2);
    await world.clock.advance(waitMs - 1);
    expect(git.resolves).toBe(index + 2);
    await world.clock.advance(1);
    await vi.waitFor(() => expect(git.resolves).toBe(index + 3), WAIT_OPTIONS);
    await vi.waitFor(
      () =>
        expect(world.follower.report().checkedAt).toBe(new Date(world.clock.now()).toISOString()),
      WAIT_OPTIONS,
    );
  }
  expect(world.events("SpecsGitFailed")).toEqual([
    "git.example does not answer; try later (what was followed before stays as it is)",
  ]);
  git.failure = new BerthError("git_denied", "git.example wants a credential");
  await world.sync();
  expect(world.events("SpecsGitFailed")).toHaveLength(2);
  git.failure = undefined;
  expect(await world.sync()).toMatchObject({ state: "following", message: null });
  expect(world.apps).toEqual(["a"]);
});

it("applies the rules of the watched folder: invalid files change nothing, mass deletions are held", async () => {
  const { git, world } = open();
  const names = ["a", "b", "c", "d"];
  git.files = Object.fromEntries(names.map((name) => [`${name}.yaml`, appText(name)]));
  await world.sync();
  git.push({ ...git.files, "a.yaml": "kind: [" });
  await world.sync();
  await world.scanTwice();
  expect(world.apps).toEqual(names);
  expect(world.fileStates()["shop/a.yaml"]).toBe("invalid");
  git.push({ "d.yaml": appText("d") });
  await world.sync();
  await world.scanTwice();
  expect(world.apps).toEqual(names);
  expect(world.events("PruneHeld")).toHaveLength(1);
});

it("does not write to a watched folder that is missing or not mounted", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.write("mine.yaml", appText("mine"));
  await world.scanTwice();
  await rm(world.folder, { recursive: true });
  expect(await world.sync()).toMatchObject({
    state: "failing",
    message: expect.stringContaining("not there, or empty"),
  });
  expect(existsSync(world.folder)).toBe(false);
  await mkdir(world.folder);
  expect((await world.sync()).state).toBe("failing");
  await world.write("mine.yaml", appText("mine"));
  expect((await world.sync()).state).toBe("following");
  expect(world.apps).toEqual(["a", "mine"]);
});

it("converges after an interruption between two files", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b") };
  await world.sync();
  const first = git.commit;
  git.push({ "a.yaml": appText("a", "nginx:2"), "c.yaml": appText("c") });
  // The state after a kill between two files: one is new, one half written, none is removed yet.
  await world.write("shop/a.yaml", appText("a", "nginx:2"));
  await world.write("shop/.berth-git.0123456789ab.tmp", "half");
  await mkdir(join(world.root, "checkouts/checkout-left"), { recursive: true });
  await world.restart();
  expect(await world.marker()).toMatchObject({ commit: first });
  world.follower.start();
  await vi.waitFor(() => expect(world.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  await world.scanTwice();
  expect(await world.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/c.yaml"]);
  expect(world.apps).toEqual(["a", "c"]);
  expect(await world.marker()).toMatchObject({ commit: git.commit });
  expect(world.events("SpecsGitDrift")).toEqual([]);
  expect(await readdir(join(world.root, "checkouts"))).toEqual([]);
});

it("shows the commit of the last run before the repository has answered", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.sync();
  git.failure = createUnreachableError();
  await world.restart();
  world.follower.start();
  await vi.waitFor(() => expect(world.follower.report().state).toBe("failing"), WAIT_OPTIONS);
  expect(world.follower.report()).toMatchObject({
    commit: git.commit,
    appliedAt: "2030-01-01T00:00:00.000Z",
  });
});

it("uses the credential of the Secret, and names a missing one", async () => {
  const { git, world } = open({ credential: "git-token" });
  git.files = { "a.yaml": appText("a") };
  expect((await world.sync()).message).toBe(
    "there is no Secret git-token; make it: berth secrets set git-token token=-",
  );
  world.store.apply({
    kind: "Secret",
    name: "git-token",
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec: { data: { token: "t0ps3cret" } },
  });
  expect((await world.sync()).state).toBe("following");
  expect(git.remotes.at(-1)?.credential).toMatchObject({ type: "token", token: "t0ps3cret" });
});

it("shows no user and no password of the URL", async () => {
  const { git, world } = open({ url: "https://me:t0ps3cret@git.example/team/shop.git" });
  git.files = { "a.yaml": appText("a") };
  expect((await world.sync()).url).toBe("https://git.example/team/shop.git");
  expect(JSON.stringify(await world.marker())).not.toContain("t0ps3cret");
});

it("fetches at once after a push to its repository", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  await world.sync();
  git.push({ "b.yaml": appText("b") });
  const { follower } = world;
  expect(follower.handlePush(["https://git.example/other.git"], "refs/heads/main")).toBe(false);
  expect(follower.handlePush(["git@git.example:team/shop.git"], "refs/heads/next")).toBe(false);
  expect(git.resolves).toBe(1);
  expect(follower.handlePush(["git@git.example:team/shop.git"], "refs/heads/main")).toBe(true);
  await vi.waitFor(() => expect(follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
});

it("runs one round at a time; a sync during a round gets another one", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  let atOnce = 0;
  git.onCheckout = async () => {
    atOnce += 1;
    expect(atOnce).toBe(1);
    if (git.checkouts === 1) git.push({ "b.yaml": appText("b") });
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
  };
  const first = world.sync();
  await vi.waitFor(() => expect(git.checkouts).toBe(1), WAIT_OPTIONS);
  const others = await Promise.all([world.sync(), world.sync(), world.sync()]);
  await first;
  expect(git.checkouts).toBe(2);
  for (const report of others) expect(report.commit).toBe(git.commit);
  expect(await world.files()).toEqual(["shop/.berth-git.json", "shop/b.yaml"]);
});

it("rejects a sync whose caller aborts", async () => {
  const { git, world } = open();
  git.files = { "a.yaml": appText("a") };
  const gone = new AbortController();
  const sync = world.follower.sync(gone.signal);
  gone.abort();
  await expect(sync).rejects.toThrow(/abort/);
  await vi.waitFor(() => expect(world.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
});
