import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { captureBerthError, GitHarness, neverAborted } from "../support/git-harness.ts";
import { GitHttpServer } from "../support/git-http-server.ts";

const TOKEN = "s3cr3t-t0ken";
let server: GitHttpServer;
let locked: GitHttpServer;
const commits: Record<string, string> = {};

beforeAll(async () => {
  server = await GitHttpServer.start();
  locked = await GitHttpServer.start({ auth: { password: TOKEN } });
  const { repositories } = server;
  await repositories.create("hello");
  commits["first"] = await repositories.commit("hello", { "a.txt": "one", "old.txt": "old" });
  await repositories.tag("hello", "v1", { message: "annotated" });
  await repositories.tag("hello", "plain");
  commits["second"] = await repositories.commit("hello", {
    "a.txt": "two",
    "old.txt": null,
    "bin/run": { content: "#!/bin/sh\n", executable: true },
    "deep/er/leer datei.txt": "",
    link: { link: "a.txt" },
    outside: { link: "../../../etc/passwd" },
    "vendor/lib": { submodule: "1".repeat(40) },
    "big.bin": { content: "version https://git-lfs.github.com/spec/v1\n", executable: true },
  });
  commits["feature"] = await repositories.commit("hello", { f: "f" }, { branch: "feature/x" });
  // A branch and a tag have the name "both"; Berth must choose the branch.
  await repositories.branch("hello", "both", commits["second"]);
  await repositories.tag("hello", "both", { commit: commits["first"] });
  await repositories.create("empty");
  await locked.repositories.create("hello");
  commits["locked"] = await locked.repositories.commit("hello", { "a.txt": "private" });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await locked[Symbol.asyncDispose]();
});

const commit = (name: string): string => commits[name] ?? "";
const remote = () => ({
  url: locked.url("hello"),
  credential: { type: "token", token: TOKEN } as const,
});

describe("resolving a branch or a commit", () => {
  test.each([
    [undefined, "second"],
    ["main", "second"],
    ["feature/x", "feature"],
    ["refs/heads/feature/x", "feature"],
    ["v1", "first"],
    ["plain", "first"],
    ["refs/tags/v1", "first"],
    ["both", "second"],
  ])("the ref %s is resolved", async (ref, name) => {
    await using bench = await GitHarness.make();
    expect(await bench.git.resolve({ url: server.url("hello") }, ref, neverAborted)).toBe(
      commit(name),
    );
  });

  test("a full commit hash is returned without a request", async () => {
    await using bench = await GitHarness.make();
    const url = "https://nowhere.invalid/x.git";
    expect(await bench.git.resolve({ url }, "A".repeat(40), neverAborted)).toBe("a".repeat(40));
  });

  test("supports servers that know only version 1 of the protocol", async () => {
    await using bench = await GitHarness.make();
    await using old = await GitHttpServer.start({ oldProtocol: true });
    await old.repositories.create("old");
    const tip = await old.repositories.commit("old", { a: "a" });
    await old.repositories.tag("old", "v1", { message: "annotated" });
    for (const ref of ["main", "v1", undefined])
      expect(await bench.git.resolve({ url: old.url("old") }, ref, neverAborted)).toBe(tip);
    await old.repositories.commit("old", { a: "b" });
    const done = await bench.checkout({ url: old.url("old") }, { commit: tip, ref: "main" });
    expect(done.tree).toEqual({ a: "a" });
  });

  test("a short commit hash is refused, and the hint asks for all 40 digits", async () => {
    await using bench = await GitHarness.make();
    const short = commit("first").slice(0, 8);
    const error = await captureBerthError(
      bench.git.resolve({ url: server.url("hello") }, short, neverAborted),
    );
    expect(error.code).toBe("git_not_found");
    expect(error.message).toContain(short);
    expect(error.hint).toContain("40 digits");
  });

  test.each(["nothing", "--upload-pack=touch /tmp/x", "a..b", "a b", "mai"])(
    "the ref %s is not found",
    async (ref) => {
      await using bench = await GitHarness.make();
      const error = await captureBerthError(
        bench.git.resolve({ url: server.url("hello") }, ref, neverAborted),
      );
      expect(error.code).toBe("git_not_found");
    },
  );

  test("an empty repository is reported to have no commit, and a missing repository is not found", async () => {
    await using bench = await GitHarness.make();
    const empty = await captureBerthError(
      bench.git.resolve({ url: server.url("empty") }, undefined, neverAborted),
    );
    expect(empty.code).toBe("git_not_found");
    expect(empty.message).toContain("no commit yet");
    const none = await captureBerthError(
      bench.git.resolve({ url: server.url("none") }, "main", neverAborted),
    );
    expect(none.code).toBe("git_not_found");
    expect(none.message).toContain("no such repository");
  });
});

