import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { companionBusNames } from "../../src/base/companion-names.ts";
import {
  formatBusService,
  formatUnit,
  parseExecStart,
} from "../../src/cli/companion/install/unit-and-service-files.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { ownerOf } from "../support/bus-processes.ts";
import { isProcessAlive } from "../support/processes.ts";
import { type CliResult, runCommandLine } from "../support/run-cli.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const START_LIMIT_MS = 120_000;

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "berth-install-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

const unitFile = () => join(home, ".config/systemd/user/berth-companion.service");
const servicesDir = () => join(home, ".local/share/dbus-1/services");

function run(
  words: readonly string[],
  environment: Record<string, string> = {},
): Promise<CliResult> {
  return runCommandLine(["assistant", ...words], {
    workingDirectory: home,
    environment: {
      HOME: home,
      XDG_RUNTIME_DIR: home,
      PATH: process.env["PATH"] ?? "",
      ...environment,
    },
  });
}

/** Writes a substitute for systemctl that records its arguments and answers as the test defines. */
async function writeFakeSystemctl(
  answer: string,
): Promise<{ path: string; readCalls: () => Promise<string[]> }> {
  const folder = join(home, "bin");
  const log = join(home, "told");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "systemctl"), `#!/bin/sh\necho "$@" >> ${log}\n${answer}\n`);
  await chmod(join(folder, "systemctl"), 0o755);
  return {
    path: `${folder}:${process.env["PATH"] ?? ""}`,
    readCalls: async () => (await readFile(log, "utf8")).trim().split("\n"),
  };
}

