import { readFile } from "node:fs/promises";
import { untilAborted } from "../../base/aborting.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { timeLimit } from "../../base/time-limit.ts";
import { openConnection } from "../../dbus/connect.ts";
import type { BusConnection } from "../../dbus/connection.ts";
import type { Frame } from "../../dbus/frame-reader.ts";
import { messageTypes } from "../../dbus/outgoing-message.ts";
import { textOf } from "../../dbus/values.ts";
import type { Caller } from "../caller.ts";
import { AssistantError } from "../errors.ts";
import { BUS_NAME, BUS_PATH, callTheBus } from "./bus-calls.ts";
import { identify } from "./identity/caller-identity.ts";
import { ConnectionTimes } from "./identity/connection-times.ts";
import { ProcessFiles } from "./identity/process-files.ts";
import type { InterfaceDescription } from "./interface-file.ts";
import { readInterfaces } from "./interface-files.ts";
import { ObjectTree } from "./object-tree.ts";
import { Peer, type PeerLimits } from "./peers.ts";
import type { Bus, BusSignal, ServedInterface } from "./port.ts";
import { Router } from "./router.ts";

/** As much as the HTTP endpoint takes. */
const BODY_BYTES_MAX = 4 * 2 ** 20;
/** Read in about 50 ms. Texts to embed and options are far fewer. */
const VALUES_MAX = 128 * 1024;
/** A person, or a program that does a person's work, stays far below; a loop without a pause does not. */
const limits: PeerLimits = {
  calls: { burst: 400, perSecond: 200 },
  runningMax: 64,
  heldBytesMax: 32 * 2 ** 20,
};
/** How long calls that are under way may take to end, once they have been told to. */
const ENDING_MS = 2_000;

const DO_NOT_QUEUE = 4;
const PRIMARY_OWNER = 1;
const ALREADY_OWNER = 4;

export interface OpenBusOptions {
  /** As `sessionBusAddress` has it. */
  readonly address: string;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** Of who may call; undefined: the user that this process runs as. */
  readonly uid?: number;
  /** Undefined: that of the machine. */
  readonly processFiles?: ProcessFiles;
  readonly limits?: PeerLimits;
}

/** The session bus as a daemon has it: names, objects, and whoever calls. */
export interface OpenBus extends Bus, AsyncDisposable {
  /** `:1.42`. */
  readonly uniqueName: string;
  /** Resolves when the connection is lost or was closed. Everything under way has been aborted then. */
  readonly closed: Promise<void>;
  /** Rejects with an AssistantError `busy` where another program has the name. Serve first. */
  requestName(name: string): Promise<void>;
  /**
   * Who a connection is that is called, and may never call. Rejects with BusFault `AccessDenied` for another user's
   * and for one that cannot be looked at, with BusCallError where the bus does not answer.
   */
  identityOf(connection: string): Promise<Caller>;
}

/**
 * Connects the daemon. Rejects with BusCallError as `connectSessionBus` does: `NoServer`, `NotSupported`
 * where descriptors cannot be passed.
 */
export async function openBus(options: OpenBusOptions): Promise<OpenBus> {
  const bus = new ServingBus(options);
  await bus.connect(options);
  return bus;
}

class ServingBus implements OpenBus {
  readonly closed: Promise<void>;
  readonly #interfaces: ReadonlyMap<string, InterfaceDescription>;
  readonly #objects = new ObjectTree();
  readonly #peers = new Map<string, Peer>();
  readonly #times = new ConnectionTimes();
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #router: Router;
  readonly #options: OpenBusOptions;
  readonly #ending = new AbortController();
  #connection: BusConnection | undefined;
  #onClosed: () => void = () => {};