describe("the checkout of a commit", () => {
  const expected = {
    "a.txt": "two",
    "bin/run*": "#!/bin/sh\n",
    "deep/er/leer datei.txt": "",
    link: "-> a.txt",
    outside: "-> ../../../etc/passwd",
    "vendor/lib": "dir",
    "big.bin*": "version https://git-lfs.github.com/spec/v1\n",
  };

  test.each([
    ["isomorphic-git", {}],
    ["the machine's git", { memoryPackBytesMax: 200 }],
  ])("writes files, modes, links and submodules (implementation: %s)", async (_, options) => {
    await using bench = await GitHarness.make(options);
    const done = await bench.checkout(
      { url: server.url("hello") },
      { commit: commit("second"), ref: "main" },
    );
    expect(done.tree).toEqual(expected);
    expect(done.submodules).toEqual(["vendor/lib"]);
    expect(done.files).toBe(6);
    const content = Object.values(expected).join("").replaceAll("-> ", "").replace("dir", "");
    expect(done.bytes).toBe(content.length);
  });

  test.each([
    ["isomorphic-git", {}],
    ["the machine's git", { memoryPackBytesMax: 200 }],
  ])(
    "fetches an older commit through its branch if the server does not serve it by hash (implementation: %s)",
    async (_, options) => {
      await using bench = await GitHarness.make(options);
      const done = await bench.checkout(
        { url: server.url("hello") },
        { commit: commit("first"), ref: "main" },
      );
      expect(done.tree).toEqual({ "a.txt": "one", "old.txt": "old" });
    },
  );

  test("fetches an old commit of the default branch by its hash", async () => {
    await using bench = await GitHarness.make();
    await server.repositories.create("long");
    const first = await server.repositories.commit("long", { "a.txt": "0" });
    for (let number = 1; number <= 70; number++)
      await server.repositories.commit("long", { "a.txt": String(number) });
    const done = await bench.checkout({ url: server.url("long") }, { commit: first, ref: first });
    expect(done.tree).toEqual({ "a.txt": "0" });
  });

  test("a repository that was too large for memory is fetched only by git from then on", async () => {
    await using bench = await GitHarness.make({ memoryPackBytesMax: 3000 });
    await server.repositories.create("large");
    const content = randomBytes(10_000).toString("hex");
    const large = await server.repositories.commit("large", { "large.txt": content });
    const bytesSent = async () => {
      const before = server.bytesSent;
      const url = server.url("large");
      const done = await bench.checkout({ url }, { commit: large, ref: large });
      expect(done.tree).toEqual({ "large.txt": content });
      await rm(bench.target, { recursive: true });
      return server.bytesSent - before;
    };
    // The first fetch exceeds the memory limit and is repeated by git, so the server sends the content twice.
    expect(await bytesSent()).toBeGreaterThan(2 * 10_000);
    expect(await bytesSent()).toBeLessThan(1.5 * 10_000);
  });

  test.each([
    ["isomorphic-git", {}],
    ["the machine's git", { memoryPackBytesMax: 200 }],
  ])("reports a commit that is gone as not found (implementation: %s)", async (_, options) => {
    await using bench = await GitHarness.make(options);
    const work = bench.checkout(
      { url: server.url("hello") },
      { commit: "2".repeat(40), ref: "main" },
    );
    const error = await captureBerthError(work);
    expect(error.code).toBe("git_not_found");
    expect(error.message).toContain("2".repeat(40));
    expect(await bench.leftovers()).toEqual([]);
  });
});

