import fc from "fast-check";
import { expect, test } from "vitest";
import { WriteQueue } from "../../../src/dbus/write-queue.ts";

const message = fc.record({
  text: fc.string({ maxLength: 20 }),
  fds: fc.array(fc.nat(), { maxLength: 3 }),
});

test("bytes and descriptors are sent exactly once and in order, however few bytes each write accepts", () => {
  const accepting = fc.array(fc.nat({ max: 8 }));
  const inOrder = fc.property(fc.array(message), accepting, (messages, accepted) => {
    const queue = new WriteQueue();
    const sent: Buffer[] = [];
    const fdsSent: { at: number; fds: readonly number[] }[] = [];
    const done: number[] = [];
    let total = 0;
    const written: Buffer[] = [];
    const fdsWritten: { at: number; fds: readonly number[] }[] = [];
    for (const [index, { text, fds }] of messages.entries()) {
      const data = Buffer.from(text);
      if (data.length > 0 && fds.length > 0) {
        fdsWritten.push({ at: Buffer.concat(written).length, fds });
      }
      written.push(data);
      queue.add(data, data.length > 0 ? fds : [], () => done.push(index));
    }
    const steps = accepted.values();
    const send = (data: Buffer, fds: readonly number[]) => {
      const step = steps.next();
      const result = step.done ? data.length : Math.min(step.value, data.length);
      if (result <= 0) return -11;
      if (fds.length > 0) fdsSent.push({ at: total, fds });
      sent.push(Buffer.from(data.subarray(0, result)));
      total += result;
      return result;
    };
    while (!queue.isEmpty) {
      queue.flush(send);
      expect(queue.pendingBytes).toBe(Buffer.concat(written).length - total);
    }
    expect(Buffer.concat(sent)).toEqual(Buffer.concat(written));
    expect(fdsSent).toEqual(fdsWritten);
    expect(done).toEqual(messages.map((_, index) => index));
  });
  fc.assert(inOrder);
});

test("entries that clear() removes are reported as done, but are not sent", () => {
  const queue = new WriteQueue();
  const done: string[] = [];
  queue.add(Buffer.from("abc"), [1], () => done.push("first"));
  queue.add(Buffer.from("def"), [2], () => done.push("second"));
  expect(queue.flush(() => -11)).toBe(-11);
  queue.clear();
  expect(done).toEqual(["first", "second"]);
  expect([queue.isEmpty, queue.pendingBytes]).toEqual([true, 0]);
  expect(queue.flush(() => expect.unreachable())).toBe(0);
});