  constructor(options: OpenBusOptions) {
    this.#options = options;
    this.#interfaces = readInterfaces();
    this.#router = new Router({
      objects: this.#objects,
      peerOf: (connection) => this.#peerOf(connection),
      machineId: readMachineId,
      logger: options.logger,
    });
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
  }

  async connect(options: OpenBusOptions): Promise<void> {
    const connection = await openConnection({
      address: options.address,
      negotiateFds: true,
      bodyBytesMax: BODY_BYTES_MAX,
      valuesMax: VALUES_MAX,
      ...(options.signal ? { signal: options.signal } : {}),
      receiver: {
        onCall: (call, bus) => {
          // Who watches the bus may call before this has heard that it is connected.
          this.#connection ??= bus;
          this.#router.onCall(call, bus);
        },
        onSignal: (frame, bus) => this.#onSignal(frame, bus),
      },
    });
    this.#connection = connection;
    void this.#untilLost(connection);
    // One rule for everybody who leaves: one for each caller would cost a question before each first answer.
    const rule = `type='signal',sender='${BUS_NAME}',path='${BUS_PATH}',interface='${BUS_NAME}',member='NameOwnerChanged'`;
    for (const who of ["arg1=''", "arg2=''"])
      await callTheBus(connection, "AddMatch", [`${rule},${who}`], this.#ending.signal);
    this.#times.watched();
  }

  get uniqueName(): string {
    return this.#open().uniqueName;
  }

  async requestName(name: string): Promise<void> {
    const [answer] = await callTheBus(
      this.#open(),
      "RequestName",
      [name, DO_NOT_QUEUE],
      this.#ending.signal,
    );
    if (answer === PRIMARY_OWNER || answer === ALREADY_OWNER) return;
    throw new AssistantError(
      "busy",
      `another program has the name ${name} on the session bus: a companion of this user is running already`,
    );
  }

  async identityOf(connection: string): Promise<Caller> {
    return await (this.#peers.get(connection)?.caller() ??
      this.#identify(connection, this.#ending.signal));
  }

  serve(path: string, served: ServedInterface): () => void {
    const description = this.#interfaces.get(served.name);
    if (!description) throw new TypeError(`no file describes the interface ${served.name}`);
    for (const kind of ["methods", "properties"] as const) {
      const described = [...description[kind].keys()].toSorted();
      const implemented = Object.keys(served[kind]).toSorted();
      if (described.join() !== implemented.join()) {
        throw new TypeError(
          `${served.name} has the ${kind} ${described.join(", ")}, and not ${implemented.join(", ")}`,
        );
      }
    }
    return this.#objects.add(path, { description, served });
  }

  emit(signal: BusSignal, to: string | undefined): void {
    try {
      const signature = this.#interfaces.get(signal.interface)?.signals.get(signal.name);
      if (signature === undefined) throw new TypeError("no file describes the signal");
      this.#open().send({
        type: messageTypes.signal,
        path: signal.path,
        interface: signal.interface,
        member: signal.name,
        destination: to,
        signature,
        args: signal.args,
      });
    } catch (error) {
      this.#options.logger.error(
        { err: error, interface: signal.interface, name: signal.name },
        "a signal could not be sent",
      );
    }
  }

  whenGone(connection: string, callback: () => void): () => void {
    const watchers = this.#watchers.get(connection) ?? new Set();
    this.#watchers.set(connection, watchers);
    const watcher = () => callback();
    watchers.add(watcher);
    if (this.#ending.signal.aborted) queueMicrotask(() => this.#onGone(connection));
    else if (!this.#peers.has(connection)) void this.#lookFor(connection);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(connection) === watchers) {
        this.#watchers.delete(connection);
      }
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end(new DOMException("the companion is ending", "AbortError"));
    using limit = timeLimit(new AbortController().signal, ENDING_MS);
    await untilAborted(this.#router.settled(), limit.signal).catch(() => {}); // they had their time
    await this.#connection?.[Symbol.asyncDispose]();
  }

  #open(): BusConnection {
    if (!this.#connection) throw new TypeError("the bus is not connected");
    return this.#connection;
  }

  #peerOf(connection: string): Peer {
    const known = this.#peers.get(connection);
    if (known) return known;
    const peer = new Peer({
      connection,
      limits: this.#options.limits ?? limits,
      clock: this.#options.clock,
      identify: (signal) => this.#identify(connection, signal),
    });
    if (this.#ending.signal.aborted) peer.leave(reasonOf(this.#ending.signal));
    else this.#peers.set(connection, peer);
    return peer;
  }

  #identify(connection: string, signal: AbortSignal): Promise<Caller> {
    const { processFiles: files = new ProcessFiles(), uid = process.getuid?.() ?? 0 } =
      this.#options;
    return identify(connection, { bus: this.#open(), files, times: this.#times, uid, signal });
  }

  async #untilLost(connection: BusConnection): Promise<void> {
    await connection.closed;
    const err = connection.lossError;
    if (err) this.#options.logger.warn({ err }, "the connection to the session bus has failed");
    this.#end(new DOMException("the session bus was lost", "AbortError"));
    this.#onClosed();
  }

  #onSignal(frame: Frame, bus: BusConnection): void {
    const isFromBus = frame.sender === BUS_NAME && frame.interface === BUS_NAME;
    if (!isFromBus || frame.member !== "NameOwnerChanged" || frame.signature !== "sss") return;
    const [name, , owner] = bus.read(frame, []);
    const connection = textOf(name);
    if (owner === "") this.#onGone(connection);
    else if (owner === connection) this.#times.came(connection);
  }

  #onGone(connection: string): void {
    this.#times.left(connection);
    this.#peers.get(connection)?.leave(new DOMException("the caller has gone", "AbortError"));
    this.#peers.delete(connection);
    const watchers = this.#watchers.get(connection) ?? [];
    this.#watchers.delete(connection);
    for (const watcher of watchers) {
      try {
        watcher();
      } catch (error) {
        this.#options.logger.error({ err: error }, "releasing what a connection had failed");
      }
    }
  }

  /** For a connection that has never called: it may have left before anybody asked for it. */
  async #lookFor(connection: string): Promise<void> {
    try {
      const { signal } = this.#ending;
      const [isThere] = await callTheBus(this.#open(), "NameHasOwner", [connection], signal);
      if (isThere === false) this.#onGone(connection);
    } catch {
      // The bus is lost or left, and with it goes everybody.
    }
  }

  #end(reason: Error): void {
    this.#ending.abort(reason);
    for (const peer of this.#peers.values()) peer.leave(reason);
    this.#peers.clear();
    for (const connection of this.#watchers.keys()) this.#onGone(connection);
  }
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error("it is ending");
}

/** Of the machine, or of the D-Bus that was there before systemd. */
async function readMachineId(): Promise<string> {
  for (const file of ["/etc/machine-id", "/var/lib/dbus/machine-id"]) {
    const text = (await readFile(file, "utf8").catch(() => "")).trim();
    if (/^[0-9a-f]{32}$/.test(text)) return text;
  }
  throw new Error("the machine has no id");
}
