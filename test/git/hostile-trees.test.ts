import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { captureBerthError, GitHarness } from "../support/git-harness.ts";
import { GitHttpServer } from "../support/git-http-server.ts";
import type { GitRepositories, RawTreeEntry } from "../support/git-repositories.ts";

let server: GitHttpServer;
let repositories: GitRepositories;
let blob: string;
let etc: string;

beforeAll(async () => {
  server = await GitHttpServer.start();
  repositories = server.repositories;
  await repositories.create("evil");
  blob = await repositories.blob("evil", "pwned");
  etc = await repositories.blob("evil", "..");
});
afterAll(() => server[Symbol.asyncDispose]());

const file = (name: string | Buffer, oid = blob): RawTreeEntry => ({ mode: "100644", name, oid });
const folder = (name: string, oid: string): RawTreeEntry => ({ mode: "40000", name, oid });

/**
 * Returns the entries of hostile trees by name. They are written with plumbing commands, because git's ordinary
 * commands would refuse them.
 */
const trees: [string, () => Promise<readonly RawTreeEntry[]>][] = [
  ["a file called ..", () => Promise.resolve([file("..")])],
  ["a folder called ..", async () => [folder("..", await repositories.tree("evil", [file("x")]))]],
  ["a folder called .", async () => [folder(".", await repositories.tree("evil", [file("x")]))]],
  ["an absolute name", () => Promise.resolve([file("/tmp/berth-pwned")])],
  ["a name that climbs", () => Promise.resolve([file("../escaped")])],
  ["a name with a path", () => Promise.resolve([file("a/b")])],
  [
    "hooks of git",
    async () => {
      const hooks = await repositories.tree("evil", [
        { mode: "100755", name: "post-checkout", oid: blob },
      ]);
      return [folder(".git", await repositories.tree("evil", [folder("hooks", hooks)]))];
    },
  ],
  [
    "settings of git, in capitals",
    async () => [folder(".GIT", await repositories.tree("evil", [file("config")]))],
  ],
  [
    "a link, and a folder of its name",
    async () => [
      { mode: "120000", name: "a", oid: etc },
      folder("a", await repositories.tree("evil", [file("escaped")])),
    ],
  ],
  [
    "a folder, and a link of its name",
    async () => [
      folder("a", await repositories.tree("evil", [file("x")])),
      { mode: "120000", name: "a", oid: etc },
    ],
  ],
  [
    "a link, and a file of its name",
    () => Promise.resolve([{ mode: "120000", name: "a", oid: etc }, file("a")]),
  ],
  ["one name twice", () => Promise.resolve([file("a"), file("a")])],
  ["an empty name", () => Promise.resolve([file("")])],
  ["a name that is too long", () => Promise.resolve([file("n".repeat(300))])],
  ["a file where a folder belongs", () => Promise.resolve([folder("a", blob)])],
];

describe.each([
  ["isomorphic-git", {}],
  ["the machine's git", { memoryPackBytesMax: 100 }],
])("with the implementation %s", (_, options) => {
  test.each(trees)(
    "the checkout of %s writes nothing outside of its target",
    async (_name, make) => {
      await using bench = await GitHarness.make(options);
      const commit = await repositories.commitTree(
        "evil",
        await repositories.tree("evil", await make()),
      );
      const work = bench.checkout({ url: server.url("evil") }, { commit, ref: "main" });
      const error = await captureBerthError(work);
      // Some trees already make the server's git fail, so the error may be that the commit cannot be fetched.
      expect(["archive_invalid", "git_unreachable", "git_not_found"]).toContain(error.code);
      expect(await bench.leftovers()).toEqual([]);
      // The root contains only the target folder of the checkout and the folder `state` of the git adapter.
      expect((await readdir(bench.root)).toSorted()).toEqual(["state", "target"]);
    },
  );

  test("a link to a folder outside of the target is checked out as a link, and no file is written through it", async () => {
    await using bench = await GitHarness.make(options);
    const outside = await repositories.blob("evil", "../state");
    const tree = await repositories.tree("evil", [
      { mode: "120000", name: "a", oid: outside },
      folder("b", await repositories.tree("evil", [file("a")])),
      file("back\\slash"),
      { mode: "100664", name: "old", oid: blob },
    ]);
    const commit = await repositories.commitTree("evil", tree);
    const done = await bench.checkout({ url: server.url("evil") }, { commit, ref: "main" });
    expect(done.tree).toEqual({
      a: "-> ../state",
      "b/a": "pwned",
      "back\\slash": "pwned",
      old: "pwned",
    });
  });
});
