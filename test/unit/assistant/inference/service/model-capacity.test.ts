import { expect, test } from "vitest";
import { ModelCapacity } from "../../../../../src/assistant/inference/service/model-capacity.ts";

test("each model admits a limited number of concurrent and queued requests, independently of other models", () => {
  const capacity = new ModelCapacity({ queueMax: 1 });
  const release = [capacity.acquire("a", 2), capacity.acquire("a", 2), capacity.acquire("a", 2)];
  expect(() => capacity.acquire("a", 2)).toThrow("3 requests running or waiting");
  capacity.acquire("b", 2);
  expect(capacity.total).toBe(4);
  release[0]?.();
  release[0]?.();
  capacity.acquire("a", 2);
  expect(() => capacity.acquire("a", 2)).toThrow("Try again in a moment");
});

test("a caller that is refused because of a full queue learns after what time to try again", () => {
  const capacity = new ModelCapacity({ queueMax: 0 });
  capacity.acquire("a", 1);
  let refused: unknown;
  try {
    capacity.acquire("a", 1);
  } catch (error) {
    refused = error;
  }
  expect(refused).toMatchObject({ code: "queue_full", retryAfterSeconds: 2 });
});
