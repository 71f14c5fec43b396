import { spawnSync } from "node:child_process";
import { createWriteStream } from "node:fs";
import { lstat, mkdir, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip, gzipSync } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import type { ExtractLimits } from "../../../../src/controller/builds/archive-tree.ts";
import { checkArchive, extractArchive } from "../../../../src/controller/builds/extract-archive.ts";
import { paxHeader, type RawEntry, rawEntry, rawTar } from "../../../support/raw-tar.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const { signal } = new AbortController();
const limits: ExtractLimits = { bytesMax: 2 ** 20, filesMax: 1000 };
let home = "";
let dir = "";
let file = "";

beforeEach(() => {
  home = temporaryFolder("extract");
  dir = join(home, "out");
  file = join(home, "archive");
});

async function extract(
  archive: Uint8Array | readonly RawEntry[],
  special: Partial<ExtractLimits> = {},
) {
  await writeFile(file, archive instanceof Uint8Array ? archive : gzipSync(rawTar(archive)));
  const extracted = await extractArchive(file, dir, { ...limits, ...special }, signal);
  await checkArchive(file, { ...limits, ...special }, signal);
  return extracted;
}

/**
 * Returns the message of the refusal. Asserts that no file is left, neither in the folder nor next to it, and that
 * an upload of the archive is refused for the same reason.
 */
async function refusal(
  archive: Uint8Array | readonly RawEntry[],
  special: Partial<ExtractLimits> = {},
) {
  const outcome = await extract(archive, special).catch((error: unknown) => error);
  expect(outcome).toMatchObject({ code: "archive_invalid", hint: expect.any(String) });
  expect((await readdir(home)).toSorted()).toEqual(["archive"]);
  const check = checkArchive(file, { ...limits, ...special }, signal);
  expect(await check.catch((error: unknown) => error)).toEqual(outcome);
  return outcome instanceof Error ? outcome.message : "";
}

const text = (path: string) => readFile(join(dir, path), "utf8");

describe("an uploaded archive", () => {
  test("is unpacked to files, folders and links, with permission bits and without setuid", async () => {
    const result = await extract([
      { name: "./", type: "5", mode: 0o700 },
      { name: "./bin/", type: "5", mode: 0o2755 },
      { name: "./bin/run", content: "#!/bin/sh", mode: 0o4755 },
      { name: "deep//down/./a.txt", content: "a", mode: 0o400 },
      { name: "link", type: "2", target: "deep/down/../down/a.txt" },
      { name: "same", type: "1", target: "./bin/run" },
    ]);
    expect(result).toEqual({ root: dir, files: 7, bytes: 19 });
    expect(await text("link")).toBe("a");
    expect(await text("same")).toBe("#!/bin/sh");
    expect((await lstat(join(dir, "bin/run"))).mode & 0o7777).toBe(0o755);
    expect((await lstat(join(dir, "bin"))).mode & 0o7777).toBe(0o755);
    expect((await lstat(join(dir, "deep/down/a.txt"))).mode & 0o7777).toBe(0o600);
    expect(await readlink(join(dir, "link"))).toBe("deep/down/../down/a.txt");
  });

  test.each([
    ["czf", true],
    ["cf", false],
  ])("that `tar %s` has made with long names is unpacked", async (flags) => {
    const source = join(home, "source");
    const long = `${"a-folder-with-a-long-name/".repeat(12)}${"\u{e9}".repeat(90)}`;
    await mkdir(join(source, long), { recursive: true });
    await writeFile(join(source, long, "x"), "found");
    await writeFile(join(source, "big"), "b".repeat(300_000));
    for (const format of ["gnu", "pax", "posix"]) {
      const made = spawnSync("tar", [flags, file, "-C", source, `--format=${format}`, "."]);
      expect(made.stderr.toString()).toBe("");
      await rm(dir, { recursive: true, force: true });
      const { bytes } = await extractArchive(file, dir, limits, signal);
      expect(bytes).toBe(300_005);
      expect(await text(join(long, "x"))).toBe("found");
    }
    await rm(source, { recursive: true });
  });

  test("whose only entry is a folder is built from that folder", async () => {
    const entries = [
      { name: "app-1234/", type: "5" },
      { name: "app-1234/Dockerfile", content: "FROM x" },
      { name: "._app-1234", content: "what a Mac adds" },
    ];
    expect((await extract(entries)).root).toBe(join(dir, "app-1234"));
    await rm(dir, { recursive: true });
    expect((await extract([...entries, { name: "README" }])).root).toBe(dir);
  });

  test("with several entries of one name is unpacked with the last of them", async () => {
    await extract([
      { name: "a", content: "first" },
      { name: "b", type: "1", target: "a" },
      { name: "l", type: "2", target: "a" },
      { name: "a", content: "second" },
      { name: "l", content: "is no longer a link" },
      { name: "d/", type: "5" },
      { name: "d/", type: "5", mode: 0o711 },
    ]);
    expect([await text("a"), await text("b"), await text("l")]).toEqual([
      "second",
      "first",
      "is no longer a link",
    ]);
    expect((await lstat(join(dir, "d"))).mode & 0o777).toBe(0o711);
  });

  test("may contain dangling and cyclic links that stay inside the folder", async () => {
    const { files } = await extract([
      { name: "later", type: "2", target: "not/there" },
      { name: "x", type: "2", target: "y" },
      { name: "y", type: "2", target: "x" },
    ]);
    expect(files).toBe(3);
  });
});

