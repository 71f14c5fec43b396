import { existsSync, readFileSync } from "node:fs";
import { readPackageVersion } from "../../base/package-version.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import { getField } from "../../client/bus/json-fields.ts";
import type { BusValue, SessionBus } from "../../dbus/port.ts";
import { sessionBusAddress } from "../../dbus/session-bus-address.ts";
import { resolveInstallPaths } from "../companion/install/install-paths.ts";
import { parseExecStart } from "../companion/install/unit-and-service-files.ts";
import type { CliIo } from "../io.ts";
import { createFinding, type DoctorFinding } from "./finding.ts";

const CHECK = "companion";
const ANSWER_MS_MAX = 2_000;
const OVERLAY_NAME = "dev.assistant.Overlay1";

/** Checks the installation of this user's companion and, if there is a session bus, its version and its state. */
export async function checkCompanion(io: CliIo): Promise<DoctorFinding[]> {
  const { environment } = io;
  const installed = readInstalledProgram(resolveInstallPaths(environment).unit);
  const missing = installed?.find((file) => file.startsWith("/") && !existsSync(file));
  if (missing !== undefined)
    return [
      createFinding(
        CHECK,
        "fail",
        `the installed unit of the companion runs ${missing}, which does not exist`,
        "berth assistant install",
      ),
    ];
  const isInstalled = installed !== undefined;
  const address = sessionBusAddress(environment);
  const unreachable = "there is no session bus here: a companion runs in the session of a user";
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
        "the companion owns its names on the session bus, but does not answer",
        "systemctl --user restart berth-companion.service, or stop it and read its log",
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
  // The bus is asked first whether the companion runs, because a call to the companion would start it.
  if (
    (await call(driver, "/org/freedesktop/DBus", `${driver}.NameHasOwner`, OVERLAY_NAME)) !== true
  )
    return [
      isInstalled
        ? createFinding(CHECK, "ok", "installed; the first call on the session bus starts it")
        : createFinding(
            CHECK,
            "ok",
            "no companion runs; `berth assistant install` starts one at each login",
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
        "the companion's ledger cannot be written, so the companion refuses all requests",
        "free space on the disk of the companion's data directory; the companion then continues by itself",
      ),
    ];
  const ownVersion = readPackageVersion();
  if (version !== ownVersion)
    return [
      createFinding(
        CHECK,
        "warn",
        `version ${version} runs, but version ${ownVersion} is installed`,
        "systemctl --user restart berth-companion.service",
      ),
    ];
  const modelError = statusValue("model_error");
  if (typeof modelError === "string" && modelError !== "")
    return [createFinding(CHECK, "warn", `it has no local models: ${modelError}`)];
  const index = String(statusValue("index_state"));
  if (index === "degraded")
    return [
      createFinding(
        CHECK,
        "warn",
        "a part of the companion's search index is not up to date",
        "read its log",
      ),
    ];
  return [createFinding(CHECK, "ok", `up, on 127.0.0.1:${String(statusValue("http_port"))}`)];
}

/** Reports if the companion cannot decrypt the keys of remote providers. */
function createKeyFindings(state: BusValue | undefined): DoctorFinding[] {
  const document: unknown = JSON.parse(typeof state === "string" ? state : "null");
  const protectionState = getField(document, "protection");
  return getField(protectionState, "state") === "locked"
    ? [
        createFinding(
          "keys",
          "warn",
          `the keys of remote providers cannot be read: ${String(getField(protectionState, "message"))}`,
        ),
      ]
    : [];
}

/** Returns the program and the arguments of the companion's systemd unit; undefined if Berth has not installed it. */
function readInstalledProgram(unit: string): readonly string[] | undefined {
  try {
    return parseExecStart(readFileSync(unit, "utf8"));
  } catch {
    return undefined;
  }
}
