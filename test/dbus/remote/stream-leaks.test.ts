import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COLLECTING, collectGarbage } from "../../support/collected-garbage.ts";
import {
  type DaemonResources,
  readDaemonResources,
  waitForResources,
} from "../../support/daemon-resources.ts";
import type { FrontendClient, RecordedTurn } from "../../support/frontend-client.ts";
import {
  type FaultName,
  findFaultyResponse,
  trickled,
} from "../../support/provider/faulty-responses.ts";
import { Dice } from "../../support/random.ts";
import {
  type HttpChat,
  LOCAL_MODEL,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../../support/remote-companion-harness.ts";
import { SEED } from "../../support/sampling.ts";

const random = new Dice(SEED);
/** The number of streams in each test. */
const STREAMS = 200;
/** The numbers of streams that run concurrently, as HTTP requests and as overlay queries. */
const AT_ONCE = { http: 15, overlay: 10 };

let harness: RemoteCompanionHarness;
let before: DaemonResources;

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  harness = await RemoteCompanionHarness.open({
    script: findFaultyResponse,
    environment: COLLECTING,
  });
  // A first round creates the objects that exist once, such as the first connections, before the test begins to count.
  await Promise.all(
    createSources().flatMap(({ openStreams: ask }) => ask("trickle").map(({ end }) => end())),
  );
  before = await readDaemonResources(harness);
});
afterAll(() => harness?.[Symbol.asyncDispose]());

/** A streamed answer: the response to an HTTP request, or the signals of an overlay query. */
interface Stream {
  readonly model: string;
  /** Resolves when text has arrived, or the stream has ended. */
  readonly begun: () => Promise<unknown>;
  readonly cancel: () => Promise<unknown>;
  readonly end: () => Promise<{ readonly code: string | undefined; readonly text: string }>;
}

interface StreamSource {
  readonly openStreams: (fault: FaultName) => readonly Stream[];
}

const pickModel = () => random.pick([REMOTE_MODEL, LOCAL_MODEL]);

function toHttpStream(chat: HttpChat, of: string): Stream {
  return {
    model: of,
    begun: () => chat.begun,
    cancel: async () => chat.disconnect(),
    end: async () => ({ code: (await chat.result).code, text: await chat.readAnswer() }),
  };
}

function toBusStream(caller: FrontendClient, asked: Promise<RecordedTurn>, of: string): Stream {
  return {
    model: of,
    begun: async () => {
      const turn = await asked;
      await caller.waitUntil(
        "the stream to begin",
        () => turn.text !== "" || turn.end !== undefined,
      );
    },
    cancel: async () => caller.call("Overlay1", "Cancel", "t", (await asked).queryId),
    end: async () => {
      const { end, text } = await caller.waitForEnd(await asked);
      return { code: String(end?.detail["code"]), text };
    },
  };
}

/**
 * Returns two sources of streams, one for HTTP requests and one for overlay queries. Each has the number of streams
 * that may run at once.
 */
function createSources(caller = harness.frontend): readonly StreamSource[] {
  const http = Array.from({ length: AT_ONCE.http }, () => pickModel());
  const overlay = Array.from({ length: AT_ONCE.overlay }, () => pickModel());
  return [
    {
      openStreams: (fault) =>
        http.map((of) => toHttpStream(harness.chat(of, `Tell me #${fault}`), of)),
    },
    {
      openStreams: (fault) =>
        overlay.map((of) => {
          const options = { model_hint: of, lane: "chat" };
          return toBusStream(caller, caller.ask(`Tell me #${fault}`, options), of);
        }),
    },
  ];
}

async function runRounds(play: (sources: readonly StreamSource[]) => Promise<void>): Promise<void> {
  const each = AT_ONCE.http + AT_ONCE.overlay;
  for (let done = 0; done < STREAMS; done += each) await play(createSources());
}

const openAll = (sources: readonly StreamSource[], fault: FaultName) =>
  sources.flatMap(({ openStreams: ask }) => ask(fault));

describe("200 streams leave no connection, descriptor or state behind", () => {
  it("if their callers cancel at any time", async () => {
    await runRounds(async (sources) => {
      const streams = openAll(sources, random.pick(["hang", "hang-head", "trickle"]));
      await Promise.all(
        streams.map(async (stream) => {
          if (random.chance(0.5)) await Promise.race([stream.begun(), waitForNextRequest()]);
          await stream.cancel();
          const { code = "left" } = await stream.end();
          expect(["left", "cancelled", "ok"]).toContain(code);
        }),
      );
    });
    await waitForResources(before, harness);
  });

  it("if their callers' connections are lost", async () => {
    await runRounds(async () => {
      const caller = await harness.connectFrontend();
      const streams = openAll(createSources(caller), random.pick(["hang", "hang-head"]));
      await Promise.race([...streams.map(({ begun }) => begun()), waitForNextRequest()]);
      await caller[Symbol.asyncDispose]();
      for (const stream of streams) void stream.cancel().catch(() => {});
    });
    await waitForResources(before, harness);
    expect(harness.companion.lines.join("\n")).toContain('"status":"gone"');
  });

  it.each(["reset", "cut", "half-event", "half-letter"] as const)(
    "if a quarter of them is cut off by %s",
    async (fault) => {
      await Promise.all(
        openAll([...createSources(), ...createSources()], fault).map(async (stream) => {
          const { code, text } = await stream.end();
          const far = fault === "reset" ? "unreachable" : "cut_off";
          const expected = stream.model === REMOTE_MODEL ? far : "engine_failed";
          expect([stream.model, code]).toEqual([stream.model, expected]);
          expect(text).not.toContain("\uFFFD");
        }),
      );
      await waitForResources(before, harness);
    },
  );

  it("if they are slow and complete", async () => {
    await runRounds(async (sources) => {
      for (const ended of await Promise.all(openAll(sources, "trickle").map(({ end }) => end())))
        expect(ended).toMatchObject({ text: trickled });
    });
    await waitForResources(before, harness);
  });

  it("and the daemon's memory does not grow with their number", async () => {
    const megabytes = await measureMemory();
    for (let round = 0; round < 2; round += 1)
      await runRounds(async (sources) => {
        const streams = openAll(sources, random.pick(["hang", "cut", "trickle"]));
        await Promise.all(
          streams.map(async (stream) => {
            await stream.begun();
            await stream.cancel();
            await stream.end();
          }),
        );
      });
    await waitForResources(before, harness);
    const after = await measureMemory();
    process.stdout.write(`${megabytes.toFixed(1)} MB, ${after.toFixed(1)} MB\n`);
    expect(after - megabytes).toBeLessThan(8);
    const complaints = harness.companion.lines.filter((line) => /"level":[56]0|Warning/.test(line));
    expect(complaints).toEqual([]);
  });
});

/** Returns the size of the daemon's objects and buffers after a garbage collection. */
async function measureMemory(): Promise<number> {
  await collectGarbage(harness.companion);
  const metrics = await harness.metrics();
  const names = ["nodejs_heap_size_used_bytes", "nodejs_external_memory_bytes"];
  return names.reduce((sum, name) => sum + (metrics.get(name) ?? Number.NaN), 0) / 2 ** 20;
}

/** Waits until one of the two providers has received another request. */
async function waitForNextRequest(): Promise<void> {
  const asked = [harness.cloudProvider, harness.localProvider].map((side) => {
    const { length } = side.requests;
    return side.until(({ requests }) => requests.length > length);
  });
  await Promise.race(asked);
}
