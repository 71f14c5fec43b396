import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companionBusNames } from "../../src/base/companion-names.ts";
import { formatBusService } from "../../src/cli/companion/install/unit-and-service-files.ts";
import type { SystemInfo } from "../../src/resources/wire/system.ts";
import { BerthProcess } from "../support/berth-process.ts";
import { endProcessOf, ownerOf } from "../support/bus-processes.ts";
import { CompanionProcess } from "../support/companion-process.ts";
import { connectTo } from "../support/engine-client.ts";
import { isProcessAlive } from "../support/processes.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const NAME = "dev.assistant.Overlay1";
const program = join(import.meta.dirname, "../../bin/berth");

type Report = SystemInfo["companion"];

/** Opens `berth up` with an assistant that computes nothing, and without a container engine. */
function openBerth(
  environment: Readonly<Record<string, string>>,
  flags: readonly string[] = [],
): Promise<BerthProcess> {
  return BerthProcess.open({
    dockerHost: (root) => `unix://${join(root, "no-engine.sock")}`,
    docker: connectTo("unix:///nonexistent/no-engine.sock"),
    assistant: true,
    // BERTH_ASSISTANT_ENGINE is meant for the system assistant. A companion that received it would refuse it.
    env: { ...environment, BERTH_ASSISTANT_ENGINE: "stub" },
    flags: ["--companion-port=0", ...flags],
  });
}

function waitForCompanion(
  berth: BerthProcess,
  state: Report["state"],
  also: (report: Report) => boolean = () => true,
): Promise<Report> {
  return berth.until(`the companion is ${state}`, async () => {
    const { companion } = await berth.client.system.info();
    return companion.state === state && also(companion) ? companion : undefined;
  });
}

function pidOf({ pid }: Report): number {
  return pid ?? expect.fail("it says no process");
}

const waitForExit = (pid: number) => expect.poll(() => isProcessAlive(pid)).toBe(false);