describe("an archive is refused with an error that names the entry, and leaves no file,", () => {
  test.each<[what: string, entries: readonly RawEntry[], message: string]>([
    [
      "an absolute path",
      [{ name: "/etc/passwd", content: "x" }],
      '"/etc/passwd": the path is absolute',
    ],
    [
      "a path through the parent folder",
      [{ name: "ok" }, { name: "a/../../evil" }],
      '"a/../../evil": the path leaves the archive',
    ],
    ["the parent folder", [{ name: "..", type: "5" }], '"..": the path leaves the archive'],
    [
      "the archive itself as a file",
      [{ name: "./", type: "2", target: "a" }],
      "only a folder may be the root of the archive",
    ],
    [
      "a link to an absolute path",
      [{ name: "l", type: "2", target: "/etc" }],
      '"l": the link leads out of the archive, to "/etc"',
    ],
    [
      "a link to a parent",
      [{ name: "a/l", type: "2", target: "../../x" }],
      '"a/l": the link leads out',
    ],
    [
      "a link that leads out through another one",
      [
        { name: "d/e/up", type: "2", target: ".." },
        { name: "out", type: "2", target: "d/e/up/../../x" },
      ],
      '"out": the link leads out of the archive through other links',
    ],
    [
      "a link that leads out through a later one",
      [
        { name: "out", type: "2", target: "a/b/../../x" },
        { name: "a/b", type: "2", target: ".." },
      ],
      '"out": the link leads out of the archive through other links',
    ],
    [
      "a hard link to an absolute path",
      [{ name: "h", type: "1", target: "/etc/passwd" }],
      '"/etc/passwd": the path is absolute',
    ],
    [
      "a hard link to a parent",
      [{ name: "h", type: "1", target: "../x" }],
      '"../x": the path leaves the archive',
    ],
    [
      "a hard link to a missing file",
      [{ name: "h", type: "1", target: "x" }],
      '"h": the target of the hard link is not a file',
    ],
    [
      "a hard link to a link",
      [
        { name: "l", type: "2", target: "a" },
        { name: "h", type: "1", target: "l" },
      ],
      '"h": the target of the hard link',
    ],
    [
      "a hard link through a link",
      [
        { name: "d/f" },
        { name: "l", type: "2", target: "d" },
        { name: "h", type: "1", target: "l/f" },
      ],
      '"h": the target of the hard link',
    ],
    [
      "a file through a link",
      [
        { name: "d/", type: "5" },
        { name: "l", type: "2", target: "d" },
        { name: "l/f", content: "x" },
      ],
      '"l/f": "l" has to be a folder, but is a link',
    ],
    [
      "a folder over a link",
      [
        { name: "l", type: "2", target: "d" },
        { name: "l/", type: "5" },
      ],
      '"l" has to be a folder',
    ],
    [
      "a file below a file",
      [{ name: "f" }, { name: "f/g" }],
      '"f" has to be a folder, but is a file',
    ],
    [
      "a file over a folder",
      [{ name: "d/f" }, { name: "d", content: "x" }],
      '"d": another entry with this path is a folder',
    ],
    [
      "a character device",
      [{ name: "null", type: "3" }],
      '"null": an archive must not contain a device',
    ],
    ["a block device", [{ name: "sda", type: "4" }], '"sda": an archive must not contain a device'],
    ["a pipe", [{ name: "pipe", type: "6" }], '"pipe": an archive must not contain a pipe'],
    ["an unknown type", [{ name: "what", type: "Z" }], '"what": the type of the entry is unknown'],
    ["a line break in a name", [{ name: "a\nb" }], '"a\\nb": the name has control characters'],
    [
      "a line break in a pax name",
      [paxHeader({ path: "x\n/etc/passwd" }), { name: "ok" }],
      "control characters",
    ],
    [
      "a NUL in a pax name",
      [paxHeader({ path: "a\0b" }), { name: "ok" }],
      '"a\\u0000b": the name has control',
    ],
    ["a terminal sequence in a name", [{ name: "\u{1b}[2J" }], '"\\u001b[2J"'],
    [
      "a name that is not UTF-8",
      [{ name: Buffer.from([0x61, 0xff, 0xfe]) }],
      "the name is not UTF-8",
    ],
    [
      "an absolute pax name",
      [paxHeader({ path: "/abs" }), { name: "ok" }],
      '"/abs": the path is absolute',
    ],
    [
      "an absolute GNU name",
      [{ name: "L", type: "L", content: "/gnu\0" }, { name: "ok" }],
      '"/gnu": the path is absolute',
    ],
    [
      "a pax link out",
      [paxHeader({ linkpath: "../up" }), { name: "l", type: "2", target: "ok" }],
      'to "../up"',
    ],
    [
      "a name that is too long",
      [paxHeader({ path: "n".repeat(300) }), { name: "ok" }],
      "longer than 255 bytes",
    ],
    [
      "a path that is too long",
      [paxHeader({ path: `${"n".repeat(200)}/`.repeat(11) }), { name: "ok" }],
      "longer than 2048",
    ],
    [
      "too many folders in folders",
      [paxHeader({ path: "d/".repeat(200) }), { name: "ok", type: "5" }],
      "deeper than 128",
    ],
    ["a sparse file", [paxHeader({ "GNU.sparse.major": "1" }), { name: "ok" }], "sparse files"],
    [
      "broken pax records",
      [{ name: "x", type: "x", content: "99 path=a\n" }, { name: "ok" }],
      "attributes of a file are malformed",
    ],
    ["pax attributes without end", [{ name: "x", type: "x", size: 2 ** 40 }], "too long"],
    ["a size without sense", [paxHeader({ size: "-5" }), { name: "ok" }], "not a number"],
  ])("if it contains %s", async (_, entries, message) => {
    expect(await refusal(entries)).toContain(message);
  });

  test("if it is empty, truncated, of another format, or has a damaged header", async () => {
    const tar = rawTar([{ name: "a", content: "x".repeat(5000) }]);
    const noise = Buffer.from(Array.from({ length: 4000 }, (_, at) => (at * 7919) % 256));
    const packed = gzipSync(rawTar([{ name: "a", content: noise }]));
    const broken = Buffer.from(packed);
    broken.fill(0x55, 200, 220);
    const flipped = Buffer.from(packed);
    flipped[packed.length - 8] = (flipped[packed.length - 8] ?? 0) ^ 1;
    expect(await refusal(rawTar([]))).toContain("the archive is empty");
    expect(await refusal(Buffer.alloc(0))).toContain("is truncated");
    expect(await refusal(packed.subarray(0, packed.length - 100))).toContain("is truncated");
    expect(await refusal(tar.subarray(0, 2000))).toContain("is truncated");
    expect(await refusal(tar.subarray(0, 512 + 5120))).toContain("is truncated");
    expect(await refusal(Buffer.from("PK\u{3}\u{4} is a zip".padEnd(2000, "z")))).toContain(
      "invalid tar header",
    );
    expect(await refusal(broken)).toMatch(/compressed data is damaged|invalid tar header/);
    expect(await refusal(flipped)).toContain("compressed data is damaged");
    expect(
      await refusal(
        gzipSync(
          Buffer.concat([rawEntry({ name: "a" }), Buffer.alloc(512), rawEntry({ name: "b" })]),
        ),
      ),
    ).toContain("after the end");
  });

  test("if a claimed size, all files together, files with hard links, or a single file exceed the limit of bytes", async () => {
    expect(await refusal([{ name: "huge", size: 10 * 2 ** 30 }])).toContain(
      '"huge": the file is larger than 1 MiB',
    );
    expect(await refusal([{ name: "vast", size: 2 ** 52 }])).toContain(
      '"vast": the file is larger',
    );
    expect(await refusal([{ name: "vaster", size: 2 ** 60 }])).toContain("out of range");
    const half = { content: Buffer.alloc(600_000) };
    expect(
      await refusal([
        { name: "a", ...half },
        { name: "b", ...half },
      ]),
    ).toContain('"b": the files of the archive are larger');
    expect(
      await refusal([
        { name: "a", ...half },
        { name: "b", type: "1", target: "a" },
      ]),
    ).toContain('"b": the files of the archive are larger');
    expect(await refusal([{ name: "a", content: "12345" }], { fileBytesMax: 4 })).toContain(
      "larger than 4 B",
    );
  });

  test("if it claims to be small and unpacks to 10 GB, long before all of it is unpacked", async () => {
    // 10 GB of zeros follow the end of the archive, so no header announces the size.
    const start = gzipSync(rawTar([{ name: "a", content: "a" }]));
    const zeros = gzipSync(Buffer.alloc(64 * 2 ** 20), { level: 1 });
    const parts = Array.from({ length: 160 }, () => zeros);
    await writeFile(file, Buffer.concat([start, ...parts]));
    const message = await extractArchive(file, dir, limits, signal).catch(
      (error: Error) => error.message,
    );
    expect(message).toContain("the archive contains more than 1 MiB");
    expect(await readdir(home)).toEqual(["archive"]);
  });

  test("if it contains a million empty files", async () => {
    const one = Array.from({ length: 1000 }, (_, at) => rawEntry({ name: `f${at}` }));
    const thousand = Buffer.concat(one);
    const source = (function* () {
      for (let count = 0; count < 1000; count += 1) yield thousand;
      yield Buffer.alloc(1024);
    })();
    await pipeline(Readable.from(source), createGzip({ level: 1 }), createWriteStream(file));
    const message = await extractArchive(file, dir, limits, signal).catch(
      (error: Error) => error.message,
    );
    expect(message).toMatch(/because of its entry "f0": the archive has more than 1000 files/);
    expect(await readdir(home)).toEqual(["archive"]);
  }, 60_000);

  test("if folders that its paths only imply exceed the limit of files", async () => {
    const deep = { name: `${"d/".repeat(45)}f` };
    expect(await refusal([deep], { filesMax: 45 })).toContain("more than 45 files");
  });
});

test("the abort of an extraction leaves no files, and is not reported as a failure of the archive", async () => {
  const entries = Array.from({ length: 500 }, (_, at) => ({ name: `f${at}`, content: "x" }));
  await writeFile(file, rawTar(entries));
  await expect(extractArchive(file, dir, limits, AbortSignal.abort())).rejects.toMatchObject({
    name: "AbortError",
  });
  const abort = new AbortController();
  const extracting = extractArchive(file, dir, limits, abort.signal);
  await expect
    .poll(() =>
      readdir(dir).then(
        (names) => names.length,
        () => 0,
      ),
    )
    .toBeGreaterThan(0);
  abort.abort();
  await expect(extracting).rejects.toMatchObject({ name: "AbortError" });
  expect(await readdir(home)).toEqual(["archive"]);
});

test("no archive is extracted into a folder that is not empty", async () => {
  await mkdir(dir);
  await writeFile(join(dir, "mine"), "");
  await expect(extract([{ name: "a" }])).rejects.toMatchObject({ code: "internal" });
  expect(await readdir(dir)).toEqual(["mine"]);
  expect(basename(dir)).toBe("out");
});
