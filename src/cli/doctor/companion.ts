import { existsSync, readFileSync } from "node:fs";
import { packageVersion } from "../../base/package-version.ts";
import { timeLimit } from "../../base/time-limit.ts";
import { sessionBusAddress } from "../../dbus/address.ts";
import type { BusValue, SessionBus } from "../../dbus/port.ts";
import { installPaths } from "../companion/install/install-paths.ts";
import { programOf } from "../companion/install/install-texts.ts";
import type { CliIo } from "../io.ts";
import { type Finding, finding } from "./check.ts";

const CHECK = "companion";
const ANSWER_MS_MAX = 2_000;
const NAME = "dev.assistant.Overlay1";

/** A person's companion, where there is a session for one: installed, up, and well. */
export async function checkCompanion(io: CliIo): Promise<Finding[]> {
  const { environment } = io;
  const installed = installedProgram(installPaths(environment).unit);
  const missing = installed?.find((file) => file.startsWith("/") && !existsSync(file));
  if (missing !== undefined)
    return [
      finding(
        CHECK,
        "fail",
        `it is installed to run ${missing}, which is gone`,
        "berth assistant install",
      ),
    ];
  const isInstalled = installed !== undefined;
  const address = sessionBusAddress(environment);
  const unreachable = "there is no session bus here: a companion belongs to a person's session";
  if (address === undefined) return [finding(CHECK, "ok", unreachable)];
  using limit = timeLimit(new AbortController().signal, ANSWER_MS_MAX);
  let bus: SessionBus;
  try {
    bus = await io.openSessionBus(address, limit.signal, false);
  } catch {
    return [finding(CHECK, "ok", unreachable)];
  }
  await using _ = bus;
  try {
    return await look(bus, isInstalled, limit.signal);
  } catch {
    return [
      finding(
        CHECK,
        "warn",
        "it has its names on the session bus, and does not answer",
        "systemctl --user restart berth-companion.service, or end it and see its log",
      ),
    ];
  }
}

async function look(bus: SessionBus, isInstalled: boolean, signal: AbortSignal) {
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
  if ((await call(driver, "/org/freedesktop/DBus", `${driver}.NameHasOwner`, NAME)) !== true)
    return [
      isInstalled
        ? finding(CHECK, "ok", "installed; whoever calls it on the session bus starts it")
        : finding(
            CHECK,
            "ok",
            "none runs; `berth assistant install` has one started at each login",
          ),
    ];
  const status = await call(NAME, "/dev/assistant/Overlay1", `${NAME}.GetStatus`);
  const state = await call(
    "dev.assistant.Remoted",
    "/dev/assistant/Remote1",
    "dev.assistant.Remote1.State",
  );
  return [...wellness(status), ...protection(state)];
}

function wellness(status: BusValue | undefined): Finding[] {
  const told = (name: string) => (status instanceof Map ? status.get(name)?.value : undefined);
  const version = String(told("version"));
  if (told("ledger_ok") === false)
    return [
      finding(
        CHECK,
        "fail",
        "its ledger cannot be written, so it does nothing",
        "make room on the disk of its data directory; it goes on by itself then",
      ),
    ];
  const own = packageVersion();
  if (version !== own)
    return [
      finding(
        CHECK,
        "warn",
        `version ${version} runs, and this is ${own}`,
        "systemctl --user restart berth-companion.service",
      ),
    ];
  const index = String(told("index_state"));
  if (index === "degraded")
    return [
      finding(CHECK, "warn", "something that it indexes is not kept up to date", "see its log"),
    ];
  return [finding(CHECK, "ok", `up, on 127.0.0.1:${String(told("http_port"))}`)];
}

/** What keeps the keys of remote providers. */
function protection(state: BusValue | undefined): Finding[] {
  const document: unknown = JSON.parse(typeof state === "string" ? state : "null");
  const found = memberOf(document, "protection");
  return memberOf(found, "state") === "locked"
    ? [
        finding(
          "keys",
          "warn",
          `the keys of remote providers cannot be read: ${String(memberOf(found, "message"))}`,
        ),
      ]
    : [];
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

/** What the unit of this user starts; undefined: there is none that Berth has written. */
function installedProgram(unit: string): readonly string[] | undefined {
  try {
    return programOf(readFileSync(unit, "utf8"));
  } catch {
    return undefined;
  }
}
