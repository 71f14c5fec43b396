import { expect, it } from "vitest";
import { SharedRead } from "../../../../../src/assistant/inference/http/shared-read.ts";

it("a read is shared by the callers that asked before it began, and by no others", async () => {
  const begun: ((result: number) => void)[] = [];
  const shared = new SharedRead(() => new Promise<number>((resolve) => void begun.push(resolve)));
  const first = shared.get();
  const later = Array.from({ length: 1_000 }, () => shared.get());
  expect(begun).toHaveLength(1);
  begun[0]?.(1);
  expect(await first).toBe(1);
  await expect.poll(() => begun.length).toBe(2);
  const last = shared.get();
  begun[1]?.(2);
  expect(new Set(await Promise.all(later))).toEqual(new Set([2]));
  await expect.poll(() => begun.length).toBe(3);
  begun[2]?.(3);
  expect(await last).toBe(3);
  void shared.get();
  expect(begun).toHaveLength(4);
});

it("a read that fails does not prevent the next one", async () => {
  let reads = 0;
  const shared = new SharedRead(async () => {
    reads += 1;
    if (reads === 1) throw new Error("no");
    return reads;
  });
  const [first, second] = await Promise.allSettled([shared.get(), shared.get()]);
  expect([first.status, second]).toEqual(["rejected", { status: "fulfilled", value: 2 }]);
});
