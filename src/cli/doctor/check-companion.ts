import { existsSync, readFileSync } from "node:fs";
import { readPackageVersion } from "../../base/package-version.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { BusValue, SessionBus } from "../../dbus/port.ts";
import { sessionBusAddress } from "../../dbus/session-bus-address.ts";
import { resolveInstallPaths } from "../companion/install/install-paths.ts";
import { parseExecStart } from "../companion/install/unit-and-service-files.ts";
import type { CliIo } from "../io.ts";
import { createFinding, type DoctorFinding } from "./finding.ts";

const CHECK = "companion";
const ANSWER_MS_MAX = 2_000;
const OVERLAY_NAME = "dev.assistant.Overlay1";

/** A person's companion, where there is a session for one: installed, up, and well. */
export async function checkCompanion(io: CliIo): Promise<DoctorFinding[]> {
  const { environment } = io;
  const installed = readInstalledProgram(resolveInstallPaths(environment).unit);
  const missing = installed?.find((file) => file.startsWith("/") && !existsSync(file));
  if (missing !== undefined)
    return [
      createFinding(
        CHECK,
        "fail",
        `it is installed to run ${missing}, which is gone`,
        "berth assistant install",
      ),
    ];
  const isInstalled = installed !== undefined;
  const address = sessionBusAddress(environment);
  const unreachable = "there is no session bus here: a companion belongs to a person's session";
  if (address === undefined) return [createFinding(CHECK, "ok", unreachable)];
  using limit = createTimeLimit(new AbortController().signal, ANSWER_MS_MAX);
  let bus: SessionBus;
  try {
    bus = await io.openSessionBus(address, limit.signal, false);
  } catch {
    return [createFinding(CHECK, "ok", unreachable)];
  }
  await using _ = bus;
  try {
    return await inspectCompanion(bus, isInstalled, limit.signal);
  } catch {
    return [
      createFinding(
        CHECK,
        "warn",
        "it has its names on the session bus, and does not answer",
        "systemctl --user restart berth-companion.service, or end it and see its log",
      ),
    ];
  }
}

async function inspectCompanion(bus: SessionBus, isInstalled: boolean, signal: AbortSignal) {
  const call = async (destination: string, path: string, name: string, ...args: BusValue[]) => {
    const dot = name.lastIndexOf(".");
    const method = {
      destination,
      path,
      interface: name.slice(0, dot),
      member: name.slice(dot + 1),
    };
    const signature = args.length > 0 ? "s" : "";
    const answer = await bus.call(
      { ...method, signature, args },
      { signal, timeoutMs: ANSWER_MS_MAX },
    );
    return answer[0];
  };
  const driver = "org.freedesktop.DBus";
  // Asked first, since a call would start it.
  if (
    (await call(driver, "/org/freedesktop/DBus", `${driver}.NameHasOwner`, OVERLAY_NAME)) !== true
  )
    return [
      isInstalled
        ? createFinding(CHECK, "ok", "installed; whoever calls it on the session bus starts it")
        : createFinding(
            CHECK,
            "ok",
            "none runs; `berth assistant install` has one started at each login",
          ),
    ];
  const status = await call(OVERLAY_NAME, "/dev/assistant/Overlay1", `${OVERLAY_NAME}.GetStatus`);
  const state = await call(
    "dev.assistant.Remoted",
    "/dev/assistant/Remote1",
    "dev.assistant.Remote1.State",
  );
  return [...createStatusFindings(status), ...createKeyFindings(state)];
}

function createStatusFindings(status: BusValue | undefined): DoctorFinding[] {
  const statusValue = (name: string) =>
    status instanceof Map ? status.get(name)?.value : undefined;
  const version = String(statusValue("version"));
  if (statusValue("ledger_ok") === false)
    return [
      createFinding(
        CHECK,
        "fail",
        "its ledger cannot be written, so it does nothing",
        "make room on the disk of its data directory; it goes on by itself then",
      ),
    ];
  const ownVersion = readPackageVersion();
  if (version !== ownVersion)
    return [
      createFinding(
        CHECK,
        "warn",
        `version ${version} runs, and this is ${ownVersion}`,
        "systemctl --user restart berth-companion.service",
      ),
    ];
  const index = String(statusValue("index_state"));
  if (index === "degraded")
    return [
      createFinding(
        CHECK,
        "warn",
        "something that it indexes is not kept up to date",
        "see its log",
      ),
    ];
  return [createFinding(CHECK, "ok", `up, on 127.0.0.1:${String(statusValue("http_port"))}`)];
}

/** What keeps the keys of remote providers. */
function createKeyFindings(state: BusValue | undefined): DoctorFinding[] {
  const document: unknown = JSON.parse(typeof state === "string" ? state : "null");
  const protectionState = getMember(document, "protection");
  return getMember(protectionState, "state") === "locked"
    ? [
        createFinding(
          "keys",
          "warn",
          `the keys of remote providers cannot be read: ${String(getMember(protectionState, "message"))}`,
        ),
      ]
    : [];
}

function getMember(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

/** What the unit of this user starts; undefined: there is none that Berth has written. */
function readInstalledProgram(unit: string): readonly string[] | undefined {
  try {
    return parseExecStart(readFileSync(unit, "utf8"));
  } catch {
    return undefined;
  }
}