describe("berth assistant install", () => {
  test("writes a valid systemd unit, and a D-Bus service file for each bus name of the companion", async () => {
    const { code, output } = await run([
      "install",
      "--no-start",
      "--upstream",
      "http://127.0.0.1:7799",
    ]);
    expect(code).toBe(0);
    expect(output).toContain(unitFile());
    const verified = spawnSync("systemd-analyze", ["--user", "verify", unitFile()], {
      encoding: "utf8",
      env: { ...process.env, HOME: home, XDG_RUNTIME_DIR: home },
    });
    // If systemd is not installed, the unit file is not verified.
    if (!verified.error) expect(verified.stderr).not.toContain("berth-companion");
    const unit = await readFile(unitFile(), "utf8");
    expect(parseExecStart(unit)?.slice(2)).toEqual([
      "assistant",
      "--user",
      "--upstream",
      "http://127.0.0.1:7799",
    ]);
    const services = await readdir(servicesDir());
    expect(services.toSorted()).toEqual(
      companionBusNames.map((name) => `${name}.service`).toSorted(),
    );
    expect((await stat(unitFile())).mode & 0o777).toBe(0o644);
    expect(
      (await run(["install", "--no-start", "--upstream", "http://127.0.0.1:7799"])).output,
    ).toContain("unchanged:");
  });

  test("a bus that does not watch its service folders is told to reload them at each install and uninstall", async () => {
    await using bus = await TestSessionBus.start();
    let reloads = 0;
    const openSessionBus = async (address: string, signal: AbortSignal) => {
      const real = await connectSessionBus({ address, signal, negotiateFds: false });
      const call: typeof real.call = (method, limits) => {
        if (method.member === "ReloadConfig") reloads += 1;
        return real.call(method, limits);
      };
      return { ...real, call };
    };
    const environment = { HOME: home, ...bus.environment };
    const options = { workingDirectory: home, environment, openSessionBus };
    expect((await runCommandLine(["assistant", "install", "--no-start"], options)).code).toBe(0);
    expect(reloads).toBe(1);
    expect((await runCommandLine(["assistant", "uninstall"], options)).code).toBe(0);
    expect(reloads).toBe(2);
  });

  test("relative paths in flags are stored as absolute paths", async () => {
    await writeFile(join(home, "companion.yaml"), "paused: true\n");
    await writeFile(join(home, "some.gguf"), "");
    await run(["install", "--no-start", "--config", "companion.yaml", "--model", "a=some.gguf"]);
    const program = parseExecStart(await readFile(unitFile(), "utf8"));
    expect(program).toContain(join(home, "companion.yaml"));
    expect(program).toContain(`a=${join(home, "some.gguf")}`);
  });

  test.each([
    [["--port", "99999"], "port"],
    [["--system"], "--system"],
    [["--upstream", "http://example.org"], "--upstream"],
  ])("the flags %j are refused, and no files are written", async (flags, why) => {
    const { code, errors } = await run(["install", "--no-start", ...flags]);
    expect(code).toBe(2);
    expect(errors).toContain(why);
    await expect(stat(unitFile())).rejects.toThrow("ENOENT");
  });

  test("a service file that Berth has not written is kept, and the install that it stops writes no files", async () => {
    await mkdir(servicesDir(), { recursive: true });
    const foreign = join(servicesDir(), "dev.assistant.Remoted.service");
    await writeFile(foreign, "[D-BUS Service]\n");
    const { code, errors } = await run(["install", "--no-start"]);
    expect(code).toBe(1);
    expect(errors).toContain(foreign);
    await expect(stat(unitFile())).rejects.toThrow("ENOENT");
    expect((await run(["uninstall"])).output).toContain("not installed");
    expect(await readFile(foreign, "utf8")).toBe("[D-BUS Service]\n");
  });

  test("systemd commands run in the expected order, and a failed one is reported", async () => {
    const manager = await writeFakeSystemctl("exit 0");
    expect((await run(["install"], { PATH: manager.path })).code).toBe(0);
    await run(["install"], { PATH: manager.path });
    expect((await run(["uninstall"], { PATH: manager.path })).output).toContain("removed 6 files");
    const unit = "berth-companion.service";
    const words = "--user --no-ask-password";
    expect(await manager.readCalls()).toEqual([
      `${words} daemon-reload`,
      `${words} enable ${unit}`,
      `${words} restart ${unit}`,
      `${words} daemon-reload`,
      `${words} enable ${unit}`,
      `${words} start ${unit}`,
      `${words} disable --now ${unit}`,
      `${words} daemon-reload`,
    ]);
    expect(await readdir(servicesDir())).toEqual([]);
    const refusing = await writeFakeSystemctl(
      '[ "$3" = daemon-reload ] || { echo "Unit is masked" >&2; exit 1; }',
    );
    const { code, errors } = await run(["install"], { PATH: refusing.path });
    expect(code).toBe(1);
    expect(errors).toContain("Unit is masked");
  });

  test("without a running systemd, only the bus starts the companion", async () => {
    const absent = await writeFakeSystemctl(
      'echo "Failed to connect to bus: No medium found" >&2; exit 1',
    );
    const { code, output } = await run(["install"], { PATH: absent.path });
    expect(code).toBe(0);
    expect(output).toContain("no systemd runs");
    expect((await run(["install"], { PATH: "/nonexistent" })).code).toBe(0);
  });
});

describe("the texts of the unit file and the service file", () => {
  const odd = [
    "/opt/a b/node",
    '/x/"quoted"\\back',
    "50%",
    "$HOME",
    "plain",
    "a=b c",
    "`date`",
    "it's",
    "two\nlines",
    "\\new",
  ];

  test("a program path with special characters is escaped so that the unit file starts the right program", () => {
    expect(parseExecStart(formatUnit(odd))).toEqual(odd);
  });

  test("a program path with special characters is escaped so that the bus starts the right program", async () => {
    const folder = join(home, `a b'c"$HOME \`date\``);
    await mkdir(folder);
    const program = join(folder, "it");
    const trace = join(folder, "words");
    await writeFile(program, `#!/bin/sh\nprintf '%s|' "$@" > "$0.new"; mv "$0.new" "$1"\n`);
    await chmod(program, 0o755);
    const name = "dev.assistant.Agent1";
    const services = { [`${name}.service`]: formatBusService(name, [program, trace, ...odd]) };
    await using odds = await TestSessionBus.start({ services });
    const calling = odds.gdbusCall(name, "/x", `${name}.Ping`).catch(() => {});
    await vi.waitUntil(() => existsSync(trace), WAIT_OPTIONS);
    expect(await readFile(trace, "utf8")).toBe([trace, ...odd, ""].join("|"));
    await odds.kill();
    await calling;
  });
});

