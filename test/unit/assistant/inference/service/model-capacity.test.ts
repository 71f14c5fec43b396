import { expect, test } from "vitest";
import { ModelCapacity } from "../../../../../src/assistant/inference/service/model-capacity.ts";

test("each model admits its concurrent requests and its queue, and no more", () => {
  const admission = new ModelCapacity({ queueMax: 1 });
  const leave = [admission.acquire("a", 2), admission.acquire("a", 2), admission.acquire("a", 2)];
  expect(() => admission.acquire("a", 2)).toThrow("3 requests running or waiting");
  admission.acquire("b", 2);
  expect(admission.total).toBe(4);
  leave[0]?.();
  leave[0]?.();
  admission.acquire("a", 2);
  expect(() => admission.acquire("a", 2)).toThrow("Try again in a moment");
});

test("a refused caller is told when to try again", () => {
  const admission = new ModelCapacity({ queueMax: 0 });
  admission.acquire("a", 1);
  let refused: unknown;
  try {
    admission.acquire("a", 1);
  } catch (error) {
    refused = error;
  }
  expect(refused).toMatchObject({ code: "queue_full", retryAfterSeconds: 2 });
});
