import { readFile } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { BusConnection } from "../../dbus/bus-connection.ts";
import { toText } from "../../dbus/bus-values.ts";
import { openConnection } from "../../dbus/connect-session-bus.ts";
import type { Frame } from "../../dbus/frame-reader.ts";
import { messageTypes } from "../../dbus/outgoing-message.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Caller } from "../caller.ts";
import { BUS_NAME, BUS_PATH, callBusDaemon } from "./call-bus-daemon.ts";
import { type CallerLimits, SharedUsage } from "./caller-usage.ts";
import { ConnectionTimes } from "./identity/connection-times.ts";
import { identifyCaller } from "./identity/identify-caller.ts";
import { ProcessFiles } from "./identity/process-files.ts";
import { ObjectTree } from "./object-tree.ts";
import type { InterfaceDescription } from "./parse-interface-file.ts";
import { Peer } from "./peer.ts";
import type { Bus, BusSignal, ServedInterface } from "./port.ts";
import { readInterfaces } from "./read-interfaces.ts";
import { Router } from "./router.ts";

/** Longest body of a call, the same limit as that of the HTTP endpoint. */
const BODY_BYTES_MAX = 4 * 2 ** 20;
/**
 * The maximum number of values in the body of a call. Reading that many values takes about 50 ms; lists of texts and
 * options have far fewer values.
 */
const VALUES_MAX = 128 * 1024;
/** Default limits per connection and per sandboxed app. Interactive programs stay far below them; a loop without a pause exceeds them. */
const defaultCallerLimits: CallerLimits = {
  calls: { burst: 400, perSecond: 200 },
  runningMax: 64,
  heldBytesMax: 32 * 2 ** 20,
};
/** The time within which running calls must end after they were aborted. */
const SHUTDOWN_TIMEOUT_MS = 2_000;

const DO_NOT_QUEUE = 4;
const PRIMARY_OWNER = 1;
const ALREADY_OWNER = 4;

export interface OpenBusOptions {
  /** The D-Bus address of the session bus, as `sessionBusAddress` returns it. */
  readonly address: string;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** The user whose processes may call methods; defaults to the user of this process. */
  readonly uid?: number;
  /** Reads facts such as the start time and cgroup of a process; defaults to a reader of /proc. */
  readonly processFiles?: ProcessFiles;
  readonly limits?: CallerLimits;
}

/** A daemon's connection to the session bus: names, objects and callers. */
export interface OpenBus extends Bus, AsyncDisposable {
  /** The unique connection name, such as `:1.42`. */
  readonly uniqueName: string;
  /** Resolves when the connection is lost or was closed. All running calls have been aborted by then. */
  readonly closed: Promise<void>;
  /**
   * Requests a well-known name; call `serve` first. Rejects with AssistantError `busy` if another program owns the
   * name.
   */
  requestName(name: string): Promise<void>;
  /**
   * Identifies a connection that this process wants to call, even if that connection never calls this process. Rejects
   * with BusReplyError `AccessDenied` for a connection of another user and for a connection that cannot be identified,
   * and with BusCallError if the bus does not answer.
   */
  identifyConnection(connection: string): Promise<Caller>;
}

