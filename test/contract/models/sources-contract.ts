import { describe, expect, test } from "vitest";
import type { ModelSources, SourceRequest } from "../../../src/controller/models/hub/port.ts";

/** A hub with the repository `org/one`, which contains one file with size and digest. */
export interface SourcesHarness extends AsyncDisposable {
  readonly sources: ModelSources;
  /** Commits another file to `org/one`. */
  commit(): Promise<void>;
  /** Makes the next call to the hub fail. */
  failNext(): void;
}

const never = new AbortController().signal;
const request = (source: string): SourceRequest => ({
  source,
  file: undefined,
  quantization: undefined,
  revision: undefined,
  sha256: undefined,
  token: undefined,
});

/** Checks the contract of `ModelSources`, for every adapter. */
export function sourcesContract(name: string, open: () => Promise<SourcesHarness>): void {
  describe(`model sources: ${name}`, () => {
    test("a repository is resolved to a commit, and to files with size and digest", async () => {
      await using harness = await open();
      const model = await harness.sources.resolve(request("org/one"), never);
      expect(model.commit).toMatch(/^[0-9a-f]{40}$/);
      expect(model.files).toHaveLength(1);
      expect(model.files[0]).toMatchObject({
        sizeBytes: expect.any(Number),
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        location: { type: "url" },
      });
      expect(await harness.sources.resolve(request("org/one"), never)).toEqual(model);
    });

    test("models with different contents get different keys", async () => {
      await using harness = await open();
      const before = await harness.sources.resolve(request("org/one"), never);
      await harness.commit();
      const after = await harness.sources.resolve(request("org/one"), never);
      expect(after.key).not.toBe(before.key);
      expect(after.commit).not.toBe(before.commit);
    });

    test("a missing repository is named in the error", async () => {
      await using harness = await open();
      await expect(harness.sources.resolve(request("org/nowhere"), never)).rejects.toMatchObject({
        code: expect.stringMatching(/^hub_(not_found|denied)$/),
        message: expect.stringContaining("org/nowhere"),
      });
    });

    test("an unresponsive hub is a retryable error", async () => {
      await using harness = await open();
      harness.failNext();
      await expect(harness.sources.resolve(request("org/one"), never)).rejects.toMatchObject({
        code: "hub_unreachable",
      });
      await harness.sources.resolve(request("org/one"), never);
    });

    test("a token in the spec is used for the download instead of the server's own", async () => {
      await using harness = await open();
      const model = await harness.sources.resolve(request("org/one"), never);
      expect(harness.sources.tokenFor(model, "mine")).toBe("mine");
    });

    test("an aborted signal makes calls reject with its reason", async () => {
      await using harness = await open();
      const leaving = new AbortController();
      leaving.abort();
      await expect(
        harness.sources.resolve(request("org/one"), leaving.signal),
      ).rejects.toMatchObject({ name: "AbortError" });
    });
  });
}
