import { type Clock, delay } from "../../../../base/clock.ts";
import { BusCallError, type BusValue, type SessionBus } from "../../../../dbus/port.ts";
import { ToolAppError } from "../../tool-apps.ts";
import { sanitizeMessage } from "../sanitize-message.ts";
import type { AppStarter } from "./port.ts";

const BUS = "org.freedesktop.DBus";

/** Reply of StartServiceByName if a running process already owns the name. */
const ALREADY_RUNNING = 2;
/**
 * Delay before the start is requested again: the bus may still consider an app running that has just died, usually for
 * a few milliseconds.
 */
const ALREADY_RUNNING_RETRY_MS = 200;

/**
 * The pattern that the D-Bus specification defines for well-known names: two parts or more, none of which begins with
 * a digit.
 */
const busNamePattern = /^[A-Za-z_-][A-Za-z0-9_-]*(\.[A-Za-z_-][A-Za-z0-9_-]*)+$/;
const BUS_NAME_LENGTH_MAX = 255;

interface BusServiceStarterOptions {
  readonly bus: () => SessionBus | undefined;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/**
 * Starts an app as the session bus service whose name is the app id. The bus replies when the app owns that name; the
 * app's socket may appear earlier, and some apps never own the name.
 */
export class BusServiceStarter implements AppStarter {
  readonly #options: BusServiceStarterOptions;

  /** `bus` returns the current connection to the session bus; undefined while there is no connection. */
  constructor(options: BusServiceStarterOptions) {
    this.#options = options;
  }

  async start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown"> {
    const bus = this.#options.bus();
    if (!bus || !isBusName(appId)) return "unknown";
    try {
      // An app that owns the name but has no socket may be exiting, so the start is requested again until the bus
      // starts a new process. The caller aborts the loop when the socket appears.
      while ((await this.#requestStart(bus, appId, signal)) === ALREADY_RUNNING) {
        await delay(this.#options.clock, ALREADY_RUNNING_RETRY_MS, signal);
      }
    } catch (error) {
      if (!(error instanceof BusCallError)) throw error;
      if (error.busName === `${BUS}.Error.ServiceUnknown`) return "unknown";
      // A missing reply does not mean that the start failed: the socket may still appear, and the caller waits for it
      // with its own time limit.
      if (error.busName === `${BUS}.Error.NoReply`) return "asked";
      throw new ToolAppError(
        "app_unavailable",
        `the session bus could not start ${appId}: ${withoutPaths(error.message)}`,
        { cause: error },
      );
    }
    return "asked";
  }

  async knows(appId: string, signal: AbortSignal): Promise<boolean> {
    const bus = this.#options.bus();
    if (!bus || !isBusName(appId)) return false;
    const names = await this.#callBus(bus, "ListActivatableNames", "", [], signal);
    if (Array.isArray(names) && names.includes(appId)) return true;
    // The bus also knows an app that already owns its name.
    return (await this.#callBus(bus, "NameHasOwner", "s", [appId], signal)) === true;
  }

  #requestStart(bus: SessionBus, appId: string, signal: AbortSignal): Promise<unknown> {
    return this.#callBus(bus, "StartServiceByName", "su", [appId, 0], signal);
  }

  async #callBus(
    bus: SessionBus,
    member: string,
    signature: string,
    args: readonly BusValue[],
    signal: AbortSignal,
  ): Promise<BusValue | undefined> {
    const method = { destination: BUS, path: "/org/freedesktop/DBus", interface: BUS };
    const [reply] = await bus.call(
      { ...method, member, signature, args },
      { signal, timeoutMs: this.#options.timeoutMs },
    );
    return reply;
  }
}

function isBusName(appId: string): boolean {
  return appId.length <= BUS_NAME_LENGTH_MAX && busNamePattern.test(appId);
}

/** Removes paths from a message, because dbus-daemon names the path of a program that it could not execute. */
function withoutPaths(text: string): string {
  return sanitizeMessage(text).replaceAll(/\/[^\s"':,]+/g, "…");
}
