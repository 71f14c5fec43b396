import { spawnSync } from "node:child_process";
import { renameSync, symlinkSync } from "node:fs";
import { chmod, mkdir, readFile, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { digestSource } from "../../../src/source-tree/digest-source.ts";
import { type ListSourceOptions, listSource } from "../../../src/source-tree/list-source.ts";
import { type PackOptions, packSource } from "../../../src/source-tree/pack-source.ts";
import { TreeReader } from "../../../src/source-tree/tree-reader.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const { signal } = new AbortController();
const limits = { bytesMax: 2 ** 20, filesMax: 1000 };
let dir = "";

beforeEach(() => {
  dir = temporaryFolder("source");
});

async function write(files: Readonly<Record<string, string>>, root = dir): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

const list = (options: Partial<ListSourceOptions> = {}) =>
  listSource(dir, { ...limits, ...options }, signal);

async function paths(options: Partial<ListSourceOptions> = {}): Promise<string[]> {
  return (await list(options)).entries.map(({ path }) => path);
}

async function pack(options: PackOptions = {}): Promise<Buffer> {
  return buffer(packSource(await list(), options, signal));
}

describe("the listing of a source folder", () => {
  test("lists folders before their contents, sorted by name, with size and mode", async () => {
    await write({ "b/two": "22", "b/one": "1", "a.txt": "abc" });
    await chmod(join(dir, "b/one"), 0o4755);
    await chmod(join(dir, "a.txt"), 0o640);
    await chmod(join(dir, "b"), 0o755);
    await symlink("b/one", join(dir, "c"));
    const tree = await list();
    expect(tree.entries).toEqual([
      { path: "a.txt", type: "file", mode: 0o640, size: 3 },
      { path: "b", type: "dir", mode: 0o755, size: 0 },
      { path: "b/one", type: "file", mode: 0o755, size: 1 },
      { path: "b/two", type: "file", mode: expect.any(Number), size: 2 },
      { path: "c", type: "symlink", mode: 0o777, size: 0, target: "b/one" },
    ]);
    expect(tree.bytes).toBe(6);
    expect(tree.ignoreFile).toBeUndefined();
  });

  test("applies .dockerignore, but always includes .dockerignore itself and the Dockerfile", async () => {
    await write({
      ".dockerignore": "**\n!src/*.js",
      Dockerfile: "",
      "src/a.js": "",
      "src/b": "",
      x: "",
    });
    expect(await paths()).toEqual([".dockerignore", "Dockerfile", "src", "src/a.js"]);
    expect((await list()).ignoreFile).toBe(".dockerignore");
  });

  test("an exception below an ignored folder also includes the exception's parent folders", async () => {
    await write({ ".dockerignore": "a\n!**/keep", "a/b/keep": "", "a/c/other": "", "a/d": "" });
    expect(await paths()).toEqual([".dockerignore", "a", "a/b", "a/b/keep"]);
  });

  test("the ignore file of the Dockerfile takes precedence over .dockerignore", async () => {
    await write({
      ".dockerignore": "a",
      "web.Dockerfile.dockerignore": "b\nweb*",
      "web.Dockerfile": "",
      a: "",
      b: "",
    });
    expect(await paths({ dockerfile: "web.Dockerfile" })).toEqual([
      ".dockerignore",
      "a",
      "web.Dockerfile",
    ]);
  });

  test("never contains a .git folder, whatever the rules say", async () => {
    await write({
      ".git/config": "",
      "lib/.git": "gitdir: x",
      "lib/a": "",
      ".dockerignore": "!.git",
      ".gitignore": "",
    });
    expect(await paths()).toEqual([".dockerignore", ".gitignore", "lib", "lib/a"]);
  });

  test("skips sockets and pipes, and reports their names", async () => {
    await write({ a: "" });
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(dir, "s.sock"), resolve));
    expect(spawnSync("mkfifo", [join(dir, "pipe")]).status).toBe(0);
    const tree = await list();
    await new Promise((resolve) => server.close(resolve));
    expect(tree.entries.map(({ path }) => path)).toEqual(["a"]);
    expect(tree.skipped).toEqual(["pipe", "s.sock"]);
  });

  test("refuses a name that is not UTF-8", async () => {
    await mkdir(Buffer.concat([Buffer.from(`${dir}/bad-`), Buffer.from([0xff])]));
    await expect(list()).rejects.toThrow('the name "bad-\u{ff}" in the source folder is not UTF-8');
  });

  test("does not read an ignore file that is a link to the outside", async () => {
    await symlink("/etc/hostname", join(dir, ".dockerignore"));
    expect((await list()).ignoreFile).toBeUndefined();
  });

  test.each([
    [{ bytesMax: 9 }, "payload_too_large", "larger than 9 B"],
    [{ filesMax: 2 }, "payload_too_large", "more than 2 files"],
  ])("that exceeds the limits %j fails with %s", async (options, code, message) => {
    await write({ a: "12345", b: "12345", c: "" });
    await expect(list(options)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  test("keeps links to the outside, except for an upload, which refuses them", async () => {
    await write({ "a/b": "" });
    await symlink("../../up", join(dir, "a/link"));
    expect(await paths()).toContain("a/link");
    await expect(list({ outsideLinks: "refuse" })).rejects.toThrow(
      "the target of the link a/link is outside the folder",
    );
  });

  test("fails for a missing folder, for a file, and on abort", async () => {
    await write({ a: "" });
    await expect(listSource(join(dir, "none"), limits, signal)).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(listSource(join(dir, "a"), limits, signal)).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(listSource(dir, limits, AbortSignal.abort())).rejects.toMatchObject({
      name: "AbortError",
    });
  });
});

describe("packing a source folder", () => {
  const long = `${"folder-with-a-name/".repeat(9)}${"\u{e9}".repeat(60)}.txt`;

  test("creates an archive that tar unpacks to the same files", async () => {
    await write({ "a/x.txt": "hello", [long]: "long", empty: "", big: "z".repeat(200_000) });
    await symlink(`a/${"t".repeat(150)}`, join(dir, "link"));
    await chmod(join(dir, "a/x.txt"), 0o750);
    const out = temporaryFolder("unpacked");
    const unpacked = spawnSync("tar", ["-x", "-C", out], { input: await pack() });
    expect(unpacked.stderr.toString()).toBe("");
    const [there, here] = [await listSource(out, limits, signal), await list()];
    expect(there.entries).toEqual(here.entries);
    expect(await digestSource(there, signal)).toBe(await digestSource(here, signal));
    expect(await readFile(join(out, long), "utf8")).toBe("long");
  });

  test("creates the same bytes at any time and for any owner", async () => {
    await write({ "a/b": "1", c: "2" });
    const first = await pack();
    await rm(join(dir, "a"), { recursive: true });
    await write({ "a/b": "1" });
    await utimes(join(dir, "c"), 1, 1);
    expect((await pack()).equals(first)).toBe(true);
    expect(gunzipSync(await pack({ gzip: true })).equals(first)).toBe(true);
    const listed = spawnSync("tar", ["-tv", "--full-time"], {
      input: first,
      env: { TZ: "UTC" },
    }).stdout.toString();
    expect(listed.match(/0\/0 .* 1970-01-01 00:00:00/g)).toHaveLength(3);
  });

  test("gives the files the requested modification time", async () => {
    await write({ a: "1" });
    const packed = await pack({ mtimeMs: Date.UTC(2026, 1, 3) });
    const listed = spawnSync("tar", ["-tv"], {
      input: packed,
      env: { TZ: "UTC" },
    }).stdout.toString();
    expect(listed).toContain("2026-02-03");
  });

  test("adds the given files, which replace files of the folder", async () => {
    await write({ Dockerfile: "FROM old", a: "1" });
    const packed = await pack({ added: new Map([["Dockerfile", "FROM new"]]) });
    const out = spawnSync("tar", ["-xO", "Dockerfile"], { input: packed }).stdout.toString();
    expect(out).toBe("FROM new");
  });

  test("reports the number of bytes packed so far", async () => {
    await write({ a: "x".repeat(100_000), b: "y".repeat(50) });
    const seen: number[] = [];
    await pack({ onBytes: (bytes) => seen.push(bytes) });
    expect(seen.at(-1)).toBe(100_050);
    expect(seen.length).toBeGreaterThan(2);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  });

  test.each([10, 30])(
    "fails if a file was listed with 20 bytes and has %i bytes when it is read",
    async (length) => {
      await write({ a: "x".repeat(20) });
      const tree = await list();
      await truncate(join(dir, "a"), length);
      const stream = packSource(tree, { gzip: true }, signal);
      await expect(buffer(stream)).rejects.toMatchObject({
        code: "conflict",
        message: "a changed while it was read",
      });
    },
  );

  test("does not follow a link that has replaced a file", async () => {
    await write({ a: "x" });
    const tree = await list();
    await rm(join(dir, "a"));
    await symlink("/etc/hostname", join(dir, "a"));
    await expect(buffer(packSource(tree, {}, signal))).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(digestSource(tree, signal)).rejects.toThrow("a cannot be read");
  });

  test("stops with an AbortError when it is aborted", async () => {
    await write({ a: "x".repeat(300_000) });
    const abort = new AbortController();
    const stream = packSource(await list(), { onBytes: () => abort.abort() }, abort.signal);
    await expect(buffer(stream)).rejects.toMatchObject({ name: "AbortError" });
  });

  test.each([false, true])(
    "rejects the first read if it was aborted before, and raises no other error (gzip: %s)",
    async (gzip) => {
      await write({ a: "x" });
      const uncaught: unknown[] = [];
      const record = (error: unknown) => uncaught.push(error);
      process.prependListener("uncaughtException", record);
      const stream = packSource(await list(), { gzip }, AbortSignal.abort());
      await setImmediate();
      process.off("uncaughtException", record);
      expect(uncaught).toEqual([]);
      await expect(buffer(stream)).rejects.toMatchObject({ name: "AbortError" });
    },
  );
});

test.each<[what: string, change: () => Promise<void>]>([
  ["a content of the same length", () => writeFile(join(dir, "a"), "2")],
  ["a mode", () => chmod(join(dir, "a"), 0o700)],
  ["a name", () => write({ b: "" })],
  ["an empty folder", () => mkdir(join(dir, "d"))],
  ["a link", () => symlink("x", join(dir, "link"))],
])("a changed source folder has another digest: %s", async (_, change) => {
  await write({ a: "1" });
  const before = await digestSource(await list(), signal);
  expect(before).toMatch(/^[0-9a-f]{64}$/);
  await change();
  expect(await digestSource(await list(), signal)).not.toBe(before);
});

test("a source reader reads only listed files inside the source folder", async () => {
  await write({ "src/a.txt": "text", "hidden/x": "", ".dockerignore": "hidden" });
  await symlink("src/a.txt", join(dir, "inside"));
  await symlink("/etc/hostname", join(dir, "outside"));
  const reader = new TreeReader(await list());
  expect(reader.list("")).toEqual([".dockerignore", "inside", "outside", "src"]);
  expect(reader.list("src")).toEqual(["a.txt"]);
  expect([
    reader.has("src/a.txt"),
    reader.has("src"),
    reader.has("hidden"),
    reader.has("src/b"),
  ]).toEqual([true, true, false, false]);
  expect(await reader.read("src/a.txt")).toBe("text");
  expect(await reader.read("inside")).toBe("text");
  expect(await reader.read("outside")).toBeUndefined();
  expect(await reader.read("hidden/x")).toBeUndefined();
  expect(await reader.read("src")).toBeUndefined();
});

describe("a folder that was replaced by a link to a protected one", () => {
  const files = { "sub/deep/key": "private", Dockerfile: "FROM scratch" };
  let secret = "";
  beforeEach(async () => {
    secret = temporaryFolder("protected");
    dir = join(temporaryFolder("source"), "around", "app");
    await write(files, secret);
    await write(files, join(secret, "app"));
    await write({ ...files, "sub/deep/key": "visible" });
  });

  function replace(folder: string, target: string): void {
    const path = join(dir, folder);
    renameSync(path, `${path}.old`);
    symlinkSync(join(secret, target), path);
  }

  /**
   * Each case has a folder that the test replaces by a link, relative to the source folder, and the protected folder to
   * which the link points.
   */
  const replaced = [
    ["the source folder", ".", "."],
    ["the folder around it", "..", "."],
    ["a folder in it", "sub", "sub"],
    ["a folder further below", "sub/deep", "sub/deep"],
  ] as const;

  test.each(replaced)("is not packed, hashed or read if it is %s", async (_, folder, target) => {
    const tree = await list();
    replace(folder, target);
    const file = "sub/deep/key";
    expect(await readFile(join(dir, file), "utf8")).toBe("private");
    await expect(buffer(packSource(tree, {}, signal))).rejects.toHaveProperty("code");
    await expect(digestSource(tree, signal)).rejects.toHaveProperty("code");
    expect(await new TreeReader(tree).read(file)).toBeUndefined();
  });

  test.each(replaced)(
    "is not listed if it is %s and was replaced after its check",
    async (_, folder, target) => {
      const checked: string[] = [];
      const checkDir = (real: string) => {
        checked.push(real);
        replace(folder, target);
      };
      const found = await paths({ checkDir }).catch((error: unknown) => error);
      expect(checked).toEqual([dir]);
      // If a link has replaced a folder inside the source folder, the link is listed. If it has replaced the source folder
      // or a folder around it, the listing fails.
      if (folder.startsWith("sub")) {
        expect(found).toContain(folder);
        expect(found).not.toContain("sub/deep/key");
      } else expect(found).toHaveProperty("code");
    },
  );

  test("is not read if the check refuses its real path", async () => {
    replace(".", ".");
    const checked: string[] = [];
    const checkDir = (real: string) => {
      checked.push(real);
      throw new Error("forbidden");
    };
    await expect(list({ checkDir })).rejects.toThrow("forbidden");
    expect(checked).toEqual([secret]);
  });
});
