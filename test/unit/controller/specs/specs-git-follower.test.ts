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
import { applyResource } from "../../../support/test-store.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

function open(config: ConstructorParameters<typeof SpecsGitHarness>[1] = {}) {
  const git = new FakeGitClient();
  const harness = new SpecsGitHarness(git, config);
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return { git, harness };
}

it("the specs follower writes the spec files of the repository to a folder of their own, and they are applied", async () => {
  const { git, harness } = open();
  git.files = {
    "web.yaml": appText("web"),
    "db/db.yml": appText("db"),
    "README.md": "# Shop",
    ".github/ci.yaml": "on: push",
    "src/index.js": "",
  };
  await harness.write("mine.yaml", appText("mine"));
  const report = await harness.sync();
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
  expect(await harness.files()).toEqual([
    "mine.yaml",
    "shop/.berth-git.json",
    "shop/db/db.yml",
    "shop/web.yaml",
  ]);
  expect(await harness.marker()).toEqual({
    url: "https://git.example/team/shop.git",
    ref: "main",
    commit: git.commit,
    applied_at: "2030-01-01T00:00:00.000Z",
  });
  expect(harness.apps).toEqual(["db", "mine", "web"]);
  expect(harness.fileStates()).toEqual({
    "mine.yaml": "applied",
    "shop/db/db.yml": "applied",
    "shop/web.yaml": "applied",
  });
  expect(harness.events("SpecsGitApplied")).toEqual([
    `commit ${git.commit.slice(0, 12)} of main is in shop/: 2 files written, 0 removed`,
  ]);
  expect(git.limits).toEqual({ bytesMax: 64 * 1024 * 1024, filesMax: 20_000 });
  expect(await readdir(join(harness.root, "checkouts"))).toEqual([]);
});

it("the specs follower applies changed, new, moved and deleted files at each interval", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b"), "c.yaml": appText("c") };
  harness.follower.start();
  await vi.waitFor(() => expect(harness.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  git.push({
    "a.yaml": appText("a", "nginx:2"),
    "moved/b.yaml": appText("b"),
    "d.yaml": appText("d"),
  });
  await harness.clock.advance(59_999);
  expect(git.resolves).toBe(1);
  await harness.clock.advance(1);
  await vi.waitFor(() => expect(harness.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  await harness.scanTwice();
  expect(harness.apps).toEqual(["a", "b", "d"]);
  expect(harness.store.get("App", "a")?.spec.image).toBe("nginx:2");
  expect(await harness.files()).toEqual([
    "shop/.berth-git.json",
    "shop/a.yaml",
    "shop/d.yaml",
    "shop/moved/b.yaml",
  ]);
  git.push({ "a.yaml": appText("a", "nginx:2"), "b.yaml": appText("b") });
  await harness.sync();
  expect(existsSync(join(harness.folder, "shop/moved"))).toBe(false);
});

it("the specs follower resolves only the commit while the repository does not change", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.sync();
  await harness.clock.advance(5_000);
  const report = await harness.sync();
  expect(git).toMatchObject({ resolves: 2, checkouts: 1 });
  expect(report).toMatchObject({
    checkedAt: "2030-01-01T00:00:05.000Z",
    appliedAt: "2030-01-01T00:00:00.000Z",
  });
});

it("the specs follower restores files that were changed by hand, and reports the restoration", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b") };
  await harness.sync();
  await harness.write("shop/a.yaml", appText("a", "mine:1"));
  await rm(join(harness.folder, "shop/b.yaml"));
  await harness.write("shop/sub/c.yaml", appText("c"));
  await harness.write("shop/notes.txt", "kept");
  await harness.sync();
  expect(await harness.read("shop/a.yaml")).toBe(appText("a"));
  expect(await harness.files()).toEqual([
    "shop/.berth-git.json",
    "shop/a.yaml",
    "shop/b.yaml",
    "shop/notes.txt",
  ]);
  expect(harness.events("SpecsGitDrift")).toEqual([
    "files were changed by hand, and Berth restored them from the repository: shop/a.yaml, shop/b.yaml, shop/sub/c.yaml",
  ]);
  await harness.restart();
  await harness.write("shop/a.yaml", appText("a", "mine:2"));
  await harness.sync();
  expect(await harness.read("shop/a.yaml")).toBe(appText("a"));
  expect(harness.events("SpecsGitDrift")).toHaveLength(2);
});

it("the specs follower does not touch an existing folder that lacks the follower's marker file", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.write("shop/old.yaml", appText("old"));
  expect(await harness.sync()).toMatchObject({
    state: "failing",
    commit: null,
    message:
      '"shop" in the watched folder is not Berth\'s own; move the folder away, so that the files of the repository can be written there',
  });
  expect(await harness.files()).toEqual(["shop/old.yaml"]);
  await rm(join(harness.folder, "shop"), { recursive: true });
  await mkdir(join(harness.root, "elsewhere"));
  await symlink(join(harness.root, "elsewhere"), join(harness.folder, "shop"));
  expect((await harness.sync()).state).toBe("failing");
  expect(await readdir(join(harness.root, "elsewhere"))).toEqual([]);
  expect(await readdir(harness.folder)).toEqual(["shop"]);
});

