import { PassThrough, type Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { BodyBudget, type Sender } from "../../../../src/base/http/body-budget.ts";

class RefusedError extends Error {}

/** A budget of 1,200 bytes, with bodies that send one chunk. */
class Harness {
  readonly #budget = new BodyBudget({ bytesMax: 1_200, createError: () => new RefusedError() });
  lookups = 0;

  /** Sends a body, and resolves to the function that releases it; rejects if the body is refused. */
  async send(bytes: number, sender: Sender): Promise<() => void> {
    const body = new PassThrough();
    const { stream, release } = this.#budget.count(body, async () => {
      this.lookups += 1;
      return sender;
    });
    body.end(Buffer.alloc(bytes));
    await readToEnd(stream);
    return release;
  }

  /** Returns how many bodies of 10 bytes the sender gets accepted, until one is refused. */
  async fillShare(sender: Sender): Promise<number> {
    for (let count = 0; ; count += 1) {
      const isAccepted = await this.send(10, sender).then(
        () => true,
        (error: unknown) => {
          if (error instanceof RefusedError) return false;
          throw error;
        },
      );
      if (!isAccepted) return count;
    }
  }
}

async function readToEnd(stream: Readable): Promise<void> {
  for await (const _ of stream);
}

describe("the share of a sender in the bytes of all bodies", () => {
  it("is as much as it leaves free, so that every further sender has a share", async () => {
    const harness = new Harness();
    const counts: number[] = [];
    for (const name of ["a", "b", "c", "d"]) counts.push(await harness.fillShare([name]));
    // 600 of 1,200 bytes, 300 of 600, 150 of 300, and 75 of 150.
    expect(counts).toEqual([60, 30, 15, 7]);
  });

  it("grows again when another sender's bodies are released", async () => {
    const harness = new Harness();
    const release = await harness.send(600, ["a"]);
    await expect(harness.send(310, ["b"])).rejects.toThrow(RefusedError);
    release();
    await harness.send(590, ["b"]);
  });

  it("is divided in the same way among the members of a group, and all members together have the group's share", async () => {
    const harness = new Harness();
    const counts: number[] = [];
    for (const name of ["1", "2", "3"]) counts.push(await harness.fillShare(["group", name]));
    // 300 of the group's 600 bytes, 150 of 300, and 75 of 150.
    expect(counts).toEqual([30, 15, 7]);
    for (let name = 4; name < 40; name += 1)
      counts.push(await harness.fillShare(["group", `${name}`]));
    expect(counts.reduce((sum, count) => sum + count)).toBeLessThanOrEqual(60);
    expect(await harness.fillShare(["other", "1"])).toBeGreaterThanOrEqual(15);
  });

  it("does not matter while a quarter of all bytes is used at most, and then no sender is looked up", async () => {
    const harness = new Harness();
    for (let count = 0; count < 30; count += 1) await harness.send(10, ["a", "1"]);
    expect(harness.lookups).toBe(0);
    await expect(harness.send(10, ["a", "1"])).rejects.toThrow(RefusedError);
    expect(harness.lookups).toBe(31);
  });
});
