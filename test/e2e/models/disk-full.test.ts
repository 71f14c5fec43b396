import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { ggufFile, ModelWorld, modelSpecFile } from "../../support/model-world.ts";

const run = promisify(execFile);

test("a disk without room is told before the first byte, and the download begins by itself once there is some", async () => {
  const small = await ggufFile("small", { seed: 4 });
  await using world = await ModelWorld.open({ assistant: false, start: false });
  const { berth, hub } = world;
  await hub.addRepository({ id: "org/small", files: { "small-Q4_K_M.gguf": small.bytes } });
  await mkdir(world.modelsDir, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", "size=66m", "tmpfs", world.modelsDir]);
  try {
    await berth.start();
    await berth.write("small.yaml", modelSpecFile("small", { source: "org/small" }));
    const held = await world.modelWhere("small", "it says why", ({ error }) => error !== null);
    expect(held).toMatchObject({ ready: false, status: "absent", downloaded_bytes: 0 });
    // 64 MiB stay free for Berth itself.
    expect(held.error).toMatch(
      /takes 7\.\d MiB more, and 6[56][.\d]* MiB are free where models are kept: [56]\.\d MiB are missing/,
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
    expect(await world.modelIs("small", "ready")).toMatchObject({
      ready: true,
      sha256: small.sha256,
      error: null,
    });
    expect(hub.bytesSent).toBe(small.bytes.length);
  } finally {
    // Berth may have files open there.
    await run("umount", ["-l", world.modelsDir]);
  }
});
