import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { SessionBusUi } from "../../../src/assistant/overlay/ui/session-bus-ui.ts";
import { connectSessionBus } from "../../../src/base/session-bus/connect.ts";
import { TestSessionBus } from "../../support/session-bus.ts";

const UI = "dev.assistant.Overlay1.UI";
const { signal } = new AbortController();

it("starts no frontend, also where the bus could", async () => {
  const dir = await mkdtemp(join(tmpdir(), "berth-frontend-"));
  const trace = join(dir, "started");
  const service = `[D-BUS Service]\nName=${UI}\nExec=/usr/bin/touch ${trace}\n`;
  await using bus = await TestSessionBus.start({ services: { [`${UI}.service`]: service } });
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const ui = new SessionBusUi(client);
  expect(await ui.connection(signal)).toBeUndefined();
  for (const call of [ui.summon("x", {}, signal), ui.hide(signal), ui.isVisible(signal)])
    await expect(call).rejects.toMatchObject({ code: "not_found" });
  expect(existsSync(trace)).toBe(false);
  // That the file is one which the bus would go by.
  const calling = bus.gdbusCall(UI, "/dev/assistant/Overlay1/UI", `${UI}.Hide`).catch(() => {});
  await vi.waitUntil(() => existsSync(trace), { timeout: 10_000 });
  await bus.kill();
  await calling;
  await rm(dir, { recursive: true });
});

it("is without a frontend once the bus is lost", async () => {
  await using bus = await TestSessionBus.start();
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const ui = new SessionBusUi(client);
  await bus.kill();
  await client.closed;
  expect(await ui.connection(signal)).toBeUndefined();
  await expect(ui.hide(signal)).rejects.toMatchObject({ code: "not_found" });
});
