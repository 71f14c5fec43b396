import { randomBytes } from "node:crypto";
import { readdir, readFile, readlink } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { captureBerthError, GitHarness, neverAborted } from "../support/git-harness.ts";
import { type GitFault, GitHttpServer } from "../support/git-http-server.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

let server: GitHttpServer;
let tip: string;

const bothWays: [string, { memoryPackBytesMax?: number }][] = [
  ["isomorphic-git", {}],
  ["the machine's git", { memoryPackBytesMax: 200 }],
];

beforeAll(async () => {
  server = await GitHttpServer.start();
  await server.repositories.create("hello");
  tip = await server.repositories.commit("hello", {
    "a.bin": randomBytes(300_000),
    "b.txt": "x".repeat(100_000),
    "c/d": "d",
  });
});
afterEach(() => {
  server.fault = undefined;
});
afterAll(() => server[Symbol.asyncDispose]());

const what = () => ({ commit: tip, ref: "main" });
const remote = () => ({ url: server.url("hello") });

describe("a git server", () => {
  test.each<[string, GitFault]>([
    ["does not respond", { type: "hang" }],
    ["does not respond to the request for the pack", { type: "hang", when: "pack" }],
    ["stops in the middle of the pack", { type: "stall", afterBytes: 50_000 }],
    ["cuts the connection in the middle of the pack", { type: "cut", afterBytes: 50_000 }],
    ["is broken", { type: "status", code: 502, body: "<html>" }],
  ])("is reported as unreachable if it %s", async (_, fault) => {
    for (const [, options] of bothWays) {
      await using bench = await GitHarness.make({ idleMs: 400, ...options });
      server.fault = fault;
      const error = await captureBerthError(bench.checkout(remote(), what()));
      expect(error.code).toBe("git_unreachable");
      expect(error.message).toContain(server.url("hello"));
      expect(await bench.leftovers()).toEqual([]);
      await vi.waitFor(() => expect(server.openConnections).toBe(0), WAIT_OPTIONS);
    }
  });

  test("is reported as unreachable if it does not exist", async () => {
    await using bench = await GitHarness.make();
    const gone = await GitHttpServer.start();
    const url = gone.url("x");
    await gone[Symbol.asyncDispose]();
    const error = await captureBerthError(bench.git.resolve({ url }, "main", neverAborted));
    expect(error.code).toBe("git_unreachable");
    expect(error.message).toContain("ECONNREFUSED");
  });

  test("is reported as unreachable if it truncates the list of branches", async () => {
    await using bench = await GitHarness.make();
    server.fault = { type: "cut", afterBytes: 20 };
    const error = await captureBerthError(bench.git.resolve(remote(), "main", neverAborted));
    expect(error.code).toBe("git_unreachable");
  });

  test.each<[string, GitFault]>([
    ["answers with a page", { type: "page", body: "<html>Sign in</html>" }],
    ["has no such repository", { type: "status", code: 404 }],
  ])("is reported not to be a repository if it %s", async (_, fault) => {
    await using bench = await GitHarness.make();
    server.fault = fault;
    const error = await captureBerthError(bench.git.resolve(remote(), "main", neverAborted));
    expect(error.code).toBe("git_not_found");
    expect(error.message).not.toContain("Sign in");
  });

  test("is reported as denied if it forbids access", async () => {
    await using bench = await GitHarness.make();
    server.fault = { type: "status", code: 403 };
    const error = await captureBerthError(bench.git.resolve(remote(), "main", neverAborted));
    expect(error.code).toBe("git_denied");
  });
});

