import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { bundleProgram } from "../support/bundle-program.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const USER = 65_534;
const ACCESS_DENIED = "org.freedesktop.DBus.Error.AccessDenied";
const script = fileURLToPath(new URL("../support/ping-as-user.py", import.meta.url));
const isRoot = process.getuid?.() === 0;

test.runIf(isRoot)(
  "a sandboxed process that hides its root directory from the companion is refused",
  async () => {
    await using bus = await TestSessionBus.start({ user: USER });
    const folder = bus.environment["XDG_RUNTIME_DIR"] ?? "";
    const info = "[Application]\nname=org.example.Sandboxed\n";
    await writeFile(path.join(folder, ".flatpak-info"), info);
    const program = await bundleProgram("test/support/identity-process.ts");
    const companion = spawn(process.execPath, [program, bus.address, String(USER)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(companion.stdout, "data");

    const ping = async (address: string, root: string, dumpable: 0 | 1): Promise<unknown> => {
      const args = [script, address, String(USER), root, String(dumpable)];
      const run = await bus.run("/usr/bin/python3", args);
      expect(run).toMatchObject({ code: 0, stderr: "" });
      return JSON.parse(run.stdout);
    };
    // The bus listens inside of the sandbox too, because the folder of its socket is the sandbox's root.
    const inside = ["unix:path=/bus", folder] as const;
    expect(await ping(...inside, 1)).toMatchObject({ id: "org.example.Sandboxed" });
    expect(await ping(...inside, 0)).toMatchObject({
      error: ACCESS_DENIED,
      text: expect.stringMatching(/cannot be identified: the process hides its root directory/),
    });
    // A process outside of any sandbox that hides its root directory is identified by its mounts, and counts as the
    // user.
    expect(await ping(bus.address, "/", 0)).toBeNull();
    companion.kill();
    await once(companion, "close");
  },
);

test.runIf(isRoot)("a process that the bus cannot name is refused", async () => {
  await using harness = await BusHarness.start({}, { isBlindToProcesses: true });
  await harness.serveContext({});
  await using raw = await RawBusClient.connect(harness.bus);
  const call = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT, member: "Ping" };
  expect(await raw.errorOf(call)).toMatchObject({
    name: ACCESS_DENIED,
    text: expect.stringMatching(/cannot be identified: the session bus does not know/),
  });
});
