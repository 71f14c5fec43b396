import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { readPartialJournal } from "../../../src/controller/models/files/partial-journal.ts";
import { type ByteRange, countBytes } from "../../../src/controller/models/files/ranges.ts";
import type { Fault } from "../../support/hub/faults.ts";
import type { HubRequest } from "../../support/hub/hub.ts";
import {
  eventually,
  ggufFile,
  ModelE2eHarness,
  modelSpecFile,
  type TestFile,
} from "../../support/model-e2e-harness.ts";
import { Dice } from "../../support/random.ts";

/**
 * A point of a model's download at which the test kills `berth up` with SIGKILL. The test then restarts Berth on the
 * files that are left. Another model keeps running in the meantime.
 */
interface Moment {
  readonly title: string;
  readonly file: TestFile;
  readonly kills: number;
  /** The faults that the hub injects until the last kill. */
  readonly faults: (path: string) => readonly Fault[];
  /** Resolves when the test must kill Berth; called once for each kill. */
  readonly reached: (world: ModelE2eHarness, play: KillRun) => Promise<void>;
}

interface KillRun {
  readonly path: string;
  readonly file: TestFile;
  /** The requests that the hub has received since the model was added. */
  readonly requests: () => HubRequest[];
  readonly sentBytes: () => number;
}

const SEED = 20_260;

test("a download resumes without fetching stored bytes again after a kill of Berth, and a model keeps answering", async () => {
  const dice = new Dice(SEED);
  const [chat, small, ...tiny] = await Promise.all([
    ggufFile("tiny", { seed: 100 }),
    ggufFile("small", { seed: 101 }),
    ...[1, 2, 3, 4].map((number) => ggufFile("tiny", { seed: 101 + number })),
  ]);
  await using world = await ModelE2eHarness.open();
  const { berth, hub } = world;
  await hub.addRepository({ id: "org/chat", files: { "chat-Q4_K_M.gguf": chat.bytes } });
  const chatSpec = { source: "org/chat", running: true, parallel: 1, contextSize: 256 };
  await berth.write("chat.yaml", modelSpecFile("chat", chatSpec));
  const before = await world.waitForModelStatus("chat", "running");
  const said = await world.say("chat");
  const assistant = await world.assistantPid();

  let kept = 0;
  for (const [index, moment] of moments(dice, small, tiny).entries()) {
    const { title, file, kills } = moment;
    const name = `m${index}`;
    const path = `${name}-Q4_K_M.gguf`;
    await hub.addRepository({ id: `org/${name}`, files: { [path]: file.bytes } });
    const from = hub.requests.length;
    const requests = () => hub.requests.slice(from);
    const sentBytes = () => requests().reduce((sum, { bodyBytes }) => sum + bodyBytes, 0);
    for (const fault of moment.faults(path)) hub.faults.add(fault);
    await berth.write(`${name}.yaml`, modelSpecFile(name, { source: `org/${name}` }));
    const restarts: { readonly at: number; readonly safe: readonly ByteRange[] }[] = [];
    for (let kill = 1; kill <= kills; kill += 1) {
      await moment.reached(world, { path, file, requests, sentBytes });
      await berth.kill();
      restarts.push({ at: hub.requests.length, safe: await safeRanges(world, file) });
      if (kill === kills) hub.faults.clear();
      await berth.start();
      // Berth takes over the assistant that survived, including the models in its memory.
      expect({ title, answer: await world.say("chat") }).toEqual({ title, answer: said });
      expect(await world.assistantPid()).toBe(assistant);
    }
    const model = await world.waitForModelStatus(name, "ready");
    expect(model).toMatchObject({ ready: true, sha256: file.sha256, error: null });
    expect(await digestOf(world, file)).toBe(file.sha256);
    for (const { at, safe } of restarts) {
      kept += countBytes(safe);
      const later = hub.requests.slice(at).flatMap((request) => rangeOf(request, file));
      const twice = later.filter((range) => overlap(range, safe) > 0);
      expect({ title, twice }).toEqual({ title, twice: [] });
    }
    await berth.remove(`${name}.yaml`);
  }
  // If the kills had left only a few stored bytes, the test could not detect that Berth downloads them a second time.
  expect(kept).toBeGreaterThan(1_000_000);
  expect(await readdir(join(world.modelsDir, "partial"))).toEqual([]);
  const after = await world.waitForModelStatus("chat", "running");
  expect(after.loaded_at).toBe(before.loaded_at);
  const started = (await world.reasons("chat")).filter((reason) => reason === "Started");
  expect(started).toHaveLength(1);
});

