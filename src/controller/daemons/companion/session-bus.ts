import { sessionBusAddress } from "../../../dbus/address.ts";
import { connectSessionBus } from "../../../dbus/connect.ts";
import {
  BusCallError,
  type BusMethodCall,
  type BusValue,
  type SessionBus,
} from "../../../dbus/port.ts";
import type { CompanionSight, OpenPersonBus, PersonBus } from "./port.ts";

/** Of the companion's names the one that it takes last. */
const NAME = "dev.assistant.Overlay1";
const BUS = "org.freedesktop.DBus";
const BUS_PATH = "/org/freedesktop/DBus";
const ANSWER_MS_MAX = 10_000;
/** A companion answers from memory; one that hangs is no reason to wait for long. */
const STATUS_MS_MAX = 2_000;
/** What systemd waits for a unit to be up. */
const START_MS_MAX = 90_000;

/** Undefined where the environment names no session bus, which does not change. */
export function personBusOf(
  environment: Readonly<Record<string, string | undefined>>,
): OpenPersonBus | undefined {
  const address = sessionBusAddress(environment);
  if (address === undefined) return undefined;
  return (onChange, signal) => openBusOf(address, onChange, signal);
}

async function openBusOf(
  address: string,
  onChange: () => void,
  signal: AbortSignal,
): Promise<PersonBus | undefined> {
  let bus: SessionBus | undefined;
  try {
    bus = await connectSessionBus({ address, negotiateFds: false, signal });
    const names = new BusNames(bus, onChange);
    if (await names.isOurs(signal)) {
      await names.follow();
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

class BusNames implements PersonBus {
  readonly #bus: SessionBus;
  readonly #onChange: () => void;
  #isLost = false;

  constructor(bus: SessionBus, onChange: () => void) {
    this.#bus = bus;
    this.#onChange = onChange;
    void this.#hearOfLoss();
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Some buses let root in, who is not the person. */
  async isOurs(signal: AbortSignal): Promise<boolean> {
    const [uid] = await this.#ask("GetConnectionUnixUser", [BUS], signal);
    return uid === process.getuid?.();
  }

  /** Begins to tell of changes. */
  async follow(): Promise<void> {
    const rule = { path: BUS_PATH, interface: BUS, sender: BUS };
    await this.#bus.onSignal({ ...rule, member: "NameOwnerChanged" }, ({ args }) => {
      if (args[0] === NAME) this.#onChange();
    });
    await this.#bus.onSignal({ ...rule, member: "ActivatableServicesChanged" }, this.#onChange);
  }

  async look(signal: AbortSignal): Promise<CompanionSight> {
    const [names] = await this.#ask("ListActivatableNames", [], signal);
    const isInstalled = Array.isArray(names) && names.includes(NAME);
    const connection = await this.#ifOwned(() => this.#ask("GetNameOwner", [NAME], signal));
    if (typeof connection !== "string") return { owner: undefined, isInstalled };
    const pid = await this.#ifOwned(() =>
      this.#ask("GetConnectionUnixProcessID", [connection], signal),
    );
    const url = await this.#urlOf(connection, signal);
    return { owner: { pid: typeof pid === "number" ? pid : null, url }, isInstalled };
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#bus.call(toBus("StartServiceByName", "su", [NAME, 0]), {
      signal,
      timeoutMs: START_MS_MAX,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus[Symbol.asyncDispose]();
  }

  async #hearOfLoss(): Promise<void> {
    await this.#bus.closed;
    this.#isLost = true;
    this.#onChange();
  }

  /** By its connection, since a call by its name would start one where it has just gone. */
  async #urlOf(destination: string, signal: AbortSignal): Promise<string | null> {
    const method = { path: "/dev/assistant/Overlay1", interface: NAME, member: "GetStatus" };
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

  /** What the bus answers; undefined where it says that nobody is there. */
  async #ifOwned(ask: () => Promise<readonly BusValue[]>): Promise<BusValue | undefined> {
    try {
      return (await ask())[0];
    } catch (error) {
      if (error instanceof BusCallError && error.busName.endsWith(".NameHasNoOwner"))
        return undefined;
      throw error;
    }
  }

  #ask(member: string, args: readonly string[], signal: AbortSignal): Promise<readonly BusValue[]> {
    const method = toBus(member, "s".repeat(args.length), args);
    return this.#bus.call(method, { signal, timeoutMs: ANSWER_MS_MAX });
  }
}

function toBus(member: string, signature: string, args: readonly BusValue[]): BusMethodCall {
  return { destination: BUS, path: BUS_PATH, interface: BUS, member, signature, args };
}
