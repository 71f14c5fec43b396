import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { bundleProgram } from "../support/bundle-program.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const PROGRAM = await bundleProgram("test/support/session-bus-process.ts");

test("the native library koffi is loaded only for connections that pass file descriptors", async () => {
  await using bus = await TestSessionBus.start();
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, bus.address]);
  expect(JSON.parse(stdout)).toEqual([false, true]);
});
