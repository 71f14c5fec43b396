import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ObservedAnswer } from "../support/companion-client.ts";
import { findKillPoints, runCallSequence } from "../support/companion-kill-points.ts";
import { EFFECTS } from "../support/effects-app.ts";
import { FaultHarness } from "../support/fault-harness.ts";
import { fillDisk } from "../support/fill-disk.ts";
import {
  countModelRequests,
  digestMemoryFiles,
  type OpenSession,
  openSession,
  requestGatedEndpoints,
  requestGatedMethods,
} from "../support/ledger-gates.ts";
import { MATRIX_LIMIT_MS, sampleOf } from "../support/sampling.ts";
import { WebhookReceiver } from "../support/webhook-receiver.ts";

const LEDGER_UNAVAILABLE = "dev.assistant.Error.LedgerUnavailable";

interface FaultSetup extends AsyncDisposable {
  readonly harness: FaultHarness;
  /** The fake system instance of the assistant, which answers every request with an error. */
  readonly upstream: WebhookReceiver;
}

async function startFaultSetup(): Promise<FaultSetup> {
  const upstream = await WebhookReceiver.start();
  upstream.otherwise = { status: 500, body: "{}" };
  const flags = ["--upstream", new URL(upstream.url).origin];
  const harness = await FaultHarness.open({ flags });
  return {
    harness: harness,
    upstream,
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

function describeAnswer(answer: ObservedAnswer | undefined): string {
  return `${answer?.status}/${answer?.detail.code}`;
}

/**
 * Asserts that no request reaches an app, the apps' memory or a model while the ledger fails, and that each caller
 * receives the error `ledger_unavailable`.
 */
async function assertNothingPasses(
  { harness, upstream }: FaultSetup,
  session: OpenSession,
): Promise<void> {
  const before = { effects: harness.app.effects().length, computed: countModelRequests(upstream) };
  const memory = digestMemoryFiles(harness);
  for (const tool of ["look", "star", "make"])
    expect([tool, describeAnswer(await harness.request(tool, "refused"))]).toEqual([
      tool,
      "failed/ledger_unavailable",
    ]);
  expect(await requestGatedMethods(harness, session)).toEqual({
    search: LEDGER_UNAVAILABLE,
    scoped: LEDGER_UNAVAILABLE,
    set: LEDGER_UNAVAILABLE,
    wipe: LEDGER_UNAVAILABLE,
    generate: LEDGER_UNAVAILABLE,
    embed: LEDGER_UNAVAILABLE,
  });
  expect(await requestGatedEndpoints(harness)).toEqual([
    ["/v1/chat/completions", 503, "ledger_unavailable"],
    ["/v1/completions", 503, "ledger_unavailable"],
    ["/v1/embeddings", 503, "ledger_unavailable"],
  ]);
  expect(digestMemoryFiles(harness)).toBe(memory);
  expect({ effects: harness.app.effects().length, computed: countModelRequests(upstream) }).toEqual(
    before,
  );
}

/** A counter that makes the argument `mark` of each further call unique. */
let tries = 0;

/** Asserts that the ledger and everything that depends on it recover without help. */
async function assertEverythingPasses(
  { harness, upstream }: FaultSetup,
  session: OpenSession,
): Promise<void> {
  const again = () => harness.request("look", `again-${tries++}`).then(describeAnswer);
  await expect.poll(again, { timeout: 30_000, interval: 100 }).toBe("executed/ok");
  const before = countModelRequests(upstream);
  const { generate, embed, ...others } = await requestGatedMethods(harness, session);
  expect(others).toEqual({
    search: "answered",
    scoped: "answered",
    set: "answered",
    wipe: "answered",
  });
  expect([generate, embed]).not.toContain(LEDGER_UNAVAILABLE);
  for (const [, status] of await requestGatedEndpoints(harness)) expect(status).not.toBe(503);
  expect(countModelRequests(upstream)).toBe(before + 5);
}

/**
 * Creates the state before the fault: a value in an app's memory, a call that can be undone, and a call that waits for
 * confirmation.
 */
async function prepareCalls({ harness }: FaultSetup, name = "only") {
  const session = await openSession(harness);
  await harness.client.context("MemorySet", "sss", [EFFECTS, "key", "kept"]);
  expect(describeAnswer(await harness.requestAndConfirm("make", `${name}-undoable`))).toBe(
    "executed/ok",
  );
  const parked = await harness.request("make", `${name}-parked`);
  expect(parked?.status).toBe("confirm-chip");
  if (!parked) throw new Error("nothing is parked");
  return { session, parked };
}

/**
 * Restarts the daemon, which then records the result of each refused dispatch as indeterminate, and asserts that the
 * ledger is intact.
 */
async function assertWhole({ harness }: FaultSetup): Promise<void> {
  await harness.companion.stop();
  await harness.companion.start();
  await harness.companion.stop();
  expect(harness.audit(true)).toEqual({ verdict: "whole", problems: [] });
  const verify = await harness.companion.berth(["ledger", "verify", "--user"]);
  expect(verify).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
}

/**
 * The system calls that fail, with their error codes. One daemon gets these faults one after the other, because it must
 * recover from each.
 */
const errors = [
  ["fsync,fdatasync", "EIO"],
  ["pwrite64", "EIO"],
  ["pwrite64,ftruncate,openat", "EROFS"],
  ["pwrite64", "ENOSPC"],
] as const;

describe("a ledger that cannot be written", () => {
  it("blocks all actions if system calls fail, until the fault ends", async () => {
    await using faults = await startFaultSetup();
    const { harness } = faults;
    await harness.companion.start();
    for (const [calls, code] of errors) {
      const name = `${calls}-${code}`;
      const { session, parked } = await prepareCalls(faults, name);
      const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${code}`];
      const tracer = await harness.trace("ledger", inject);
      await assertNothingPasses(faults, session);
      expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe(
        "failed/ledger_unavailable",
      );
      expect(await harness.client.undo()).toMatchObject({
        status: "failed",
        error: { code: "ledger_unavailable" },
      });
      expect(await harness.client.context("MemoryGet", "ss", [EFFECTS, "key"])).toEqual(["kept"]);
      const effects = () => [
        harness.countEffects("make", `${name}-parked`),
        harness.countEffects("unmake", `${name}-undoable`),
      ];
      expect([name, effects()]).toEqual([name, [0, 0]]);
      await tracer.detach();

      await assertEverythingPasses(faults, session);
      expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("executed/ok");
      expect(await harness.client.undo()).toMatchObject({ status: "undone", remaining: 1 });
      expect(await harness.client.undo()).toMatchObject({ status: "undone", remaining: 0 });
      expect([name, effects()]).toEqual([name, [1, 1]]);
    }
    await assertWhole(faults);
  });

  it("blocks all actions if its directory is read-only when the companion starts, until the directory is writable", async () => {
    await using faults = await startFaultSetup();
    const { harness } = faults;
    await harness.companion.start();
    const { parked } = await prepareCalls(faults);
    await harness.companion.stop("SIGKILL");
    const unmount = harness.mount("ledger", [
      "--bind",
      "-o",
      "ro",
      join(harness.dataDir, "ledger"),
    ]);
    await harness.companion.start();
    const session = await openSession(harness);
    await assertNothingPasses(faults, session);
    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("denied/restarted");
    await unmount();

    await assertEverythingPasses(faults, session);
    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("denied/restarted");
    expect(await harness.client.undo()).toMatchObject({ status: "undone", remaining: 0 });
    await expect
      .poll(() => harness.entries().map(({ body }) => [body.name, body.fields["call"]]), {
        timeout: 30_000,
      })
      .toContainEqual(["agent.call.expired", Number(parked.callId)]);
    await assertWhole(faults);
  });

  it("blocks all actions if the disk is full, records this, and recovers when there is space", async () => {
    await using faults = await startFaultSetup();
    const { harness } = faults;
    harness.mount("", ["-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs"]);
    await harness.companion.start();
    const { session, parked } = await prepareCalls(faults);
    const ballast = join(harness.dataDir, "ballast");
    fillDisk(ballast);
    // The database files have free pages, so the full disk has an effect only after some entries.
    let round = 0;
    const padded = "x".repeat(80);
    for (let end = ""; end !== "failed/ledger_unavailable"; round += 1) {
      end = describeAnswer(await harness.request("look", `full-${round}-${padded}`));
      if (end !== "failed/ledger_unavailable") expect(end).toBe("executed/ok");
      fillDisk(ballast);
      expect(round).toBeLessThan(10_000);
    }
    await expect.poll(() => harness.entries().at(-1)?.body.name).toBe("ledger.disk_full");
    await assertNothingPasses(faults, session);
    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe(
      "failed/ledger_unavailable",
    );
    rmSync(ballast);

    await assertEverythingPasses(faults, session);
    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("executed/ok");
    expect(harness.countEffects("make", "only-parked")).toBe(1);
    await assertWhole(faults);
  });
});

it("a journal that cannot be written prevents the actions that it would have to record", async () => {
  await using faults = await startFaultSetup();
  const { harness } = faults;
  await harness.companion.start();
  for (const [calls, code] of errors) {
    const name = `${calls}-${code}`;
    const { parked } = await prepareCalls(faults, name);
    const effects = harness.app.effects().length;
    const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${code}`];
    const tracer = await harness.trace("journal", inject);
    for (const tool of ["star", "make"])
      expect(describeAnswer(await harness.request(tool, "refused"))).toBe(
        "failed/ledger_unavailable",
      );
    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe(
      "failed/ledger_unavailable",
    );
    expect(await harness.client.undo()).toMatchObject({
      status: "failed",
      error: { code: "ledger_unavailable" },
    });
    expect([name, harness.app.effects().length]).toEqual([name, effects]);
    // A call that needs no confirmation and cannot be undone succeeds even while the journal cannot be written.
    expect(describeAnswer(await harness.request("look", `${name}-look`))).toBe("executed/ok");
    await tracer.detach();

    expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("executed/ok");
    expect(await harness.client.undo()).toMatchObject({ status: "undone", remaining: 1 });
    expect(await harness.client.undo()).toMatchObject({ status: "undone", remaining: 0 });
  }
  await assertWhole(faults);
});

it(
  "after a single I/O error at any write or flush, a call is reported as executed exactly if it had its effect",
  async () => {
    await using faults = await startFaultSetup();
    const { harness } = faults;
    await harness.companion.start();
    await harness.requestAndConfirm("look", "warm");
    const all = (await findKillPoints(harness, "seen")).filter(({ systemCall: name }) =>
      ["pwrite64", "fsync", "fdatasync", "ftruncate"].includes(name),
    );
    const chosen = sampleOf("errors", all, 5);
    let refused = 0;
    for (const [index, { target: traced, systemCall: name, nth }] of chosen.entries()) {
      const here = `${traced} ${name} ${nth}`;
      const tracer = await harness.trace(traced, [
        "-e",
        `trace=${name}`,
        "-e",
        `inject=${name}:error=EIO:when=${nth}`,
      ]);
      const { star, parked, made, undone } = await runCallSequence(harness, `once-${index}`);
      await tracer.detach();
      for (const [tool, answer] of [
        ["star", star],
        ["make", made],
      ] as const) {
        const end = describeAnswer(answer);
        const times = harness.countEffects(tool, `once-${index}-${tool}`);
        expect([here, tool, end, times]).toEqual([
          here,
          tool,
          times === 1 ? "executed/ok" : expect.stringMatching(/^failed\/(ledger_una|unknown_call)/),
          times === 1 ? 1 : 0,
        ]);
        if (times === 0) refused += 1;
        if (times === 0 || answer === undefined) continue;
        expect(describeAnswer(await harness.client.confirm(answer.callId))).toBe(end);
      }
      const again = () => harness.request("look", `once-${index}-${tries++}`).then(describeAnswer);
      await expect.poll(again, { timeout: 30_000, interval: 50 }).toBe("executed/ok");
      // The call whose confirmation failed because of the ledger still waits. Confirming it later executes it once.
      if (parked?.status.startsWith("confirm-") === true && describeAnswer(made) !== "executed/ok")
        expect(describeAnswer(await harness.client.confirm(parked.callId))).toBe("executed/ok");
      for (let undo = await harness.client.undo(); undo?.status !== "nothing"; ) {
        expect([here, undo?.status]).toEqual([here, "undone"]);
        undo = await harness.client.undo();
      }
      for (const [tool, answer] of [
        ["star", star],
        ["make", made],
      ] as const)
        if (answer?.detail.undoable === true)
          expect([here, harness.countEffects("unmake", `once-${index}-${tool}`)]).toEqual([
            here,
            1,
          ]);
      const last = [made, star].find((answer) => answer?.detail.undoable === true);
      if (undone !== undefined) expect([here, undone]).toEqual([here, Number(last?.callId)]);
    }
    process.stdout.write(`${refused} calls were refused\n`);
    expect(refused).toBeGreaterThan(0);
    await assertWhole(faults);
  },
  MATRIX_LIMIT_MS,
);