it("the specs follower no longer changes its folder once the user has removed the marker file .berth-git.json", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.sync();
  await rm(join(harness.folder, "shop/.berth-git.json"));
  await harness.write("shop/a.yaml", appText("a", "mine:1"));
  expect(await harness.sync()).toMatchObject({ state: "failing" });
  expect(await harness.read("shop/a.yaml")).toBe(appText("a", "mine:1"));
});

it("the specs follower uses an existing folder at its own path if the folder is empty", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await mkdir(join(harness.folder, "shop"), { recursive: true });
  expect((await harness.sync()).state).toBe("following");
});

it("the specs follower follows no link, neither in the repository nor in the folder", async () => {
  const { git, harness } = open();
  const outside = join(harness.root, "outside");
  await mkdir(outside);
  await writeFile(join(outside, "secret.yaml"), appText("secret"));
  git.files = {
    "a.yaml": appText("a"),
    "link.yaml": { link: join(outside, "secret.yaml") },
    dir: { link: outside },
    "sub/b.yaml": appText("b"),
  };
  await harness.sync();
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/sub/b.yaml"]);
  await rm(join(harness.folder, "shop/sub"), { recursive: true });
  await symlink(outside, join(harness.folder, "shop/sub"));
  await symlink(join(outside, "secret.yaml"), join(harness.folder, "shop/c.yaml"));
  await writeFile(join(outside, "same.yaml"), appText("a"));
  await rm(join(harness.folder, "shop/a.yaml"));
  await symlink(join(outside, "same.yaml"), join(harness.folder, "shop/a.yaml"));
  await harness.sync();
  expect(await readdir(outside)).toEqual(["same.yaml", "secret.yaml"]);
  expect(lstatSync(join(harness.folder, "shop/a.yaml")).isFile()).toBe(true);
  expect(lstatSync(join(harness.folder, "shop/sub")).isDirectory()).toBe(true);
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/sub/b.yaml"]);
});

it("the specs follower can follow a subfolder of the repository", async () => {
  const { git, harness } = open({ path: "deploy/prod" });
  git.files = { "deploy/prod/a.yaml": appText("a"), "other.yaml": appText("other") };
  await harness.sync();
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml"]);
});

it.each([
  ["gone", { "other/a.yaml": appText("a") }, "no folder deploy"],
  ["a link", { deploy: { link: "other" }, "other/a.yaml": appText("a") }, "no folder deploy"],
  ["without specs", { "deploy/README.md": "" }, "contains no spec file"],
])("the specs follower removes nothing if the path is %s", async (_, files, why) => {
  const { git, harness } = open({ path: "deploy" });
  git.files = { "deploy/a.yaml": appText("a") };
  await harness.sync();
  git.push(files);
  const report = await harness.sync();
  expect(report.state).toBe("failing");
  expect(report.message).toContain(why);
  expect(report.message).not.toContain(harness.root);
  await harness.scanTwice();
  expect(harness.apps).toEqual(["a"]);
});

