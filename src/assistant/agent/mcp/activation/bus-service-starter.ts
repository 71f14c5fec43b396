import { type Clock, delay } from "../../../../base/clock.ts";
import { BusCallError, type SessionBus } from "../../../../dbus/port.ts";
import { ToolAppError } from "../../tool-apps.ts";
import { sanitizeMessage } from "../sanitize-message.ts";
import type { AppStarter } from "./port.ts";

const BUS = "org.freedesktop.DBus";

/** Reply of StartServiceByName if another connection already owns the name. */
const ALREADY_RUNNING = 2;
/** The bus notices within milliseconds that an app has died, but not always before the next start request. */
const ALREADY_RUNNING_RETRY_MS = 200;

/** The rule of the D-Bus specification for well-known names: two parts or more, none of which begins with a digit. */
const busNamePattern = /^[A-Za-z_-][A-Za-z0-9_-]*(\.[A-Za-z_-][A-Za-z0-9_-]*)+$/;
const BUS_NAME_LENGTH_MAX = 255;

/**
 * Starts an app as the session bus service whose name is the app id. The bus replies when the app owns that name,
 * which may be later than its socket appears, or never.
 */
export class BusServiceStarter implements AppStarter {
  readonly #bus: () => SessionBus | undefined;
  readonly #clock: Clock;
  readonly #timeoutMs: number;

  /** `bus` returns the current connection; undefined while there is none. */
  constructor(options: {
    readonly bus: () => SessionBus | undefined;
    readonly clock: Clock;
    readonly timeoutMs: number;
  }) {
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#timeoutMs = options.timeoutMs;
  }

  async start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown"> {
    const bus = this.#bus();
    if (!bus || appId.length > BUS_NAME_LENGTH_MAX || !busNamePattern.test(appId)) return "unknown";
    try {
      // The caller aborts this loop when the socket appears. An app that owns the name without a socket may be
      // exiting.
      while ((await this.#requestStart(bus, appId, signal)) === ALREADY_RUNNING) {
        await delay(this.#clock, ALREADY_RUNNING_RETRY_MS, signal);
      }
    } catch (error) {
      if (!(error instanceof BusCallError)) throw error;
      if (error.busName === `${BUS}.Error.ServiceUnknown`) return "unknown";
      // The socket may still appear; the caller waits for it and decides.
      if (error.busName === `${BUS}.Error.NoReply`) return "asked";
      throw new ToolAppError(
        "app_unavailable",
        `the session bus could not start ${appId}: ${withoutPaths(error.message)}`,
        { cause: error },
      );
    }
    return "asked";
  }

  async #requestStart(bus: SessionBus, appId: string, signal: AbortSignal): Promise<unknown> {
    const [reply] = await bus.call(
      {
        destination: BUS,
        path: "/org/freedesktop/DBus",
        interface: BUS,
        member: "StartServiceByName",
        signature: "su",
        args: [appId, 0],
      },
      { signal, timeoutMs: this.#timeoutMs },
    );
    return reply;
  }
}

/** dbus-daemon reports the path of a program that it could not execute. */
function withoutPaths(text: string): string {
  return sanitizeMessage(text).replaceAll(/\/[^\s"':,]+/g, "…");
}
