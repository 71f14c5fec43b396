import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { BuildControl } from "../../src/controller/builds/port.ts";
import { rawTar } from "../support/raw-tar.ts";

export interface BuildControlCapabilities {
  /** True if uploads that are not archives are refused. */
  readonly checksFormat: boolean;
  /**
   * True if this adapter's `refreshFollowers` searches the store for the Apps that follow a branch. The fake does not
   * search.
   */
  readonly findsFollowers: boolean;
}

/** The BuildControl under test, and the operations by which the tests prepare and observe builds. */
export interface BuildControlHarness extends AsyncDisposable {
  readonly builds: BuildControl;
  /**
   * Starts a build that runs until it is cancelled. Waits until the build has written its first log line, and returns
   * the number of the build.
   */
  startEndlessBuild(): Promise<number>;
  /** Runs a build to its end, and returns its number. The log of the build contains at least one line. */
  runBuild(): Promise<number>;
  /** Returns the state of a build in the store. */
  stateOf(id: number): string | undefined;
  /** Adds an App whose source is the branch `ref` of the repository `url`. */
  follow(app: string, url: string, ref: string): void;
}

/** Checks, for any BuildControl, the behaviour that the API relies on. */
export function buildControlContract(
  adapter: string,
  capabilities: BuildControlCapabilities,
  open: () => Promise<BuildControlHarness>,
): void {
  describe(`the control of builds: ${adapter}`, () => {
    const { signal } = new AbortController();
    const notFound = expect.objectContaining({ code: "not_found" });
    const invalid = expect.objectContaining({ code: "archive_invalid" });

    async function read(
      builds: BuildControl,
      id: number,
      options: { readonly follow: boolean },
    ): Promise<string[]> {
      const lines: string[] = [];
      for await (const line of builds.log(id, options, signal)) lines.push(line);
      return lines;
    }

    it("the adapter cancels a running build once, and rejects for an unknown build", async () => {
      await using harness = await open();
      const id = await harness.startEndlessBuild();
      expect(await harness.builds.cancel(id)).toBe(true);
      expect(harness.stateOf(id)).toBe("cancelled");
      expect(await harness.builds.cancel(id)).toBe(false);
      await expect(harness.builds.cancel(id + 100)).rejects.toEqual(notFound);
    });

    it("the adapter does not change a finished build", async () => {
      await using harness = await open();
      const id = await harness.runBuild();
      expect(await harness.builds.cancel(id)).toBe(false);
      expect(harness.stateOf(id)).toBe("succeeded");
    });

    it("the adapter yields the log of a finished build to any reader, and rejects for an unknown build", async () => {
      await using harness = await open();
      const id = await harness.runBuild();
      const lines = await read(harness.builds, id, { follow: false });
      expect(lines.length).toBeGreaterThan(0);
      expect(lines.filter((line) => line.includes("\n"))).toEqual([]);
      expect(await read(harness.builds, id, { follow: true })).toEqual(lines);
      await expect(read(harness.builds, id + 100, { follow: false })).rejects.toEqual(notFound);
    });

    it("the adapter follows the log of a running build until the build ends", async () => {
      await using harness = await open();
      const id = await harness.startEndlessBuild();
      const lines = harness.builds.log(id, { follow: true }, signal)[Symbol.asyncIterator]();
      expect(await lines.next()).toMatchObject({ value: expect.any(String), done: false });
      await harness.builds.cancel(id);
      let last = await lines.next();
      while (last.done !== true) last = await lines.next();
    });

    it("the adapter ends a followed log when its reader aborts, and the build continues", async () => {
      await using harness = await open();
      const id = await harness.startEndlessBuild();
      const leaving = new AbortController();
      for await (const line of harness.builds.log(id, { follow: true }, leaving.signal)) {
        expect(line).toEqual(expect.any(String));
        leaving.abort();
      }
      expect(harness.stateOf(id)).toBe("running");
    });

    it("the adapter stores an archive under its digest, and accepts the same archive again", async () => {
      await using harness = await open();
      const archive = gzipSync(rawTar([{ name: "Dockerfile", content: "FROM scratch" }]));
      const expected = {
        digest: createHash("sha256").update(archive).digest("hex"),
        bytes: archive.length,
      };
      const pieces = async function* () {
        yield archive.subarray(0, 7);
        yield archive.subarray(7);
      };
      expect(await harness.builds.upload(pieces(), signal)).toEqual(expected);
      expect(await harness.builds.upload(pieces(), signal)).toEqual(expected);
    });

    it("the adapter refuses an empty archive", async () => {
      await using harness = await open();
      await expect(harness.builds.upload(toStream(""), signal)).rejects.toEqual(invalid);
    });

    it.for(capabilities.checksFormat ? ["text"] : [])(
      "the adapter refuses an upload that is %s instead of an archive",
      async () => {
        await using harness = await open();
        const upload = harness.builds.upload(toStream("not an archive"), signal);
        await expect(upload).rejects.toEqual(invalid);
      },
    );

    it.for(capabilities.findsFollowers ? ["main"] : [])(
      "the adapter returns the names of the Apps that follow a pushed branch (%s)",
      async (branch) => {
        await using harness = await open();
        const url = "https://git.example.org/team/app.git";
        harness.follow("web", url, branch);
        expect(harness.builds.refreshFollowers({ urls: [url], ref: branch })).toEqual(["web"]);
        expect(harness.builds.refreshFollowers({ urls: [url], ref: "other" })).toEqual([]);
      },
    );
  });
}

async function* toStream(content: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(content);
}
