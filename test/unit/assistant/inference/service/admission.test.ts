import { expect, test } from "vitest";
import { Admission } from "../../../../../src/assistant/inference/service/admission.ts";

test("as many as there are places and waiting ones come in, for each model", () => {
  const admission = new Admission({ queueMax: 1 });
  const leave = [admission.enter("a", 2), admission.enter("a", 2), admission.enter("a", 2)];
  expect(() => admission.enter("a", 2)).toThrow("3 requests under way or waiting");
  admission.enter("b", 2);
  expect(admission.total).toBe(4);
  leave[0]?.();
  leave[0]?.();
  admission.enter("a", 2);
  expect(() => admission.enter("a", 2)).toThrow("Try again in a moment");
});

test("who is refused is told when to come back", () => {
  const admission = new Admission({ queueMax: 0 });
  admission.enter("a", 1);
  let refused: unknown;
  try {
    admission.enter("a", 1);
  } catch (error) {
    refused = error;
  }
  expect(refused).toMatchObject({ code: "queue_full", retryAfterSeconds: 2 });
});
