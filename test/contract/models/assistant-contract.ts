import { describe, expect, test } from "vitest";
import type { AssistantControl } from "../../../src/controller/models/assistant/port.ts";

/** An assistant with two files on its disk: a model, and another file. */
export interface AssistantHarness extends AsyncDisposable {
  readonly assistant: AssistantControl;
  readonly good: string;
  readonly broken: string;
  /** Stops the assistant, so that it does not answer. */
  end(): Promise<void>;
  /** Advances the adapter's virtual time until `work` is settled, and returns its result. */
  readonly settle: <T>(work: Promise<T>) => Promise<T>;
}

const never = new AbortController().signal;

const request = (
  path: string,
  fields: { contextTokens?: number; deterministic?: boolean; memoryBytesMax?: number } = {},
) => ({
  id: "one",
  aliases: [],
  path,
  contextTokens: fields.contextTokens,
  sequences: 2,
  deterministic: fields.deterministic,
  memoryBytesMax: fields.memoryBytesMax,
  gpu: undefined,
});

/** Checks the contract of `AssistantControl`, for every adapter. */
export function assistantContract(name: string, open: () => Promise<AssistantHarness>): void {
  describe(`the AssistantControl port on ${name}`, () => {
    test("a model is inspected, loaded with the requested settings, and unloaded", async () => {
      await using harness = await open();
      const { assistant, good, settle } = harness;
      const before = await settle(assistant.state(never));
      expect(before.memoryBytesMax).toBeGreaterThan(0);
      expect(before.models.find(({ id }) => id === "one")).toBeUndefined();
      const file = { id: "one", path: good, contextTokens: undefined, sequences: 2 };
      const facts = await settle(assistant.inspect(file, never));
      expect(facts.memoryBytes.least).toBeLessThanOrEqual(facts.memoryBytes.wanted);
      await settle(assistant.load(request(good, { contextTokens: 256 }), never));
      const { models } = await settle(assistant.state(never));
      expect(models.find(({ id }) => id === "one")).toMatchObject({
        path: good,
        state: "resident",
        pinned: true,
        recovering: false,
        wanted: { contextTokens: 256, sequences: 2, deterministic: null },
        contextTokens: 256,
        sequences: 2,
        error: null,
        memoryBytes: expect.any(Number),
        loadedAt: expect.stringMatching(/Z$/),
      });
      await settle(assistant.unload("one", never));
      const after = await settle(assistant.state(never));
      expect(after.models.find(({ id }) => id === "one")).toBeUndefined();
    });

    test("other settings reload the model; the same settings have no effect", async () => {
      await using harness = await open();
      const { assistant, good, settle } = harness;
      await settle(assistant.load(request(good, { contextTokens: 256 }), never));
      const first = (await settle(assistant.state(never))).models.find(({ id }) => id === "one");
      await settle(assistant.load(request(good, { contextTokens: 256 }), never));
      const same = (await settle(assistant.state(never))).models.find(({ id }) => id === "one");
      expect(same).toEqual(first);
      await settle(assistant.load(request(good, { contextTokens: 512 }), never));
      const other = (await settle(assistant.state(never))).models.find(({ id }) => id === "one");
      expect(other).toMatchObject({ state: "resident", contextTokens: 512 });
      const exact = request(good, { contextTokens: 512, deterministic: true });
      await settle(assistant.load(exact, never));
      const last = (await settle(assistant.state(never))).models.find(({ id }) => id === "one");
      expect(last).toMatchObject({ state: "resident", wanted: { deterministic: true } });
    });

    test("unloading a missing model has no effect", async () => {
      await using harness = await open();
      await expect(
        harness.settle(harness.assistant.unload("nobody", never)),
      ).resolves.toBeUndefined();
    });

    test("a file that is not a model is refused, and listed as failed until it is unloaded", async () => {
      await using harness = await open();
      const { assistant, broken, settle } = harness;
      const file = { id: "one", path: broken, contextTokens: undefined, sequences: undefined };
      await expect(settle(assistant.inspect(file, never))).rejects.toMatchObject({
        code: "model_unusable",
      });
      await expect(settle(assistant.load(request(broken), never))).rejects.toMatchObject({
        code: "model_unusable",
      });
      const { models } = await settle(assistant.state(never));
      expect(models.find(({ id }) => id === "one")).toMatchObject({
        state: "failed",
        recovering: false,
        error: { code: "model_unusable" },
      });
      await settle(assistant.unload("one", never));
    });

    test("a model that does not fit is refused with insufficient_memory", async () => {
      await using harness = await open();
      const { assistant, good, settle } = harness;
      await expect(
        settle(assistant.load(request(good, { memoryBytesMax: 1 }), never)),
      ).rejects.toMatchObject({ code: "insufficient_memory" });
    });

    test("every call rejects if the assistant does not answer", async () => {
      await using harness = await open();
      const { assistant, good, settle } = harness;
      await harness.end();
      const unreachable = { code: "assistant_unreachable" };
      await expect(settle(assistant.state(never))).rejects.toMatchObject(unreachable);
      await expect(settle(assistant.load(request(good), never))).rejects.toMatchObject(unreachable);
      await expect(settle(assistant.unload("one", never))).rejects.toMatchObject(unreachable);
      await expect(settle(assistant.setContainerListeners([], never))).rejects.toMatchObject(
        unreachable,
      );
    });
  });
}