describe("an installed companion", () => {
  test("is started by a call to any of its names, is found by doctor, and is ended by uninstall", async () => {
    const runtime = join(home, "runtime");
    await mkdir(runtime, { mode: 0o700 });
    await run(["install", "--no-start", "--engine", "stub", "--port", "0"], {
      XDG_RUNTIME_DIR: runtime,
    });
    const files = await readdir(servicesDir());
    const services = Object.fromEntries(
      await Promise.all(
        files.map(async (file) => [
          basename(file),
          await readFile(join(servicesDir(), file), "utf8"),
        ]),
      ),
    );
    const environment = { HOME: home, XDG_RUNTIME_DIR: runtime };
    // On a busy machine the start of the companion may take longer than the limits of the bus and of busctl.
    const limits = { service_start_timeout: START_LIMIT_MS };
    await using bus = await TestSessionBus.start({ services, environment, limits });
    const doctor = async () => {
      const { output } = await runCommandLine(["doctor", "-o", "json"], {
        workingDirectory: home,
        environment: { ...environment, DBUS_SESSION_BUS_ADDRESS: bus.address },
        openSessionBus: (address, signal) =>
          connectSessionBus({ address, signal, negotiateFds: false }),
      });
      const { checks }: { checks: { check: string; state: string; message: string }[] } =
        JSON.parse(output);
      return checks.find(({ check }) => check === "companion");
    };
    expect(await doctor()).toMatchObject({
      state: "ok",
      message: expect.stringContaining("installed"),
    });
    const timeout = `--timeout=${START_LIMIT_MS / 1_000}`;
    const ping = [
      "dev.assistant.Remoted",
      "/dev/assistant/Remote1",
      "dev.assistant.Remote1",
      "Ping",
    ];
    const answer = await bus.run("busctl", ["--user", timeout, "call", ...ping]);
    expect(answer).toMatchObject({ code: 0, stdout: expect.stringMatching(/^s "berth \d/) });
    for (const name of companionBusNames)
      expect(
        await bus.gdbusCall(
          "org.freedesktop.DBus",
          "/org/freedesktop/DBus",
          "org.freedesktop.DBus.NameHasOwner",
          name,
        ),
      ).toBe("(true,)");
    expect(await doctor()).toMatchObject({
      state: "ok",
      message: expect.stringContaining("up, on"),
    });

    const uninstall = (own: string) =>
      runCommandLine(["assistant", "uninstall"], {
        workingDirectory: home,
        environment: {
          ...environment,
          HOME: own,
          PATH: "/nonexistent", // There is no systemctl.
          DBUS_SESSION_BUS_ADDRESS: bus.address,
        },
        openSessionBus: (address, signal) =>
          connectSessionBus({ address, signal, negotiateFds: false }),
      });
    // The uninstall of another installation does not end this companion, because the companion has another command
    // line.
    const other = join(home, "other");
    await run(["install", "--no-start", "--engine", "stub"], { HOME: other });
    expect((await uninstall(other)).output).toContain("removed 6 files");
    const pid = (await ownerOf(bus, "dev.assistant.Agent1")) ?? 0;
    expect(isProcessAlive(pid)).toBe(true);
    const { code, output } = await uninstall(home);
    expect({ code, output }).toEqual({
      code: 0,
      output: expect.stringMatching(/stopped the companion[\s\S]*removed 6 files/),
    });
    expect(isProcessAlive(pid)).toBe(false);
    expect(await ownerOf(bus, "dev.assistant.Agent1")).toBeUndefined();
  });
});
