import { BerthError } from "../../base/errors.ts";
import { BusCallError } from "../../dbus/port.ts";

/** Creates the error for a missing session bus. `cause` is the original error. */
export function sessionBusUnavailable(reason: string, cause?: unknown): BerthError {
  return new BerthError("assistant_unreachable", `there is no session bus: ${reason}`, {
    hint: "log in at a desktop, or over ssh after `loginctl enable-linger`; `dbus-run-session -- bash` opens a shell with its own bus, for its own companion",
    cause,
  });
}

/**
 * Describes why a bus could not be opened. The text omits the bus address, because errors must not contain paths of the
 * machine.
 */
export function describeConnectFailure(error: unknown, isNamed: boolean): string {
  const name = error instanceof BusCallError ? error.busName.split(".").at(-1) : undefined;
  const where = isNamed ? "DBUS_SESSION_BUS_ADDRESS" : "XDG_RUNTIME_DIR/bus";
  if (name === "BadAddress") return `${where} is not the address of a Unix socket`;
  if (name === "AuthFailed") return `the bus at ${where} belongs to another user`;
  return `no bus answers at ${where}`;
}

/** Creates the error for a connection that ended during a call. */
export function busConnectionLost(): BerthError {
  return new BerthError("assistant_unreachable", "the connection to the session bus was lost", {
    hint: "try again when the session bus is running",
  });
}

/** Creates the error for a companion that exited during a call, or whose connection ended. */
export function companionEnded(): BerthError {
  return new BerthError("assistant_unreachable", "the companion exited during the call", {
    hint: "start it with `berth assistant --user`, then try again",
  });
}
