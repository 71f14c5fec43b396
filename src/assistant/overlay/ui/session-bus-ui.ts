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

/** A window that is alive answers at once. */
const TIMEOUT_MS = 2_000;

/**
 * The frontend that has the name `dev.assistant.Overlay1.UI`. It is called by its connection's own name, which
 * the bus starts nobody for, whatever activation files there are.
 */
export class SessionBusUi implements OverlayUi {
  readonly #bus: SessionBus;
  readonly #identifyConnection: (connection: string) => Promise<Caller>;
  /** The last owner of the name that may: no other connection will ever be called the same. */
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
      // Nobody has it, or nobody knows who that is; or the bus is lost, and with it everybody.
      return undefined;
    }
  }

  /** Whoever is the frontend sees what everybody asks, and what was found for it: no app in a sandbox is. */
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
    throw new AssistantError("bad_response", "the frontend does not say whether it is visible");
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

/** What a frontend says of its failure stays with it: it may hold anything. */
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
    `no frontend is there: start a program that takes the name ${NAME}`,
  );
}
