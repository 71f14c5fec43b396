import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { BuildLogs } from "../../../../src/controller/builds/build-logs.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const plain = (text: string) => text;
const never = new AbortController().signal;

let dir: string;
let logs: BuildLogs;

beforeEach(() => {
  dir = temporaryFolder("build-logs");
  logs = new BuildLogs(dir);
});

describe("reading a build log", () => {
  test("returns the lines that exist so far", async () => {
    const log = logs.create(1, plain);
    log.write("one");
    log.write("two\nthree\n");
    expect(await read(1)).toEqual(["one", "two", "three"]);
    log.end("over");
    expect(await read(1)).toEqual(["one", "two", "three", "over"]);
  });

  test("returns undefined if the log does not exist", async () => {
    const lines = logs.read(7, { follow: true }, never);
    expect(await lines.next()).toEqual({ done: true, value: false });
  });

  test("that is complete does not wait for more lines", async () => {
    logs.create(1, plain).end("over");
    expect(await read(1, true)).toEqual(["over"]);
  });
});

describe("following a build log", () => {
  test("gives every reader every line once, whenever the reader starts", async () => {
    const log = logs.create(1, plain);
    log.write("first");
    const early = read(1, true);
    const wanted = ["first"];
    for (let number = 0; number < 2_000; number += 1) {
      log.write(`line ${number} ${"x".repeat(100)}`);
      wanted.push(`line ${number} ${"x".repeat(100)}`);
      if (number % 100 === 0) await new Promise(setImmediate);
    }
    const late = read(1, true);
    await new Promise(setImmediate);
    log.end("over");
    expect(await early).toEqual([...wanted, "over"]);
    expect(await late).toEqual([...wanted, "over"]);
  });

  test("ends when the reader stops reading", async () => {
    const log = logs.create(1, plain);
    log.write("first");
    const leaving = new AbortController();
    const lines = logs.read(1, { follow: true }, leaving.signal);
    expect((await lines.next()).value).toBe("first");
    const next = lines.next();
    leaving.abort();
    expect(await next).toEqual({ done: true, value: true });
    log.end("over");
  });
});

describe("writing a build log", () => {
  test("cuts off a log that exceeds its limit and adds a note, but keeps the last line", async () => {
    logs = new BuildLogs(dir, 1_000);
    const log = logs.create(1, plain);
    for (let number = 0; number < 100; number += 1) log.write(`line ${number} of many`);
    log.end("==> failed: the end");
    const lines = await read(1);
    expect(lines.at(-1)).toBe("==> failed: the end");
    expect(lines.at(-2)).toBe("... the log is cut off here, at 1000 B; the build continues");
    expect(lines[0]).toBe("line 0 of many");
    expect(statSync(join(dir, "1.log")).size).toBeLessThan(1_200);
  });

  test("masks secrets, and creates a file that only Berth's user can read", async () => {
    const log = logs.create(1, (text) => text.replaceAll("s3cret", "(secret)"));
    log.write("token s3cret\ntoken s3cret again");
    log.end("failed with s3cret");
    expect(readFileSync(join(dir, "1.log"), "utf8")).toBe(
      "token (secret)\ntoken (secret) again\nfailed with (secret)\n",
    );
    expect(statSync(join(dir, "1.log")).mode & 0o077).toBe(0);
  });

  test("keeps only the last state of a line that overwrites itself", async () => {
    const log = logs.create(1, plain);
    log.write("10 %\r50 %\r100 %\r\nnext");
    log.end("over");
    expect(await read(1)).toEqual(["100 %", "next", "over"]);
  });

  test("ignores lines after the end of the log", async () => {
    const log = logs.create(1, plain);
    log.end("over");
    log.write("late");
    log.end("again");
    expect(await read(1)).toEqual(["over"]);
  });
});

test("build logs are listed and removed by the number of their build", async () => {
  for (const id of [1, 2, 30]) logs.create(id, plain).end("over");
  expect((await logs.ids()).toSorted((a, b) => a - b)).toEqual([1, 2, 30]);
  await logs.remove([1, 30, 99]);
  expect(await logs.ids()).toEqual([2]);
});

async function read(id: number, follow = false): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of logs.read(id, { follow }, never)) lines.push(line);
  return lines;
}
