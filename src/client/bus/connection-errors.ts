import { BerthError } from "../../base/errors.ts";
import { BusCallError } from "../../dbus/port.ts";

/** Nothing to connect to. `cause`: what was thrown on the way. */
export function sessionBusUnavailable(reason: string, cause?: unknown): BerthError {
  return new BerthError("assistant_unreachable", `there is no session bus: ${reason}`, {
    hint: "log in at a desktop, or over ssh after `loginctl enable-linger`; `dbus-run-session -- bash` opens a shell with a bus of its own, for a companion of its own",
    cause,
  });
}

/** Why a bus could not be opened, in words without the address, which is a path of this machine. */
export function describeConnectFailure(error: unknown, isNamed: boolean): string {
  const name = error instanceof BusCallError ? error.busName.split(".").at(-1) : undefined;
  const where = isNamed ? "DBUS_SESSION_BUS_ADDRESS" : "XDG_RUNTIME_DIR/bus";
  if (name === "BadAddress") return `${where} is not the address of a Unix socket`;
  if (name === "AuthFailed") return `the one at ${where} belongs to somebody else`;
  return `nothing answers at ${where}`;
}

/** The connection ended while something was awaited. */
export function busConnectionLost(): BerthError {
  return new BerthError("assistant_unreachable", "the connection to the session bus was lost", {
    hint: "the same again, once the bus is there",
  });
}

/** The companion, or the connection to it, went away while something of it was awaited. */
export function companionEnded(): BerthError {
  return new BerthError("assistant_unreachable", "the companion ended in the middle of it", {
    hint: "start it with `berth assistant --user`, and do the same again",
  });
}