describe("credentials for git over HTTP", () => {
  test.each([
    ["isomorphic-git", {}],
    ["the machine's git", { memoryPackBytesMax: 200 }],
  ])("may be a token (implementation: %s)", async (_, options) => {
    await using bench = await GitHarness.make(options);
    expect(await bench.git.resolve(remote(), "main", neverAborted)).toBe(commit("locked"));
    const done = await bench.checkout(remote(), { commit: commit("locked"), ref: "main" });
    expect(done.tree).toEqual({ "a.txt": "private" });
    const sent = Buffer.from(`x-access-token:${TOKEN}`).toString("base64");
    expect(locked.requests.at(-1)?.authorization).toBe(`Basic ${sent}`);
  });

  test("the user name of the credential and a login in the URL are sent", async () => {
    await using bench = await GitHarness.make();
    const credential = { type: "token", username: "Ann", token: TOKEN } as const;
    await bench.git.resolve({ url: locked.url("hello"), credential }, "main", neverAborted);
    const asAnn = `Basic ${Buffer.from(`Ann:${TOKEN}`).toString("base64")}`;
    expect(locked.requests.at(-1)?.authorization).toBe(asAnn);
    const url = locked.url("hello").replace("://", `://Bob:${TOKEN}@`);
    await bench.git.resolve({ url }, "main", neverAborted);
    const asBob = `Basic ${Buffer.from(`Bob:${TOKEN}`).toString("base64")}`;
    expect(locked.requests.at(-1)?.authorization).toBe(asBob);
  });

  test("without a token, or with a wrong one, access is denied, and the message has no secret", async () => {
    await using bench = await GitHarness.make();
    const without = await captureBerthError(
      bench.git.resolve({ url: locked.url("hello") }, "main", neverAborted),
    );
    expect(without.code).toBe("git_denied");
    expect(without.message).toContain("requires credentials");
    const url = locked.url("hello").replace("://", "://ann:wr0ng-t0ken@");
    const other = await captureBerthError(bench.git.resolve({ url }, "main", neverAborted));
    expect(other.code).toBe("git_denied");
    expect(`${other.message} ${other.hint}`).not.toContain("wr0ng-t0ken");
    expect(`${other.message} ${other.hint}`).not.toContain("ann");
  });

  test("an ssh key is not accepted for an https URL", async () => {
    await using bench = await GitHarness.make();
    const credential = { type: "sshKey", privateKey: "k" } as const;
    const work = bench.git.resolve({ url: locked.url("hello"), credential }, "main", neverAborted);
    expect((await captureBerthError(work)).code).toBe("git_denied");
  });
});

describe("redirects of a git server", () => {
  test.each([
    ["isomorphic-git", {}],
    ["the machine's git", { memoryPackBytesMax: 200 }],
  ])(
    "to another server are followed without the token (implementation: %s)",
    async (_, options) => {
      await using front = await GitHttpServer.start();
      await using back = await GitHttpServer.start();
      await using bench = await GitHarness.make(options);
      await back.repositories.create("hello");
      const tip = await back.repositories.commit("hello", { "a.txt": "moved" });
      front.fault = { type: "redirect", to: back.origin };
      const redirected = {
        url: front.url("hello"),
        credential: { type: "token", token: TOKEN } as const,
      };
      expect(await bench.git.resolve(redirected, "main", neverAborted)).toBe(tip);
      const done = await bench.checkout(redirected, { commit: tip, ref: "main" });
      expect(done.tree).toEqual({ "a.txt": "moved" });
      expect(front.requests[0]?.authorization).toBeDefined();
      expect(back.requests.length).toBeGreaterThan(3);
      expect(back.requests.filter((request) => request.authorization !== undefined)).toEqual([]);
    },
  );

  test("to a server that requires credentials fail, and the message names the server", async () => {
    await using front = await GitHttpServer.start();
    await using bench = await GitHarness.make();
    front.fault = { type: "redirect", to: locked.origin };
    const credential = { type: "token", token: TOKEN } as const;
    const work = bench.git.resolve({ url: front.url("hello"), credential }, "main", neverAborted);
    const error = await captureBerthError(work);
    expect(error.code).toBe("git_denied");
    expect(error.message).toContain(locked.origin);
  });

  test("in an endless loop are aborted", async () => {
    await using front = await GitHttpServer.start();
    await using bench = await GitHarness.make();
    front.fault = { type: "redirect", to: front.origin };
    const error = await captureBerthError(
      bench.git.resolve({ url: front.url("x") }, "main", neverAborted),
    );
    expect(error.code).toBe("git_unreachable");
    expect(front.requests.length).toBeLessThan(10);
  });
});
