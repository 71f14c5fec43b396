import { BusCallError, type BusValue, type SessionBus } from "../../../../dbus/port.ts";
import { ToolAppError } from "../../tool-apps.ts";
import type { AppStarter } from "./port.ts";

const SYSTEMD = "org.freedesktop.systemd1";
/** The constant UNIT_NAME_MAX of systemd. */
const UNIT_NAME_LENGTH_MAX = 255;
/** The position of the load state in a unit of ListUnitsByNames. */
const LOAD_STATE = 2;

/** Starts the unit `<app id>.service` of the user's systemd, if systemd is on the session bus. */
export class SystemdUnitStarter implements AppStarter {
  readonly #bus: () => SessionBus | undefined;
  readonly #timeoutMs: number;

  /** `bus` returns the current connection to the session bus; undefined while there is no connection. */
  constructor(options: {
    readonly bus: () => SessionBus | undefined;
    readonly timeoutMs: number;
  }) {
    this.#bus = options.bus;
    this.#timeoutMs = options.timeoutMs;
  }

  async start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown"> {
    const bus = this.#bus();
    const unit = `${appId}.service`;
    if (!bus || unit.length > UNIT_NAME_LENGTH_MAX) return "unknown";
    try {
      // systemd replies when the start job is queued. If the unit fails later, the app's socket does not appear, and
      // the wait for the socket times out.
      await this.#callSystemd(bus, "StartUnit", "ss", [unit, "replace"], signal);
    } catch (error) {
      if (!(error instanceof BusCallError)) throw error;
      // The bus has no systemd, or systemd has no unit with the app's name, so this starter does not know the app.
      if (!error.busName.startsWith(`${SYSTEMD}.`)) return "unknown";
      if (error.busName === `${SYSTEMD}.NoSuchUnit`) return "unknown";
      throw new ToolAppError(
        "app_unavailable",
        `systemd could not start ${unit}: see "systemctl --user status ${unit}"`,
        { cause: error },
      );
    }
    return "asked";
  }

  async knows(appId: string, signal: AbortSignal): Promise<boolean> {
    const bus = this.#bus();
    const unit = `${appId}.service`;
    if (!bus || unit.length > UNIT_NAME_LENGTH_MAX) return false;
    try {
      const [units] = await this.#callSystemd(bus, "ListUnitsByNames", "as", [[unit]], signal);
      const row: unknown = Array.isArray(units) ? units[0] : undefined;
      return Array.isArray(row) && row[LOAD_STATE] !== "not-found";
    } catch (error) {
      if (!(error instanceof BusCallError)) throw error;
      // Without a name of systemd, the error means that the bus has no systemd.
      return error.busName.startsWith(`${SYSTEMD}.`);
    }
  }

  #callSystemd(
    bus: SessionBus,
    member: string,
    signature: string,
    args: readonly BusValue[],
    signal: AbortSignal,
  ): Promise<readonly BusValue[]> {
    return bus.call(
      {
        destination: SYSTEMD,
        path: "/org/freedesktop/systemd1",
        interface: `${SYSTEMD}.Manager`,
        member,
        signature,
        args,
      },
      { signal, timeoutMs: this.#timeoutMs },
    );
  }
}
