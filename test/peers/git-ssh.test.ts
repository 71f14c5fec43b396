import { readFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { captureBerthError, GitHarness, neverAborted } from "../support/git-harness.ts";
import { SshGitServer } from "../support/git-ssh-server.ts";

let server: SshGitServer;
let first: string;
let tip: string;

beforeAll(async () => {
  server = await SshGitServer.start();
  const { repositories } = server;
  await repositories.create("hello");
  first = await repositories.commit("hello", { "a.txt": "one" });
  await repositories.tag("hello", "v1", { message: "annotated" });
  tip = await repositories.commit("hello", {
    "a.txt": "two",
    "run.sh": { content: "#!/bin/sh\n", executable: true },
    link: { link: "a.txt" },
  });
  await repositories.branch("hello", "both", tip);
  await repositories.tag("hello", "both", { commit: first });
});
afterAll(() => server[Symbol.asyncDispose]());

const remote = (knownHosts?: string, privateKey = server.privateKey) => ({
  url: server.url("hello"),
  credential: { type: "sshKey", privateKey, knownHosts } as const,
});

describe("git over ssh with a deploy key", () => {
  test.each([
    ["main", () => tip],
    [undefined, () => tip],
    ["v1", () => first],
    ["both", () => tip],
  ])("%s is resolved", async (ref, commit) => {
    await using bench = await GitHarness.make();
    expect(await bench.git.resolve(remote(server.knownHosts), ref, neverAborted)).toBe(commit());
    expect(await bench.leftovers()).toEqual([]);
  });

  test("commits are checked out, including older ones", async () => {
    await using bench = await GitHarness.make();
    const done = await bench.checkout(remote(), { commit: tip, ref: "main" });
    expect(done.tree).toEqual({ "a.txt": "two", "run.sh*": "#!/bin/sh\n", link: "-> a.txt" });
    await using other = await GitHarness.make();
    const older = await other.checkout(remote(), { commit: first, ref: "main" });
    expect(older.tree).toEqual({ "a.txt": "one" });
  });

  test("a key with Windows line ends, or without a line end after the last line, is accepted", async () => {
    await using bench = await GitHarness.make();
    const pasted = server.privateKey.trimEnd().replaceAll("\n", "\r\n");
    expect(await bench.git.resolve(remote(undefined, pasted), "main", neverAborted)).toBe(tip);
  });

  test("a missing branch, commit or repository is an error", async () => {
    await using bench = await GitHarness.make();
    const branch = await captureBerthError(bench.git.resolve(remote(), "nothing", neverAborted));
    expect(branch.code).toBe("git_not_found");
    const gone = { commit: "3".repeat(40), ref: "main" };
    expect((await captureBerthError(bench.checkout(remote(), gone))).code).toBe("git_not_found");
    const nowhere = { ...remote(), url: server.url("nowhere") };
    expect((await captureBerthError(bench.git.resolve(nowhere, "main", neverAborted))).code).toBe(
      "git_not_found",
    );
    expect(await bench.leftovers()).toEqual([]);
  });
});

describe("host keys of ssh servers", () => {
  test("the first key is stored, and another one is refused later", async () => {
    await using own = await SshGitServer.start();
    await using bench = await GitHarness.make();
    await own.repositories.create("hello");
    const commit = await own.repositories.commit("hello", { a: "a" });
    const { privateKey } = own;
    const to = { url: own.url("hello"), credential: { type: "sshKey", privateKey } as const };
    expect(await bench.git.resolve(to, "main", neverAborted)).toBe(commit);
    expect(await readFile(bench.knownHosts, "utf8")).toContain(`[127.0.0.1]:${own.port}`);
    await own.changeHostKey();
    const error = await captureBerthError(bench.git.resolve(to, "main", neverAborted));
    expect(error.code).toBe("git_denied");
    expect(error.message).toContain("host key");
  });

  test("only the known hosts in the Secret are accepted", async () => {
    await using other = await SshGitServer.start();
    await using bench = await GitHarness.make();
    const wrong = other.knownHosts.replace(`:${other.port}`, `:${server.port}`);
    const error = await captureBerthError(bench.git.resolve(remote(wrong), "main", neverAborted));
    expect(error.code).toBe("git_denied");
    expect(error.message).toContain("host key");
  });
});

describe("invalid credentials", () => {
  test.each([
    [
      "a key that the server does not know",
      () => server.strangerKey,
      "does not accept the deploy key",
    ],
    [
      "a text that is not a key",
      () => "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
      "cannot be read",
    ],
  ])("are refused: %s", async (_, key, said) => {
    await using bench = await GitHarness.make();
    const error = await captureBerthError(
      bench.git.resolve(remote(undefined, key()), "main", neverAborted),
    );
    expect(error.code).toBe("git_denied");
    expect(error.message).toContain(said);
    expect(`${error.message} ${error.hint}`).not.toContain(bench.root);
    expect(await bench.leftovers()).toEqual([]);
  });

  test("are refused: a missing credential, and a token for an ssh URL", async () => {
    await using bench = await GitHarness.make();
    const url = server.url("hello");
    expect((await captureBerthError(bench.git.resolve({ url }, "main", neverAborted))).code).toBe(
      "git_denied",
    );
    const credential = { type: "token", token: "t" } as const;
    const work = bench.git.resolve({ url, credential }, "main", neverAborted);
    expect((await captureBerthError(work)).code).toBe("git_denied");
  });
});

describe("a git server that", () => {
  test("sends nothing is reported as unreachable, and no child process keeps running", async () => {
    await using bench = await GitHarness.make({ idleMs: 500 });
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => {
      sockets.add(socket.resume());
      socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const address = silent.address();
    const port = typeof address === "object" ? address?.port : 0;
    const url = `ssh://git@127.0.0.1:${port}/x.git`;
    const { credential } = remote();
    const error = await captureBerthError(
      bench.git.resolve({ url, credential }, "main", neverAborted),
    );
    expect(error.code).toBe("git_unreachable");
    expect(await bench.leftovers()).toEqual([]);
    await expect.poll(() => sockets.size).toBe(0);
    await new Promise((resolve) => silent.close(resolve));
    const gone = await captureBerthError(
      bench.git.resolve({ url, credential }, "main", neverAborted),
    );
    expect(gone.code).toBe("git_unreachable");
    expect(gone.message).toContain("refused");
  });

  test("has an ssh URL is reported as unreachable if the program git is missing, and the error suggests installing git", async () => {
    await using bench = await GitHarness.make({ searchPath: "/nonexistent" });
    const error = await captureBerthError(bench.git.resolve(remote(), "main", neverAborted));
    expect(error.code).toBe("git_unreachable");
    expect(error.hint).toContain("apt-get install git");
  });
});
