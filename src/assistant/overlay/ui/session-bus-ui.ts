import {
  BusCallError,
  type BusValue,
  type BusVariant,
  type SessionBus,
} from "../../../dbus/port.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { OverlayUi, SummonOptions } from "./port.ts";

const NAME = "dev.assistant.Overlay1.UI";
const PATH = "/dev/assistant/Overlay1/UI";
const BUS = "org.freedesktop.DBus";

/** Time limit for an answer of the frontend. A responsive frontend answers at once. */
const TIMEOUT_MS = 2_000;

/**
 * The frontend that owns the name `dev.assistant.Overlay1.UI`. Its methods are called through its unique connection
 * name, so that the bus does not start a program through activation files.
 */
export class SessionBusUi implements OverlayUi {
  readonly #bus: SessionBus;
  readonly #identifyConnection: (connection: string) => Promise<Caller>;
  /**
   * The last trusted connection that owned the frontend's bus name. The bus never reuses a connection name, so the
   * connection is not checked again.
   */
  #trustedOwner: string | undefined;

  constructor(bus: SessionBus, identityOf: (connection: string) => Promise<Caller>) {
    this.#bus = bus;
    this.#identifyConnection = identityOf;
  }

  async connection(signal: AbortSignal): Promise<string | undefined> {
    const method = { destination: BUS, path: "/org/freedesktop/DBus", interface: BUS };
    try {
      const [owner] = await this.#bus.call(
        { ...method, member: "GetNameOwner", signature: "s", args: [NAME] },
        { signal, timeoutMs: TIMEOUT_MS },
      );
      if (typeof owner !== "string") return undefined;
      if (owner !== this.#trustedOwner && !(await this.#isTrusted(owner))) return undefined;
      this.#trustedOwner = owner;
      return owner;
    } catch {
      // The frontend's name has no owner, the owner cannot be identified, or the bus connection is lost.
      return undefined;
    }
  }

  /**
   * Returns true if the connection may be the frontend. A frontend sees all questions and the data found for them, so
   * a sandboxed app is refused.
   */
  async #isTrusted(connection: string): Promise<boolean> {
    return sandboxedApp(await this.#identifyConnection(connection)) === undefined;
  }

  async summon(prompt: string, { queryId }: SummonOptions, signal: AbortSignal): Promise<void> {
    const options = new Map<string, BusVariant>();
    if (queryId !== undefined) options.set("query_id", { signature: "t", value: BigInt(queryId) });
    await this.#call("Summon", "sa{sv}", [prompt, options], signal);
  }

  async hide(signal: AbortSignal): Promise<void> {
    await this.#call("Hide", "", [], signal);
  }

  async isVisible(signal: AbortSignal): Promise<boolean> {
    const [isVisible] = await this.#call("GetVisible", "", [], signal);
    if (typeof isVisible === "boolean") return isVisible;
    throw new AssistantError("bad_response", "the frontend did not report if it is visible");
  }

  async #call(
    member: string,
    signature: string,
    args: readonly BusValue[],
    signal: AbortSignal,
  ): Promise<readonly BusValue[]> {
    const destination = await this.connection(signal);
    if (destination === undefined) throw noFrontendError();
    const method = { destination, path: PATH, interface: NAME };
    try {
      return await this.#bus.call(
        { ...method, member, signature, args },
        { signal, timeoutMs: TIMEOUT_MS },
      );
    } catch (error) {
      if (!(error instanceof BusCallError)) throw error;
      throw toFrontendError(error, member);
    }
  }
}

/**
 * Converts the bus error of a method call to the frontend. The frontend's own error text is left out, because it may
 * contain anything.
 */
function toFrontendError(cause: BusCallError, member: string): AssistantError {
  if (cause.busName === `${BUS}.Error.ServiceUnknown`) return noFrontendError();
  if (cause.busName === `${BUS}.Error.NoReply`) {
    const seconds = TIMEOUT_MS / 1_000;
    return new AssistantError(
      "timeout",
      `the frontend did not answer ${member} within ${seconds} seconds`,
      { cause },
    );
  }
  return new AssistantError("bad_response", `the frontend refused ${member}`, { cause });
}

function noFrontendError(): AssistantError {
  return new AssistantError(
    "not_found",
    `there is no frontend: start a program that owns the name ${NAME}`,
  );
}
