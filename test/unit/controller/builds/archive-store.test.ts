import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { ArchiveStore } from "../../../../src/controller/builds/archive-store.ts";
import { paxHeader, rawTar } from "../../../support/raw-tar.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const { signal } = new AbortController();
const plain = rawTar([{ name: "a", content: "hello" }]);
const gzipped = gzipSync(plain);
const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const emptyFile = { name: "f", content: "" };
const link = { name: "l", type: "2" };
/** A very long path that ends in the folder in which it starts. */
const detour = "a/".repeat(400) + "../".repeat(400);
const limits = { bytesMax: 200_000, filesMax: 100 };
let dir = "";
let store: ArchiveStore;

beforeEach(() => {
  dir = temporaryFolder("archives");
  store = new ArchiveStore({ dir: join(dir, "archives"), bytesMax: 100_000, limits });
});

/** Splits bytes into chunks of `length` bytes, as a network does. */
async function* inPieces(bytes: Buffer, length: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

const files = () => readdir(join(dir, "archives"));

test.each([
  ["gzipped", gzipped, 1],
  ["gzipped, in one piece", gzipped, 1e6],
  ["plain", plain, 100],
])("an archive that is %s is stored under the digest of its bytes", async (_, bytes, length) => {
  const kept = await store.put(inPieces(bytes, length), signal);
  expect(kept).toEqual({ digest: digestOf(bytes), bytes: bytes.length });
  expect(await store.has(kept.digest)).toBe(true);
  expect((await readFile(store.path(kept.digest))).equals(bytes)).toBe(true);
  expect((await stat(store.path(kept.digest))).mode & 0o777).toBe(0o600);
});

test("two concurrent uploads of the same archive store a single file", async () => {
  await Promise.all([
    store.put(inPieces(gzipped, 7), signal),
    store.put(inPieces(gzipped, 9), signal),
  ]);
  expect(await files()).toHaveLength(1);
});

test("the archive store lists the stored archives, oldest first, and removes them", async () => {
  expect(await store.list()).toEqual([]);
  const [a, b] = [
    await store.put(inPieces(plain, 512), signal),
    await store.put(inPieces(gzipped, 512), signal),
  ];
  await utimes(store.path(b.digest), 1000, 1000);
  await utimes(store.path(a.digest), 2000, 2000);
  await writeFile(join(dir, "archives", "notes.txt"), "not ours");
  expect(await store.list()).toEqual([
    { ...b, storedAtMs: 1_000_000 },
    { ...a, storedAtMs: 2_000_000 },
  ]);
  const archive = { ...a, storedAtMs: 2_000_000 };
  expect(store.removeUnchanged(archive)).toBe(true);
  expect(store.removeUnchanged(archive)).toBe(false);
  expect(await store.has(a.digest)).toBe(false);
  expect((await store.list()).map(({ digest }) => digest)).toEqual([b.digest]);
});

test("the archive store does not remove an archive that was uploaded again after it was listed", async () => {
  const { digest } = await store.put(inPieces(gzipped, 512), signal);
  expect(store.isReuploaded(digest)).toBe(false);
  await utimes(store.path(digest), 1000, 1000);
  const [listed] = await store.list();
  await store.put(inPieces(gzipped, 512), signal);
  expect(listed && store.removeUnchanged(listed)).toBe(false);
  expect(store.isReuploaded(digest)).toBe(true);
  expect(await store.has(digest)).toBe(true);
});

describe("a failed upload", () => {
  test.each<[what: string, bytes: Buffer, message: string]>([
    ["an empty stream", Buffer.alloc(0), "the file is empty"],
    [
      "a zip file",
      Buffer.from("504b030414000000".padEnd(2000, "0"), "hex"),
      "the file is a zip file",
    ],
    ["zstd", Buffer.from("28b52ffd".padEnd(2000, "0"), "hex"), "compressed with zstd"],
    ["text", Buffer.from("hello"), "the file is of another format"],
    ["a block of noise", Buffer.alloc(600, "tar?"), "the file is of another format"],
    ["a number out of range", Buffer.alloc(600, 0x90), "the file is of another format"],
    ["an archive that is cut", gzipped.subarray(0, -10), "the archive is truncated"],
    ["a plain archive that is cut", plain.subarray(0, 700), "the archive is truncated"],
    ["noise behind the magic of gzip", Buffer.from("1f8b08".padEnd(90, "7")), "another format"],
    [
      "an archive whose checksum is wrong",
      Buffer.concat([gzipped.subarray(0, -8), Buffer.alloc(8, 7)]),
      "the compressed data is damaged",
    ],
    ["an archive without files", gzipSync(Buffer.alloc(1024)), "the archive is empty"],
    [
      "a path that leaves it",
      gzipSync(rawTar([{ name: "../x", content: "" }])),
      'its entry "../x"',
    ],
    [
      "a link that leaves it",
      gzipSync(rawTar([{ name: "x", type: "2", target: "/etc/passwd" }])),
      "leads out of the archive",
    ],
    [
      "a long name of NUL characters",
      gzipSync(rawTar([{ name: "L", type: "L", content: `a${"\0".repeat(500_000)}b` }, emptyFile])),
      "control characters",
    ],
    [
      "a link with a very long target",
      gzipSync(rawTar([paxHeader({ linkpath: "a/".repeat(400_000) }), link])),
      "the target of the link is longer than 2048 bytes",
    ],
    [
      "links that take too long to follow",
      gzipSync(
        rawTar(
          Array.from({ length: 90 }, (_, at) => [
            paxHeader({ path: `l${at}`, linkpath: `${detour}l${(at + 1) % 90}` }),
            link,
          ]).flat(),
        ),
      ),
      "the symbolic links of the archive take too long to follow",
    ],
    [
      "more than a source may contain",
      gzipSync(rawTar([{ name: "x", content: Buffer.alloc(300_000) }])),
      "larger than",
    ],
  ])("of %s leaves no file", async (_, bytes, message) => {
    const error = await store.put(inPieces(bytes, 64), signal).catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: "archive_invalid",
      message: expect.stringContaining(message),
    });
    expect(await files()).toEqual([]);
  });

  test("of an archive that is too large leaves no file, and reads no more than the limit", async () => {
    let taken = 0;
    const endless = (async function* () {
      yield gzipped;
      for (;;) {
        taken += 1;
        yield Buffer.alloc(10_000);
      }
    })();
    await expect(store.put(endless, signal)).rejects.toMatchObject({ code: "payload_too_large" });
    expect(taken).toBeLessThan(12);
    expect(await files()).toEqual([]);
  });

  test("of a stream that ends with an error leaves no file", async () => {
    const broken = (async function* () {
      yield gzipped;
      throw new Error("connection lost");
    })();
    await expect(store.put(broken, signal)).rejects.toThrow("connection lost");
    expect(await files()).toEqual([]);
  });

  test("that is aborted while it sends no data leaves no file", async () => {
    const silent = new Readable({ read() {} });
    silent.push(gzipped);
    const abort = new AbortController();
    const putting = store.put(silent, abort.signal);
    await expect.poll(() => files().catch(() => [])).toHaveLength(1);
    abort.abort();
    await expect(putting).rejects.toMatchObject({ name: "AbortError" });
    expect(await files()).toEqual([]);
    await expect(store.put(inPieces(gzipped, 9), abort.signal)).rejects.toMatchObject({
      name: "AbortError",
    });
    silent.destroy();
  });

  test("to a full disk leaves no file", async () => {
    // Every write to /dev/full fails with ENOSPC, as on a full disk.
    const file = await import("node:fs/promises").then(({ open }) => open("/dev/full", "w"));
    const failure = await file.write("x").catch((error: unknown) => error);
    await file.close();
    const failing = (async function* () {
      yield gzipped;
      throw failure;
    })();
    await expect(store.put(failing, signal)).rejects.toMatchObject({ code: "disk_full" });
    expect(await files()).toEqual([]);
  });
});

test("the archive store removes the leftovers of a crash, but no running upload", async () => {
  await mkdir(join(dir, "archives"), { recursive: true });
  await writeFile(join(dir, "archives", "11111111-2222-3333-4444-555555555555.part"), "half");
  const kept = await store.put(inPieces(plain, 512), signal);
  const silent = new Readable({ read() {} });
  silent.push(gzipped);
  const putting = store.put(silent, signal);
  await expect.poll(files).toHaveLength(3);
  expect(await store.sweep()).toBe(1);
  silent.push(null);
  const late = await putting;
  expect((await store.list()).map(({ digest }) => digest).toSorted()).toEqual(
    [kept.digest, late.digest].toSorted(),
  );
  expect(await store.sweep()).toBe(0);
});

test.each(["", "x", "../secret.key", "A".repeat(64), `${"a".repeat(64)}/..`])(
  "%j is refused as a digest, and is never used as a path",
  async (digest) => {
    expect(await store.has(digest)).toBe(false);
    expect(() => store.path(digest)).toThrow("not the digest");
  },
);
