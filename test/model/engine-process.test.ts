import { afterEach, expect, it, vi } from "vitest";
import { EngineProcess } from "../../src/assistant/inference/llama/process/engine-process.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const processes: EngineProcess[] = [];

afterEach(async () => {
  for (const each of processes.splice(0)) await each[Symbol.asyncDispose]();
});

/** Starts a process without a model and waits until it accepts messages. */
async function start(clock: VirtualClock) {
  const started = new EngineProcess({ workers: 1, clock, logger: silentLogger });
  processes.push(started);
  const heard: string[] = [];
  started.onMessage(({ type }) => heard.push(type));
  await vi.waitFor(() => expect(heard).toEqual(["ready"]), { timeout: 60_000 });
  return { process: started, heard };
}

it("an engine process that answers pings is not killed", async () => {
  const clock = new VirtualClock();
  const { process: alive, heard } = await start(clock);
  for (let pings = 1; pings <= 12; pings++) {
    await clock.advance(10_000);
    await vi.waitFor(() => expect(heard).toHaveLength(1 + pings), { timeout: 60_000 });
  }
  const ended = vi.fn<() => void>();
  void alive.ended.then(ended);
  await clock.settle();
  expect(ended).not.toHaveBeenCalled();
});

it("an engine process that hangs is killed, and the reported reason is that it did not answer", async () => {
  const clock = new VirtualClock();
  const { process: hanging } = await start(clock);
  if (hanging.pid === undefined) throw new Error("it was not started");
  process.kill(hanging.pid, "SIGSTOP");
  for (let pings = 0; pings < 8; pings++) await clock.advance(10_000);
  expect(await hanging.ended).toEqual({
    reason: "no answer for 60 s",
    signal: "SIGKILL",
    isKilledByParent: true,
  });
});

it("an engine process has exited when its disposal is complete", async () => {
  const { process: idle } = await start(new VirtualClock());
  const { pid } = idle;
  if (pid === undefined) throw new Error("it was not started");
  await idle[Symbol.asyncDispose]();
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
