import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COLLECTING, collectGarbage } from "../../support/collected-garbage.ts";
import type { FrontendClient, RecordedTurn } from "../../support/frontend-client.ts";
import { type Held, heldBy, isBackAt } from "../../support/held-by-daemon.ts";
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

const dice = new Dice(SEED);
/** Streams in each of the ways; those that are under way at once, by the port and by the overlay. */
const STREAMS = 200;
const AT_ONCE = { http: 15, overlay: 10 };

let desk: RemoteCompanionHarness;
let before: Held;

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  desk = await RemoteCompanionHarness.open({ script: findFaultyResponse, environment: COLLECTING });
  // What is made once, such as the first connections, is there before anything is counted.
  await Promise.all(
    batch().flatMap(({ openStreams: ask }) => ask("trickle").map(({ end }) => end())),
  );
  before = await heldBy(desk);
});
afterAll(() => desk?.[Symbol.asyncDispose]());

/** A stream as its caller has it. */
interface Stream {
  readonly model: string;
  /** Something of the answer is there, or it has ended. */
  readonly begun: () => Promise<unknown>;
  readonly leave: () => Promise<unknown>;
  readonly end: () => Promise<{ readonly code: string | undefined; readonly text: string }>;
}

interface StreamSource {
  readonly openStreams: (fault: FaultName) => readonly Stream[];
}

const model = () => dice.pick([REMOTE_MODEL, LOCAL_MODEL]);

function overHttp(chat: HttpChat, of: string): Stream {
  return {
    model: of,
    begun: () => chat.begun,
    leave: async () => chat.disconnect(),
    end: async () => ({ code: (await chat.result).code, text: await chat.readAnswer() }),
  };
}

function overTheBus(caller: FrontendClient, asked: Promise<RecordedTurn>, of: string): Stream {
  return {
    model: of,
    begun: async () => {
      const turn = await asked;
      await caller.waitUntil("it begins", () => turn.text !== "" || turn.end !== undefined);
    },
    leave: async () => caller.call("Overlay1", "Cancel", "t", (await asked).queryId),
    end: async () => {
      const { end, text } = await caller.waitForEnd(await asked);
      return { code: String(end?.detail["code"]), text };
    },
  };
}

/** One round of what may be under way at once. */
function batch(caller = desk.frontend): readonly StreamSource[] {
  const http = Array.from({ length: AT_ONCE.http }, () => model());
  const overlay = Array.from({ length: AT_ONCE.overlay }, () => model());
  return [
    { openStreams: (fault) => http.map((of) => overHttp(desk.chat(of, `Tell me #${fault}`), of)) },
    {
      openStreams: (fault) =>
        overlay.map((of) => {
          const options = { model_hint: of, lane: "chat" };
          return overTheBus(caller, caller.ask(`Tell me #${fault}`, options), of);
        }),
    },
  ];
}

async function runRounds(play: (doors: readonly StreamSource[]) => Promise<void>): Promise<void> {
  const each = AT_ONCE.http + AT_ONCE.overlay;
  for (let done = 0; done < STREAMS; done += each) await play(batch());
}

const openAll = (doors: readonly StreamSource[], fault: FaultName) =>
  doors.flatMap(({ openStreams: ask }) => ask(fault));

describe("200 streams leave nothing behind", () => {
  it("that their callers cancel, at any time", async () => {
    await runRounds(async (doors) => {
      const streams = openAll(doors, dice.pick(["hang", "hang-head", "trickle"]));
      await Promise.all(
        streams.map(async (stream) => {
          if (dice.chance(0.5)) await Promise.race([stream.begun(), untilAsked()]);
          await stream.leave();
          const { code = "left" } = await stream.end();
          expect(["left", "cancelled", "ok"]).toContain(code);
        }),
      );
    });
    await isBackAt(before, desk);
  });

  it("whose callers' connections are lost", async () => {
    await runRounds(async () => {
      const caller = await desk.connectFrontend();
      const streams = openAll(batch(caller), dice.pick(["hang", "hang-head"]));
      await Promise.race([...streams.map(({ begun }) => begun()), untilAsked()]);
      await caller[Symbol.asyncDispose]();
      for (const stream of streams) void stream.leave().catch(() => {});
    });
    await isBackAt(before, desk);
    expect(desk.companion.lines.join("\n")).toContain('"status":"gone"');
  });

  it.each(["reset", "cut", "half-event", "half-letter"] as const)(
    "of which a quarter is cut by %s",
    async (fault) => {
      await Promise.all(
        openAll([...batch(), ...batch()], fault).map(async (stream) => {
          const { code, text } = await stream.end();
          const far = fault === "reset" ? "unreachable" : "cut_off";
          const expected = stream.model === REMOTE_MODEL ? far : "engine_failed";
          expect([stream.model, code]).toEqual([stream.model, expected]);
          expect(text).not.toContain("\uFFFD");
        }),
      );
      await isBackAt(before, desk);
    },
  );

  it("that are slow, and come to their end all the same", async () => {
    await runRounds(async (doors) => {
      for (const ended of await Promise.all(openAll(doors, "trickle").map(({ end }) => end())))
        expect(ended).toMatchObject({ text: trickled });
    });
    await isBackAt(before, desk);
  });

  it("and no memory that grows with them", async () => {
    const megabytes = await usedMegabytes();
    for (let round = 0; round < 2; round += 1)
      await runRounds(async (doors) => {
        const streams = openAll(doors, dice.pick(["hang", "cut", "trickle"]));
        await Promise.all(
          streams.map(async (stream) => {
            await stream.begun();
            await stream.leave();
            await stream.end();
          }),
        );
      });
    await isBackAt(before, desk);
    const after = await usedMegabytes();
    process.stdout.write(`${megabytes.toFixed(1)} MB, ${after.toFixed(1)} MB\n`);
    expect(after - megabytes).toBeLessThan(8);
    const complaints = desk.companion.lines.filter((line) => /"level":[56]0|Warning/.test(line));
    expect(complaints).toEqual([]);
  });
});

/** What the daemon's objects and buffers take when no garbage is left. */
async function usedMegabytes(): Promise<number> {
  await collectGarbage(desk.companion);
  const metrics = await desk.metrics();
  const names = ["nodejs_heap_size_used_bytes", "nodejs_external_memory_bytes"];
  return names.reduce((sum, name) => sum + (metrics.get(name) ?? Number.NaN), 0) / 2 ** 20;
}

/** Some requests have reached whoever answers them. */
async function untilAsked(): Promise<void> {
  const asked = [desk.cloudProvider, desk.localProvider].map((side) => {
    const { length } = side.requests;
    return side.until(({ requests }) => requests.length > length);
  });
  await Promise.race(asked);
}