/** Lists the log lines about a companion with the level warn or above. */
function listWarnings(berth: BerthProcess): string[] {
  return berth.output
    .split("\n")
    .filter((line) => /"level":"?(warn|error|[456]0)/.test(line) && /companion/.test(line));
}

test("without a session bus there is no companion and no warning", async () => {
  await using berth = await openBerth({ XDG_RUNTIME_DIR: "/nonexistent" });
  await waitForCompanion(berth, "no_bus");
  expect(listWarnings(berth)).toEqual([]);
  await berth.stop();
  await berth.start({ XDG_RUNTIME_DIR: "" });
  expect((await berth.client.system.info()).companion).toMatchObject({
    state: "no_bus",
    message: "no session bus is in the environment",
  });
  expect(listWarnings(berth)).toEqual([]);
});

test("the companion is not started with --companion=off, even if there is a session bus", async () => {
  await using bus = await TestSessionBus.start();
  await using berth = await openBerth(bus.environment, ["--companion=off"]);
  await berth.until("the assistant is up", async () => {
    const { assistant } = await berth.client.system.info();
    return assistant.state === "up";
  });
  expect((await berth.client.system.info()).companion.state).toBe("off");
  expect(await ownerOf(bus, NAME)).toBeUndefined();
});

test("with a bus the companion runs with its names and the assistant's models, restarts when it is killed, and ends with berth up", async () => {
  await using bus = await TestSessionBus.start();
  await using berth = await openBerth(bus.environment);
  const first = await waitForCompanion(berth, "up");
  expect(first).toMatchObject({ starts: 1, message: null });
  for (const name of companionBusNames) expect(await ownerOf(bus, name)).toBe(first.pid);
  const listed = await fetch(`${first.url}/v1/models`);
  expect(JSON.stringify(await listed.json())).toContain("stub");
  expect((await berth.cli(["status"])).stdout).toMatch(/^Companion: +http/m);

  process.kill(pidOf(first), "SIGKILL");
  const second = await waitForCompanion(berth, "up", ({ pid }) => pid !== first.pid);
  expect(second.starts).toBe(2);
  expect(await ownerOf(bus, NAME)).toBe(second.pid);
  expect(listWarnings(berth)).toHaveLength(1);

  expect(await berth.stop()).toBe(0);
  expect(isProcessAlive(pidOf(second))).toBe(false);
  expect(await ownerOf(bus, NAME)).toBeUndefined();
});

test("the companion ends when berth up is killed, and the next berth up starts its own", async () => {
  await using bus = await TestSessionBus.start();
  await using berth = await openBerth(bus.environment);
  const first = await waitForCompanion(berth, "up");
  await berth.kill();
  await waitForExit(pidOf(first));
  await berth.start();
  const second = await waitForCompanion(berth, "up");
  expect(await ownerOf(bus, NAME)).toBe(second.pid);
});

test("the companion ends with its bus without a warning, and Berth continues", async () => {
  await using bus = await TestSessionBus.start();
  await using berth = await openBerth(bus.environment);
  const { pid, starts } = await waitForCompanion(berth, "up");
  await bus.kill();
  expect(await waitForCompanion(berth, "no_bus")).toMatchObject({ pid: null, url: null, starts });
  await waitForExit(pid ?? 0);
  expect(listWarnings(berth)).toEqual([]);
  expect((await berth.client.health()).version).toBe(berth.ready.version);
});

test("Berth does not stop another companion; when that one exits, Berth starts its own", async () => {
  await using bus = await TestSessionBus.start();
  await using other = await CompanionProcess.start({ bus });
  await using berth = await openBerth(bus.environment);
  expect(await waitForCompanion(berth, "foreign")).toMatchObject({
    pid: other.ready.pid,
    url: other.ready.url,
    starts: 0,
  });
  await berth.stop();
  expect(isProcessAlive(other.ready.pid)).toBe(true);
  await berth.start();
  await waitForCompanion(berth, "foreign");
  await other.stop();
  await waitForCompanion(berth, "up");
  expect(listWarnings(berth)).toEqual([]);
});

test("an installed companion is started by the bus and outlives berth up; if the user stops it, it stays stopped", async () => {
  const argv = [
    process.execPath,
    program,
    "assistant",
    "--user",
    "--engine",
    "stub",
    "--port",
    "0",
  ];
  await using bus = await TestSessionBus.start();
  await using berth = await openBerth(bus.environment);
  const ours = await waitForCompanion(berth, "up");
  // When the service file is installed, Berth ends the companion that it has started, and the bus starts another one.
  await bus.install(`${NAME}.service`, formatBusService(NAME, argv), { HOME: berth.home });
  const installed = await waitForCompanion(berth, "activated", ({ pid }) => pid !== null);
  expect(installed.pid).not.toBe(ours.pid);
  expect(installed.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(isProcessAlive(pidOf(ours))).toBe(false);
  expect(await ownerOf(bus, NAME)).toBe(installed.pid);
  await berth.stop();
  expect(isProcessAlive(pidOf(installed))).toBe(true);
  await berth.start();
  await waitForCompanion(berth, "activated", ({ pid }) => pid === installed.pid);
  await endProcessOf(bus, NAME);
  await waitForCompanion(berth, "activated", ({ pid }) => pid === null);
  expect(await ownerOf(bus, NAME)).toBeUndefined();
  // The next start of Berth makes the bus start the companion again.
  await berth.stop();
  await berth.start();
  await waitForCompanion(berth, "activated", ({ pid }) => pid !== null);
  expect(listWarnings(berth)).toEqual([]);
  await berth.stop();
  await endProcessOf(bus, NAME);
});

test("a companion whose port is taken is reported once with a hint, and Berth continues", async () => {
  await using bus = await TestSessionBus.start();
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const address = holder.address();
  const port = typeof address === "object" ? address?.port : undefined;
  await using berth = await openBerth(bus.environment, [`--companion-port=${port}`]);
  const { message } = await waitForCompanion(berth, "waiting", ({ starts }) => starts >= 2);
  expect(message).toContain(`port ${port} of 127.0.0.1 is taken`);
  expect(message).toContain("--companion-port");
  expect(listWarnings(berth)).toHaveLength(1);
  expect((await berth.client.system.info()).assistant.state).toBe("up");
  const { stdout } = await berth.cli(["doctor", "--docker-host", berth.dockerHost]);
  expect(stdout).toMatch(/companion.*could not start the companion/);
  holder.close();
  await waitForCompanion(berth, "up");
});

test.runIf(process.getuid?.() === 0)(
  "the bus of another user is not used, even if it accepts root",
  async () => {
    await using bus = await TestSessionBus.start({ user: 65_534 });
    // This query shows that the bus accepts root. So the state `no_bus` means that Berth ignores the bus because
    // another user owns it.
    expect(await ownerOf(bus, NAME)).toBeUndefined();
    await using berth = await openBerth(bus.environment);
    await waitForCompanion(berth, "no_bus");
    expect(listWarnings(berth)).toEqual([]);
  },
);
