import { connectSessionBus } from "../../../dbus/connect-session-bus.ts";
import {
  BusCallError,
  type BusMethodCall,
  type BusValue,
  type SessionBus,
} from "../../../dbus/port.ts";
import { sessionBusAddress } from "../../../dbus/session-bus-address.ts";
import type { CompanionBus, CompanionObservation, OpenCompanionBus } from "./port.ts";

/**
 * The bus name that the companion requests after its other names. Once this name has an owner, the companion owns all
 * of them.
 */
const COMPANION_NAME = "dev.assistant.Overlay1";
const BUS_NAME = "org.freedesktop.DBus";
const BUS_PATH = "/org/freedesktop/DBus";
const ANSWER_MS_MAX = 10_000;
/**
 * The time limit for the companion's status. A companion answers from memory, so a longer wait means that it hangs.
 */
const STATUS_MS_MAX = 2_000;
/** The time limit for the start of the companion, which is the default start timeout of a systemd unit. */
const START_MS_MAX = 90_000;

/**
 * Returns a function that connects to the session bus. Returns undefined, which is final, if the environment names no
 * bus.
 */
export function createBusOpener(
  environment: Readonly<Record<string, string | undefined>>,
): OpenCompanionBus | undefined {
  const address = sessionBusAddress(environment);
  if (address === undefined) return undefined;
  return (onChange, signal) => openCompanionBus(address, onChange, signal);
}

async function openCompanionBus(
  address: string,
  onChange: () => void,
  signal: AbortSignal,
): Promise<CompanionBus | undefined> {
  let bus: SessionBus | undefined;
  try {
    bus = await connectSessionBus({ address, negotiateFds: false, signal });
    const names = new SessionCompanionBus(bus, onChange);
    if (await names.isOwnUser(signal)) {
      await names.subscribe();
      return names;
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof BusCallError)) {
      await bus?.[Symbol.asyncDispose]();
      throw error;
    }
  }
  await bus?.[Symbol.asyncDispose]();
  return undefined;
}

class SessionCompanionBus implements CompanionBus {
  readonly #bus: SessionBus;
  readonly #onChange: () => void;
  #isLost = false;

  constructor(bus: SessionBus, onChange: () => void) {
    this.#bus = bus;
    this.#onChange = onChange;
    void this.#awaitLoss();
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** True if the bus belongs to this user. Some buses accept root, who is not the user of the session. */
  async isOwnUser(signal: AbortSignal): Promise<boolean> {
    const [uid] = await this.#callBus("GetConnectionUnixUser", [BUS_NAME], signal);
    return uid === process.getuid?.();
  }

  /** Calls `onChange` from now on when the companion's names change. */
  async subscribe(): Promise<void> {
    const rule = { path: BUS_PATH, interface: BUS_NAME, sender: BUS_NAME };
    await this.#bus.onSignal({ ...rule, member: "NameOwnerChanged" }, ({ args }) => {
      if (args[0] === COMPANION_NAME) this.#onChange();
    });
    await this.#bus.onSignal({ ...rule, member: "ActivatableServicesChanged" }, this.#onChange);
  }

  async observe(signal: AbortSignal): Promise<CompanionObservation> {
    const [names] = await this.#callBus("ListActivatableNames", [], signal);
    const isInstalled = Array.isArray(names) && names.includes(COMPANION_NAME);
    const connection = await this.#valueIfOwned(() =>
      this.#callBus("GetNameOwner", [COMPANION_NAME], signal),
    );
    if (typeof connection !== "string") return { owner: undefined, isInstalled };
    const pid = await this.#valueIfOwned(() =>
      this.#callBus("GetConnectionUnixProcessID", [connection], signal),
    );
    const url = await this.#queryUrl(connection, signal);
    return { owner: { pid: typeof pid === "number" ? pid : null, url }, isInstalled };
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#bus.call(buildBusCall("StartServiceByName", "su", [COMPANION_NAME, 0]), {
      signal,
      timeoutMs: START_MS_MAX,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus[Symbol.asyncDispose]();
  }

  async #awaitLoss(): Promise<void> {
    await this.#bus.closed;
    this.#isLost = true;
    this.#onChange();
  }

  /**
   * Returns the URL at which the companion answers; null if it reports none. Calls the connection that owns the
   * companion's name: a call to the name itself would restart a companion that has just ended.
   */
  async #queryUrl(destination: string, signal: AbortSignal): Promise<string | null> {
    const method = {
      path: "/dev/assistant/Overlay1",
      interface: COMPANION_NAME,
      member: "GetStatus",
    };
    try {
      const [status] = await this.#bus.call(
        { ...method, destination, signature: "", args: [] },
        { signal, timeoutMs: STATUS_MS_MAX },
      );
      const port = status instanceof Map ? status.get("http_port")?.value : undefined;
      return typeof port === "number" && port > 0 ? `http://127.0.0.1:${port}` : null;
    } catch (error) {
      if (signal.aborted || this.#isLost) throw error;
      return null;
    }
  }

  /**
   * Calls `ask`, a method call to the bus about a bus name. Returns the first value of the reply; undefined if the name
   * has no owner.
   */
  async #valueIfOwned(ask: () => Promise<readonly BusValue[]>): Promise<BusValue | undefined> {
    try {
      return (await ask())[0];
    } catch (error) {
      if (error instanceof BusCallError && error.busName.endsWith(".NameHasNoOwner"))
        return undefined;
      throw error;
    }
  }

  #callBus(
    member: string,
    args: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly BusValue[]> {
    const method = buildBusCall(member, "s".repeat(args.length), args);
    return this.#bus.call(method, { signal, timeoutMs: ANSWER_MS_MAX });
  }
}

function buildBusCall(member: string, signature: string, args: readonly BusValue[]): BusMethodCall {
  return { destination: BUS_NAME, path: BUS_PATH, interface: BUS_NAME, member, signature, args };
}
