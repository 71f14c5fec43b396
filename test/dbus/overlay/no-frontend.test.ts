import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import type { Caller } from "../../../src/assistant/caller.ts";
import { SessionBusUi } from "../../../src/assistant/overlay/ui/session-bus-ui.ts";
import { connectSessionBus } from "../../../src/dbus/connect-session-bus.ts";
import { DbusNextFrontend } from "../../support/dbus-next-frontend.ts";
import { createCaller } from "../../support/overlay-harness.ts";
import { TestSessionBus } from "../../support/test-session-bus.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const UI = "dev.assistant.Overlay1.UI";
const { signal } = new AbortController();

it("the companion starts no frontend, even if the bus could activate one", async () => {
  const dir = await mkdtemp(join(tmpdir(), "berth-frontend-"));
  const trace = join(dir, "started");
  const service = `[D-BUS Service]\nName=${UI}\nExec=/usr/bin/touch ${trace}\n`;
  await using bus = await TestSessionBus.start({ services: { [`${UI}.service`]: service } });
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const ui = new SessionBusUi(client, async (connection) => createCaller(connection));
  expect(await ui.connection(signal)).toBeUndefined();
  const calls = [ui.summon("x", {}, signal), ui.hide(signal), ui.isVisible(signal)];
  for (const call of await Promise.allSettled(calls))
    expect(call).toMatchObject({ status: "rejected", reason: { code: "not_found" } });
  expect(existsSync(trace)).toBe(false);
  // A call to the frontend makes the bus run the command of the activation file, which shows that the file is valid.
  const calling = bus.gdbusCall(UI, "/dev/assistant/Overlay1/UI", `${UI}.Hide`).catch(() => {});
  await vi.waitUntil(() => existsSync(trace), WAIT_OPTIONS);
  await bus.kill();
  await calling;
  await rm(dir, { recursive: true });
});

it("the companion ignores an untrusted frontend, and checks each connection until one is trusted", async () => {
  await using bus = await TestSessionBus.start();
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  await using window = await DbusNextFrontend.connect(bus);
  await window.takeUi();
  const asked: string[] = [];
  const apps: (Caller["app"] | Error)[] = [
    { id: "org.example.App", kind: "flatpak" },
    new Error("nobody can tell"),
    { id: "example.service", kind: "unit" },
    { id: "example", kind: "snap" },
  ];
  const ui = new SessionBusUi(client, async (connection) => {
    asked.push(connection);
    const app = apps.shift();
    if (app instanceof Error) throw app;
    return createCaller(connection, app);
  });
  await expect(ui.summon("a secret", {}, signal)).rejects.toMatchObject({ code: "not_found" });
  expect(await ui.connection(signal)).toBeUndefined();
  expect(window.received).toEqual([]);
  expect(await ui.connection(signal)).toBe(window.name);
  expect(await ui.connection(signal)).toBe(window.name);
  expect(asked).toEqual([window.name, window.name, window.name]);
  await using next = await DbusNextFrontend.connect(bus);
  await window.leaveUi();
  await next.takeUi();
  expect(await ui.connection(signal)).toBeUndefined();
  expect(asked.at(-1)).toBe(next.name);
});

it("the companion calls the connection that it has checked, even if the name has a new owner", async () => {
  await using bus = await TestSessionBus.start();
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  await using window = await DbusNextFrontend.connect(bus);
  await using thief = await DbusNextFrontend.connect(bus);
  await window.takeUi();
  const ui = new SessionBusUi(client, async (connection) => {
    await window.leaveUi();
    await thief.takeUi();
    return createCaller(connection);
  });
  await ui.summon("a secret", {}, signal);
  expect(thief.received).toEqual([]);
  expect(window.received).toEqual([["ui.Summon", "a secret", {}]]);
});

it("the companion has no frontend after the bus is lost", async () => {
  await using bus = await TestSessionBus.start();
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const ui = new SessionBusUi(client, async (connection) => createCaller(connection));
  await bus.kill();
  await client.closed;
  expect(await ui.connection(signal)).toBeUndefined();
  await expect(ui.hide(signal)).rejects.toMatchObject({ code: "not_found" });
});