/**
 * Connects the daemon to the session bus. Rejects with BusCallError like `connectSessionBus`: `NoServer` if no bus
 * listens, or `NotSupported` if file descriptors cannot be passed.
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
  readonly #limits: CallerLimits;
  readonly #shared: SharedUsage;
  readonly #shutdown = new AbortController();
  #connection: BusConnection | undefined;
  #onClosed: () => void = () => {};

  constructor(options: OpenBusOptions) {
    this.#options = options;
    this.#limits = options.limits ?? defaultCallerLimits;
    this.#shared = new SharedUsage(this.#limits, options.clock);
    this.#interfaces = readInterfaces();
    this.#router = new Router({
      objects: this.#objects,
      getPeer: (connection) => this.#getPeer(connection),
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
          // A client that watches the bus may send a call before the promise of openConnection resolves, so the
          // connection is also set here.
          this.#connection ??= bus;
          this.#router.onCall(call, bus);
        },
        onSignal: (frame, bus) => this.#onSignal(frame, bus),
      },
    });
    this.#connection = connection;
    void this.#handleLoss(connection);
    // One match rule covers all disconnections; a rule per caller would delay each caller's first answer by a round
    // trip.
    const rule = `type='signal',sender='${BUS_NAME}',path='${BUS_PATH}',interface='${BUS_NAME}',member='NameOwnerChanged'`;
    for (const filter of ["arg1=''", "arg2=''"])
      await callBusDaemon(connection, "AddMatch", [`${rule},${filter}`], this.#shutdown.signal);
    this.#times.startRecording();
  }

  get uniqueName(): string {
    return this.#getConnection().uniqueName;
  }

  async requestName(name: string): Promise<void> {
    const [answer] = await callBusDaemon(
      this.#getConnection(),
      "RequestName",
      [name, DO_NOT_QUEUE],
      this.#shutdown.signal,
    );
    if (answer === PRIMARY_OWNER || answer === ALREADY_OWNER) return;
    throw new AssistantError(
      "busy",
      `another program owns the name ${name} on the session bus: a companion of this user is already running`,
    );
  }

  async identifyConnection(connection: string): Promise<Caller> {
    return await (this.#peers.get(connection)?.caller() ??
      this.#identify(connection, this.#shutdown.signal));
  }

  serve(path: string, served: ServedInterface): () => void {
    const description = this.#interfaces.get(served.name);
    if (!description) throw new TypeError(`no file describes the interface ${served.name}`);
    for (const kind of ["methods", "properties"] as const) {
      const described = [...description[kind].keys()].toSorted();
      const implemented = Object.keys(served[kind]).toSorted();
      if (described.join() !== implemented.join()) {
        throw new TypeError(
          `${served.name} must implement the ${kind} ${described.join(", ")}, but implements ${implemented.join(", ")}`,
        );
      }
    }
    return this.#objects.add(path, { description, served });
  }

  emit(signal: BusSignal, to: string | undefined): void {
    try {
      const signature = this.#interfaces.get(signal.interface)?.signals.get(signal.name);
      if (signature === undefined) throw new TypeError("no file describes the signal");
      this.#getConnection().send({
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

  onDisconnect(connection: string, callback: () => void): () => void {
    const watchers = this.#watchers.get(connection) ?? new Set();
    this.#watchers.set(connection, watchers);
    const watcher = () => callback();
    watchers.add(watcher);
    if (this.#shutdown.signal.aborted) queueMicrotask(() => this.#handleDisconnect(connection));
    else if (!this.#peers.has(connection)) void this.#checkPresence(connection);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(connection) === watchers) {
        this.#watchers.delete(connection);
      }
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#shutDown(new DOMException("the companion is shutting down", "AbortError"));
    using limit = createTimeLimit(new AbortController().signal, SHUTDOWN_TIMEOUT_MS);
    // Calls that are still running after the limit are ignored.
    await raceWithAbort(this.#router.waitUntilIdle(), limit.signal).catch(() => {});
    await this.#connection?.[Symbol.asyncDispose]();
  }

  #getConnection(): BusConnection {
    if (!this.#connection) throw new TypeError("the bus is not connected");
    return this.#connection;
  }

  #getPeer(connection: string): Peer {
    const known = this.#peers.get(connection);
    if (known) return known;
    const peer = new Peer({
      connection,
      limits: this.#limits,
      shared: this.#shared,
      clock: this.#options.clock,
      identify: (signal) => this.#identify(connection, signal),
    });
    if (this.#shutdown.signal.aborted) peer.disconnect(getAbortReason(this.#shutdown.signal));
    else this.#peers.set(connection, peer);
    return peer;
  }

  #identify(connection: string, signal: AbortSignal): Promise<Caller> {
    const { processFiles: files = new ProcessFiles(), uid = process.getuid?.() ?? 0 } =
      this.#options;
    return identifyCaller(connection, {
      bus: this.#getConnection(),
      files,
      times: this.#times,
      uid,
      signal,
    });
  }

  async #handleLoss(connection: BusConnection): Promise<void> {
    await connection.closed;
    const err = connection.lossError;
    if (err) this.#options.logger.warn({ err }, "the connection to the session bus failed");
    this.#shutDown(new DOMException("the session bus was lost", "AbortError"));
    this.#onClosed();
  }

  #onSignal(frame: Frame, bus: BusConnection): void {
    const isFromBus = frame.sender === BUS_NAME && frame.interface === BUS_NAME;
    if (!isFromBus || frame.member !== "NameOwnerChanged" || frame.signature !== "sss") return;
    const [name, , owner] = bus.read(frame, []);
    const connection = toText(name);
    if (owner === "") this.#handleDisconnect(connection);
    else if (owner === connection) this.#times.recordConnect(connection);
  }

  #handleDisconnect(connection: string): void {
    this.#times.recordDisconnect(connection);
    this.#peers
      .get(connection)
      ?.disconnect(new DOMException("the caller has disconnected", "AbortError"));
    this.#peers.delete(connection);
    const watchers = this.#watchers.get(connection) ?? [];
    this.#watchers.delete(connection);
    for (const watcher of watchers) {
      try {
        watcher();
      } catch (error) {
        this.#options.logger.error({ err: error }, "a disconnect callback failed");
      }
    }
  }

  /**
   * Checks if a connection that has called no method of this daemon is still on the bus. It may have disconnected
   * before `onDisconnect` was called.
   */
  async #checkPresence(connection: string): Promise<void> {
    try {
      const { signal } = this.#shutdown;
      const [isThere] = await callBusDaemon(
        this.#getConnection(),
        "NameHasOwner",
        [connection],
        signal,
      );
      if (isThere === false) this.#handleDisconnect(connection);
    } catch {
      // NameHasOwner fails only if the bus connection ends. The end of the bus connection already counts as the
      // disconnection of every caller.
    }
  }

  #shutDown(reason: Error): void {
    this.#shutdown.abort(reason);
    for (const peer of this.#peers.values()) peer.disconnect(reason);
    this.#peers.clear();
    for (const connection of this.#watchers.keys()) this.#handleDisconnect(connection);
  }
}

function getAbortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error
    ? signal.reason
    : new Error("the companion is shutting down");
}

/** Reads the machine id from systemd's file, or else from the older file of D-Bus. */
async function readMachineId(): Promise<string> {
  for (const file of ["/etc/machine-id", "/var/lib/dbus/machine-id"]) {
    const text = (await readFile(file, "utf8").catch(() => "")).trim();
    if (/^[0-9a-f]{32}$/.test(text)) return text;
  }
  throw new Error("the machine has no machine id");
}