describe("the limits for a git checkout", () => {
  test.each(bothWays)(
    "of bytes and files are enforced, and a refused checkout leaves no files (implementation: %s)",
    async (_, options) => {
      await using bench = await GitHarness.make(options);
      for (const limits of [{ bytesMax: 350_000 }, { filesMax: 3 }]) {
        const error = await captureBerthError(bench.checkout(remote(), what(), limits));
        expect(error.code).toBe("payload_too_large");
        expect(await bench.leftovers()).toEqual([]);
      }
      const done = await bench.checkout(remote(), what(), { bytesMax: 400_001, filesMax: 4 });
      expect(done).toMatchObject({ files: 3, bytes: 400_001 });
    },
  );

  test("a transfer that far exceeds the limit for the size of all files is aborted, with either git implementation", async () => {
    await using big = await GitHttpServer.start();
    await big.repositories.create("big");
    const files: Record<string, Buffer> = {};
    for (let number = 0; number < 20; number++) files[`${number}`] = randomBytes(2_000_000);
    const commit = await big.repositories.commit("big", files);
    for (const [, options] of bothWays) {
      await using bench = await GitHarness.make(options);
      const url = big.url("big");
      const work = bench.checkout({ url }, { commit, ref: "main" }, { bytesMax: 1000 });
      const error = await captureBerthError(work);
      expect(error.code).toBe("payload_too_large");
      expect(error.message).toContain("the fetch transfers");
      expect(await bench.leftovers()).toEqual([]);
    }
  });

  test("a small pack that unpacks to a large size is not unpacked in memory", async () => {
    await using bench = await GitHarness.make({ searchPath: "/nonexistent" });
    await server.repositories.create("bomb");
    const commit = await server.repositories.commit("bomb", { zeros: Buffer.alloc(40 * 2 ** 20) });
    // The checkout of a pack that unpacks to 40 MiB needs the program git. The first harness has a search path without
    // git, so its checkout fails.
    const error = await captureBerthError(
      bench.checkout({ url: server.url("bomb") }, { commit, ref: "main" }),
    );
    expect(error.message).toContain("needs git, which is not installed");
    await using complete = await GitHarness.make();
    const over = await captureBerthError(
      complete.checkout({ url: server.url("bomb") }, { commit, ref: "main" }, { bytesMax: 2e7 }),
    );
    expect(over.code).toBe("payload_too_large");
    expect(await complete.leftovers()).toEqual([]);
  });

  test.each(bothWays)(
    "count every occurrence of a folder that occurs several times (implementation: %s)",
    async (_, options) => {
      await using bench = await GitHarness.make(options);
      const { repositories } = server;
      await repositories.create("fan");
      let tree = await repositories.tree("fan", []);
      for (let level = 0; level < 12; level++) {
        const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        tree = await repositories.tree(
          "fan",
          names.map((name) => ({ mode: "40000", name, oid: tree })),
        );
      }
      const commit = await repositories.commitTree("fan", tree);
      const work = bench.checkout(
        { url: server.url("fan") },
        { commit, ref: "main" },
        { filesMax: 500 },
      );
      expect((await captureBerthError(work)).code).toBe("payload_too_large");
      expect(await bench.leftovers()).toEqual([]);
    },
  );
});

describe("an abort of a git request", () => {
  test.each<[string, GitFault, { memoryPackBytesMax?: number }]>([
    ["while the server does not respond", { type: "hang" }, {}],
    ["in the middle of a pack", { type: "stall", afterBytes: 50_000 }, {}],
    [
      "in the middle of a pack of git",
      { type: "stall", afterBytes: 50_000 },
      { memoryPackBytesMax: 200 },
    ],
  ])("ends the connection and all child processes (%s)", async (_, fault, options) => {
    await using bench = await GitHarness.make(options);
    server.fault = fault;
    const controller = new AbortController();
    const before = server.requests.length;
    const work = bench.checkout(remote(), what(), {}, controller.signal);
    const posted = () =>
      server.requests.slice(before).some((seen) => fault.type === "hang" || seen.method === "POST");
    await vi.waitFor(() => expect(posted()).toBe(true), WAIT_OPTIONS);
    const reason = new Error("shut down");
    controller.abort(reason);
    await expect(work).rejects.toBe(reason);
    expect(await bench.leftovers()).toEqual([]);
    await vi.waitFor(() => expect(server.openConnections).toBe(0), WAIT_OPTIONS);
    expect(await childrenNamed("git-remote-http")).toEqual([]);
  });

  test("makes the request reject with the abort reason and send nothing, if the abort precedes its start", async () => {
    await using bench = await GitHarness.make();
    const reason = new Error("shut down");
    const before = server.requests.length;
    await expect(bench.git.resolve(remote(), "main", AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
    expect(server.requests.length).toBe(before);
  });
});

/** Lists the processes of the program `name` whose working folder is one of Berth's temporary folders for git. */
async function childrenNamed(name: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    const program = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (cwd.includes("berth git's-") && program.includes(name)) found.push(pid);
  }
  return found;
}