it("the specs follower reads nothing outside the repository, whatever the path is", async () => {
  const { git, harness } = open({ path: "../../specs" });
  git.files = { "a.yaml": appText("a") };
  await harness.write("mine.yaml", appText("mine"));
  expect((await harness.sync()).message).toContain("no folder ../../specs");
});

it("the specs follower keeps the last state while the repository is unreachable, reports this once, and recovers", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  harness.follower.start();
  await vi.waitFor(() => expect(harness.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  git.failure = createUnreachableError();
  await harness.clock.advance(60_000);
  await vi.waitFor(() => expect(harness.follower.report().state).toBe("failing"), WAIT_OPTIONS);
  expect(harness.follower.report()).toMatchObject({
    commit: git.commit,
    message: "git.example does not answer; try later",
  });
  for (const [index, waitMs] of [5_000, 10_000, 20_000, 40_000].entries()) {
    expect(git.resolves).toBe(index + 2);
    await harness.clock.advance(waitMs - 1);
    expect(git.resolves).toBe(index + 2);
    await harness.clock.advance(1);
    await vi.waitFor(() => expect(git.resolves).toBe(index + 3), WAIT_OPTIONS);
    await vi.waitFor(
      () =>
        expect(harness.follower.report().checkedAt).toBe(
          new Date(harness.clock.now()).toISOString(),
        ),
      WAIT_OPTIONS,
    );
  }
  expect(harness.events("SpecsGitFailed")).toEqual([
    "git.example does not answer; try later (the files of the last commit stay unchanged)",
  ]);
  git.failure = new BerthError("git_denied", "git.example wants a credential");
  await harness.sync();
  expect(harness.events("SpecsGitFailed")).toHaveLength(2);
  git.failure = undefined;
  expect(await harness.sync()).toMatchObject({ state: "following", message: null });
  expect(harness.apps).toEqual(["a"]);
});

it("the specs follower follows the rules of the watched folder: invalid files change nothing, and mass deletions wait for a confirmation", async () => {
  const { git, harness } = open();
  const names = ["a", "b", "c", "d"];
  git.files = Object.fromEntries(names.map((name) => [`${name}.yaml`, appText(name)]));
  await harness.sync();
  git.push({ ...git.files, "a.yaml": "kind: [" });
  await harness.sync();
  await harness.scanTwice();
  expect(harness.apps).toEqual(names);
  expect(harness.fileStates()["shop/a.yaml"]).toBe("invalid");
  git.push({ "d.yaml": appText("d") });
  await harness.sync();
  await harness.scanTwice();
  expect(harness.apps).toEqual(names);
  expect(harness.events("PruneHeld")).toHaveLength(1);
});

it("the specs follower does not write to a watched folder that is missing or not mounted", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.write("mine.yaml", appText("mine"));
  await harness.scanTwice();
  await rm(harness.folder, { recursive: true });
  expect(await harness.sync()).toMatchObject({
    state: "failing",
    message: expect.stringContaining("missing or empty"),
  });
  expect(existsSync(harness.folder)).toBe(false);
  await mkdir(harness.folder);
  expect((await harness.sync()).state).toBe("failing");
  await harness.write("mine.yaml", appText("mine"));
  expect((await harness.sync()).state).toBe("following");
  expect(harness.apps).toEqual(["a", "mine"]);
});

