import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silentLogger } from "../../../../src/base/logger.ts";
import { FileLogArchive } from "../../../../src/controller/logs/file-log-archive.ts";
import { FakeRuntime } from "../../../support/fake-runtime.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

function archiveIn(dir: string) {
  const clock = new VirtualClock();
  const runtime = new FakeRuntime({ clock });
  const archive = new FileLogArchive({
    dir,
    runtime,
    logger: silentLogger,
    now: () => clock.now(),
  });
  return { archive, runtime, signal: new AbortController().signal };
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "berth-archive-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("a log that exceeds the limit keeps its end, which shows why the container ended", () =>
  inFolder(async (folder) => {
    const { archive, runtime, signal } = archiveIn(folder);
    const id = runtime.addStranger("web-0");
    const container = runtime.engine.container(id);
    for (let line = 0; line < 2_000; line += 1)
      runtime.engine.write(container, `${line} ${"x".repeat(4_000)}`);
    await archive.keep("web", { id, name: "web-0" }, signal);
    const lines = await archive.read("web");
    expect(lines.at(-1)?.message).toMatch(/^1999 /);
    expect(lines.length).toBeGreaterThan(500);
    expect(lines.length).toBeLessThan(2_000);
  }));

test("the app name in a label is not used as a path", () =>
  inFolder(async (folder) => {
    const { archive, runtime, signal } = archiveIn(join(folder, "logs"));
    const id = runtime.addStranger("web-0");
    runtime.engine.write(runtime.engine.container(id), "hello");
    await archive.keep("../outside", { id, name: "web-0" }, signal);
    expect(existsSync(join(folder, "outside"))).toBe(false);
    await archive.drop("..");
    expect(existsSync(folder)).toBe(true);
  }));
