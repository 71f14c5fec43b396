import { describe, expect, test } from "vitest";
import { BerthError, type ErrorCode } from "../../../../src/base/errors.ts";
import { RETRY_MAX_MS, recordStepFailure } from "../../../../src/controller/models/step-failure.ts";
import {
  emptyModelReconcileState,
  type ModelReconcileState,
} from "../../../../src/resources/model-status.ts";

const context = { inputs: "now", nowMs: 1_000_000, random: () => 1 };
const fail = (
  error: unknown,
  memory: ModelReconcileState = emptyModelReconcileState,
  step = "download",
) => recordStepFailure(error, step, memory, context);
const error = (code: ErrorCode, details?: object) =>
  new BerthError(code, "it went wrong", { details });
const retryIn = (retryAfterMs: unknown, memory?: ModelReconcileState) =>
  (fail(error("hub_unreachable", { retryAfterMs }), memory).failure?.retryAt ?? 0) - 1_000_000;
const said = (problem: unknown) => fail(problem).failure?.message;
const hinted = (hint: string) => new BerthError("disk_full", "there is no room", { hint });
const after = (times: number, code: ErrorCode) => {
  let memory: ModelReconcileState = emptyModelReconcileState;
  for (let time = 0; time < times; time += 1) memory = fail(error(code), memory);
  return memory;
};

test.each<[ErrorCode, number, string]>([
  ["hub_denied", 1, "SourceDenied"],
  ["hub_not_found", 1, "SourceNotFound"],
  ["invalid_spec", 1, "SourceAmbiguous"],
  ["digest_mismatch", 3, "DigestMismatch"],
  ["model_unusable", 1, "ModelUnusable"],
  ["engine_error", 5, "LoadFailed"],
])("a step that failed with %s is not retried after %i attempts", (code, tries, reason) => {
  const before = after(tries - 1, code);
  expect(before.stalled).toBeNull();
  expect(before.failure?.reason).toBe(tries === 1 ? undefined : reason);
  expect(after(tries, code)).toEqual({
    ...emptyModelReconcileState,
    stalled: { inputs: "now", reason, message: "it went wrong" },
  });
});

test.each<[ErrorCode, string]>([
  ["hub_unreachable", "SourceUnreachable"],
  ["disk_full", "DiskFull"],
  ["insufficient_memory", "InsufficientMemory"],
  ["assistant_unreachable", "AssistantUnreachable"],
  ["internal", "WillRetry"],
])(
  "a step that failed with %s is retried without end, with delays up to five minutes",
  (code, reason) => {
    const waits = [1, 2, 3, 40].map(
      (times) => (after(times, code).failure?.retryAt ?? 0) - 1_000_000,
    );
    expect(waits).toEqual([250, 500, 1_000, 300_000]);
    expect(after(40, code)).toMatchObject({
      stalled: null,
      failure: { reason, count: 40, inputs: "now" },
    });
  },
);

describe("the next attempt after a failed step", () => {
  test("is delayed as long as the hub requests, up to the limit", () => {
    expect(retryIn(90_000)).toBe(90_000);
    expect(retryIn(0)).toBe(250);
    expect(retryIn(300, after(4, "hub_unreachable"))).toBe(4_000);
    expect(retryIn(2 * RETRY_MAX_MS)).toBe(RETRY_MAX_MS);
    expect(retryIn("soon")).toBe(250);
  });

  test("has the shortest delay again if the earlier failures were of another step", () => {
    const memory = fail(error("hub_unreachable"), after(5, "hub_unreachable"), "resolve");
    expect(memory.failure).toMatchObject({ step: "resolve", count: 1, retryAt: 1_000_250 });
  });
});

describe("the message of a failed step", () => {
  test("contains the hint, and announces the retry only once", () => {
    expect(said(hinted("make some"))).toBe("there is no room; make some; Berth will retry");
    expect(said(hinted("Berth will retry"))).toBe("there is no room; Berth will retry");
    expect(said(error("disk_full"))).toBe("it went wrong; Berth will retry");
  });

  test("of an internal error does not reveal its details", () => {
    expect(fail(new TypeError("/secret/path"))).toMatchObject({
      failure: {
        reason: "WillRetry",
        message: "an internal error; see Berth's log; Berth will retry",
      },
    });
  });
});