it("the specs follower converges after an interruption between two files", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a"), "b.yaml": appText("b") };
  await harness.sync();
  const first = git.commit;
  git.push({ "a.yaml": appText("a", "nginx:2"), "c.yaml": appText("c") });
  // The state after a kill between two files: one file is new, one is half written, and none is removed yet.
  await harness.write("shop/a.yaml", appText("a", "nginx:2"));
  await harness.write("shop/.berth-git.0123456789ab.tmp", "half");
  await mkdir(join(harness.root, "checkouts/checkout-left"), { recursive: true });
  await harness.restart();
  expect(await harness.marker()).toMatchObject({ commit: first });
  harness.follower.start();
  await vi.waitFor(() => expect(harness.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
  await harness.scanTwice();
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/a.yaml", "shop/c.yaml"]);
  expect(harness.apps).toEqual(["a", "c"]);
  expect(await harness.marker()).toMatchObject({ commit: git.commit });
  expect(harness.events("SpecsGitDrift")).toEqual([]);
  expect(await readdir(join(harness.root, "checkouts"))).toEqual([]);
});

it("the specs follower reports the last applied commit after a restart, even while the repository is unreachable", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.sync();
  git.failure = createUnreachableError();
  await harness.restart();
  harness.follower.start();
  await vi.waitFor(() => expect(harness.follower.report().state).toBe("failing"), WAIT_OPTIONS);
  expect(harness.follower.report()).toMatchObject({
    commit: git.commit,
    appliedAt: "2030-01-01T00:00:00.000Z",
  });
});

it("the specs follower uses the credential of the Secret, and names a missing Secret", async () => {
  const { git, harness } = open({ credential: "git-token" });
  git.files = { "a.yaml": appText("a") };
  expect((await harness.sync()).message).toBe(
    "there is no Secret git-token; create the Secret with: berth secrets set git-token token=-",
  );
  applyResource(harness.store, "Secret", "git-token", { data: { token: "t0ps3cret" } });
  expect((await harness.sync()).state).toBe("following");
  expect(git.remotes.at(-1)?.credential).toMatchObject({ type: "token", token: "t0ps3cret" });
});

it("the specs follower shows no user and no password of the URL", async () => {
  const { git, harness } = open({ url: "https://me:t0ps3cret@git.example/team/shop.git" });
  git.files = { "a.yaml": appText("a") };
  expect((await harness.sync()).url).toBe("https://git.example/team/shop.git");
  expect(JSON.stringify(await harness.marker())).not.toContain("t0ps3cret");
});

it("the specs follower fetches at once after a push to the repository", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  await harness.sync();
  git.push({ "b.yaml": appText("b") });
  const { follower } = harness;
  expect(follower.handlePush(["https://git.example/other.git"], "refs/heads/main")).toBe(false);
  expect(follower.handlePush(["git@git.example:team/shop.git"], "refs/heads/next")).toBe(false);
  expect(git.resolves).toBe(1);
  expect(follower.handlePush(["git@git.example:team/shop.git"], "refs/heads/main")).toBe(true);
  await vi.waitFor(() => expect(follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
});

it("the specs follower runs one synchronisation at a time; a request during a run causes another run", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  let atOnce = 0;
  git.onCheckout = async () => {
    atOnce += 1;
    expect(atOnce).toBe(1);
    if (git.checkouts === 1) git.push({ "b.yaml": appText("b") });
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
  };
  const first = harness.sync();
  await vi.waitFor(() => expect(git.checkouts).toBe(1), WAIT_OPTIONS);
  const others = await Promise.all([harness.sync(), harness.sync(), harness.sync()]);
  await first;
  expect(git.checkouts).toBe(2);
  for (const report of others) expect(report.commit).toBe(git.commit);
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/b.yaml"]);
});

it("the specs follower rejects a requested synchronisation whose caller aborts", async () => {
  const { git, harness } = open();
  git.files = { "a.yaml": appText("a") };
  const gone = new AbortController();
  const sync = harness.follower.sync(gone.signal);
  gone.abort();
  await expect(sync).rejects.toThrow(/abort/);
  await vi.waitFor(() => expect(harness.follower.report().commit).toBe(git.commit), WAIT_OPTIONS);
});
