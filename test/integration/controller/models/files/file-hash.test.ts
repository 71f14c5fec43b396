import { createHash, randomBytes } from "node:crypto";
import { open, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { FileHash } from "../../../../../src/controller/models/files/file-hash.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

const MIB = 2 ** 20;
/** The size of a file that is large enough to be hashed in a thread. */
const SIZE = 40 * MIB + 3;
const neverAborted = new AbortController().signal;

describe("FileHash", () => {
  let dir: string;
  let path: string;
  let bytes: Buffer;

  beforeEach(() => {
    dir = temporaryFolder("file-hash");
    path = join(dir, "data");
    bytes = randomBytes(SIZE);
  });

  test("follows a file that grows, and returns both digests", async () => {
    await writeFile(path, "");
    const hash = new FileHash({ path, sizeBytes: SIZE, withGitBlob: true });
    const file = await open(path, "r+");
    for (let at = 0; at < SIZE; at += 8 * MIB) {
      const part = bytes.subarray(at, at + 8 * MIB);
      await file.write(part, 0, part.length, at);
      hash.advance(at + part.length);
      // A call of `advance` with an earlier position than the previous one must not change the hash.
      hash.advance(at);
    }
    await file.close();
    expect(await hash.finish(() => {}, neverAborted)).toEqual({
      sha256: createHash("sha256").update(bytes).digest("hex"),
      gitBlob: createHash("sha1").update(`blob ${SIZE}\0`).update(bytes).digest("hex"),
    });
  });

  test("rejects if the file is shorter than the given size", async () => {
    await writeFile(path, bytes);
    await truncate(path, MIB);
    const hash = new FileHash({ path, sizeBytes: SIZE, withGitBlob: false });
    await expect(hash.finish(() => {}, neverAborted)).rejects.toThrow("the file has only 1048576");
  });

  test("rejects if the file is missing, also when finish is called later", async () => {
    const hash = new FileHash({ path, sizeBytes: SIZE, withGitBlob: false });
    hash.advance(1);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await expect(hash.finish(() => {}, neverAborted)).rejects.toThrow("ENOENT");
  });

  test("rejects with the reason of an aborted signal", async () => {
    await writeFile(path, bytes);
    const abort = new AbortController();
    const hash = new FileHash({ path, sizeBytes: SIZE, withGitBlob: false });
    const result = hash.finish(() => {}, abort.signal);
    abort.abort();
    await expect(result).rejects.toMatchObject({ name: "AbortError" });
  });
});