/** Waits until the hub has received a request for which `is` returns true. */
function asked(is: (request: HubRequest, path: string) => boolean): Moment["reached"] {
  return (_, { path, requests }) =>
    eventually("the hub is asked", () => requests().some((request) => is(request, path)));
}

function moments(dice: Dice, small: TestFile, tiny: readonly TestFile[]): readonly Moment[] {
  const [first, second, third, fourth] = tiny;
  if (!first || !second || !third || !fourth) throw new Error("files are missing");
  /**
   * Returns a moment for a kill after the download is complete: during the few milliseconds in which Berth hashes,
   * links and reports the file.
   */
  const complete = (file: TestFile): Moment => {
    const waitMs = dice.between(0, 40);
    return {
      title: `complete for ${waitMs} ms`,
      file,
      kills: 1,
      faults: () => [],
      reached: async (_, { sentBytes }) => {
        await eventually("all is sent", () => sentBytes() >= file.bytes.length);
        await pause(waitMs);
      },
    };
  };
  return [
    {
      title: "the listing is asked for",
      file: first,
      kills: 1,
      faults: () => [{ on: "api", type: "hang" }],
      reached: asked(({ url }) => url.startsWith("/api/")),
    },
    {
      title: "the file is asked for",
      file: second,
      kills: 1,
      faults: (path) => [{ on: "resolve", method: "GET", path, type: "hang" }],
      reached: asked(({ method, url }, path) => method === "GET" && url.includes(`/${path}`)),
    },
    {
      title: "in the middle",
      file: small,
      kills: 3,
      faults: (path) => [{ on: "cdn", path, type: "slow", bytesPerSecond: 500_000 }],
      // A moment at which some ranges of the file are safely on the disk, and further bytes are written that the
      // download's journal does not list yet.
      reached: async (world, { file, sentBytes }) => {
        const before = countBytes(await safeRanges(world, file));
        await eventually("more is safe", async () => {
          return countBytes(await safeRanges(world, file)) > before;
        });
        const bytes = sentBytes() + dice.between(0, 300_000);
        await eventually("more has come", () => sentBytes() >= bytes);
      },
    },
    complete(third),
    complete(fourth),
  ];
}

/** Returns the ranges of the file that are safely on disk, which Berth must not download again. */
async function safeRanges(
  world: ModelE2eHarness,
  { sha256, bytes }: TestFile,
): Promise<readonly ByteRange[]> {
  const isWhole = (await readdir(world.blobsDir)).includes(sha256);
  if (isWhole) return [{ start: 0, end: bytes.length }];
  const journal = join(world.modelsDir, "partial", `sha256-${sha256}`, "journal");
  return (await readPartialJournal(journal))?.ranges ?? [];
}

/** Returns the range of the file that a request asks for, or an empty list for any other request. */
function rangeOf({ server, method, url, headers }: HubRequest, file: TestFile): ByteRange[] {
  if (server !== "cdn" || method !== "GET" || !url.includes(file.sha256)) return [];
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  return first === undefined
    ? [{ start: 0, end: file.bytes.length }]
    : [{ start: Number(first), end: Number(last) + 1 }];
}

function overlap({ start, end }: ByteRange, ranges: readonly ByteRange[]): number {
  return ranges.reduce(
    (sum, one) => sum + Math.max(0, Math.min(end, one.end) - Math.max(start, one.start)),
    0,
  );
}

async function digestOf(world: ModelE2eHarness, { sha256 }: TestFile): Promise<string> {
  return createHash("sha256")
    .update(await readFile(join(world.blobsDir, sha256)))
    .digest("hex");
}
