import { execFile } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import {
  eventually,
  ggufFile,
  ModelE2eHarness,
  modelSpecFile,
} from "../../support/model-e2e-harness.ts";

const run = promisify(execFile);

test("a full disk is reported before or during a download, and the download resumes automatically as soon as there is free space", async () => {
  const [small, later] = await Promise.all([
    ggufFile("small", { seed: 4 }),
    ggufFile("small", { seed: 101 }),
  ]);
  await using world = await ModelE2eHarness.open({ assistant: false, start: false });
  const { berth, hub } = world;
  await hub.addRepository({ id: "org/small", files: { "small-Q4_K_M.gguf": small.bytes } });
  await hub.addRepository({ id: "org/later", files: { "later-Q4_K_M.gguf": later.bytes } });
  await mkdir(world.modelsDir, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", "size=66m", "tmpfs", world.modelsDir]);
  try {
    await berth.start();
    await berth.write("small.yaml", modelSpecFile("small", { source: "org/small" }));
    // The test waits for the status `failed`, so for the pause between two attempts. During an attempt, the field
    // `error` still describes the previous attempt.
    const held = await world.waitForModel(
      "small",
      "it says why",
      ({ error, status }) => error !== null && status === "failed",
    );
    expect(held).toMatchObject({ ready: false, downloaded_bytes: 0 });
    // Berth keeps 64 MiB free for its own files.
    expect(held.error).toMatch(
      /needs 7\.\d MiB more, and 6[56][.\d]* MiB are free on the disk of the models: [56]\.\d MiB are missing/,
    );
    expect(held.conditions).toContainEqual(
      expect.objectContaining({ type: "Ready", status: "False", reason: "DiskFull" }),
    );
    expect(held.next_retry_at).not.toBeNull();
    expect(await world.call("POST", "/api/llm/models/small/download?wait=true")).toMatchObject({
      status: 503,
      body: { error: expect.stringContaining("are missing") },
    });
    const pull = await berth.cli(["models", "pull", "small"]);
    expect(pull).toMatchObject({ code: 1, stderr: expect.stringContaining("are missing") });
    expect(hub.bytesSent).toBe(0);

    await run("mount", ["-o", "remount,size=90m", world.modelsDir]);
    expect(await world.waitForModelStatus("small", "ready")).toMatchObject({
      ready: true,
      sha256: small.sha256,
      error: null,
    });
    expect(hub.bytesSent).toBe(small.bytes.length);

    // Another process fills the disk while a download is in progress.
    hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 800_000 });
    await run("mount", ["-o", "remount,size=120m", world.modelsDir]);
    await berth.write("later.yaml", modelSpecFile("later", { source: "org/later" }));
    await eventually("it comes", () => hub.bytesSent > small.bytes.length + 1_000_000);
    const filler = join(world.modelsDir, "filler");
    // The error of `dd` is expected: it writes until the disk is full.
    await run("dd", ["if=/dev/zero", `of=${filler}`, "bs=1M"]).catch(() => {});
    const full = await world.waitForModel("later", "it says why", ({ error }) => error !== null);
    expect(full.conditions).toContainEqual(
      expect.objectContaining({ type: "Ready", status: "False", reason: "DiskFull" }),
    );
    expect(full.downloaded_bytes).toBeGreaterThan(0);
    const before = hub.bytesSent;
    await rm(filler);
    hub.faults.clear();
    expect(await world.waitForModelStatus("later", "ready")).toMatchObject({
      sha256: later.sha256,
    });
    expect(hub.bytesSent - before).toBeLessThanOrEqual(later.bytes.length - full.downloaded_bytes);
    expect(await world.waitForModelStatus("small", "ready")).toMatchObject({ ready: true });
  } finally {
    // The unmount is lazy because Berth may still have files open there.
    await run("umount", ["-l", world.modelsDir]);
  }
});
