import { createTimeLimit } from "../base/time-limit.ts";
import { BusConnection, type BusReceiver, noAnswerError } from "./bus-connection.ts";
import type { BusTransport } from "./bus-transport.ts";
import { closeFds } from "./descriptors.ts";
import { openFdTransport } from "./fd-transport.ts";
import { messageTypes } from "./outgoing-message.ts";
import { openPlainTransport } from "./plain-transport.ts";
import { BusCallError, type SessionBus } from "./port.ts";
import { parseSocketPaths } from "./session-bus-address.ts";
import { SignalSubscriptions } from "./signal-subscriptions.ts";

/**
 * The longest body that a client accepts: the D-Bus limit for a message. A lower limit is not needed, because a client
 * receives large messages only from services that it calls, which it trusts.
 */
const BODY_BYTES_MAX = 128 * 2 ** 20;
const VALUES_MAX = 16 * 2 ** 20;
/** Time limit for the connection. A local bus normally answers within a millisecond. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface ConnectOptions {
  /** The D-Bus address of the bus, such as unix:path=/run/user/1000/bus; see `sessionBusAddress`. */
  readonly address: string;
  /**
   * If true, descriptors can be sent and received. This needs the package koffi, which is loaded only in this case.
   * Rejects with BusCallError `NotSupported` if koffi is missing or the bus does not pass descriptors.
   */
  readonly negotiateFds: boolean;
  /** The user id with which the connection authenticates; default: the real user id of this process. */
  readonly uid?: number;
  readonly signal?: AbortSignal;
}

/**
 * Connects to a session bus as a client. Rejects with BusCallError: `NoServer` if no bus listens, `BadAddress`,
 * `AuthFailed`, `NotSupported`, `NoReply` after ten seconds.
 */
export async function connectSessionBus(options: ConnectOptions): Promise<SessionBus> {
  const subscriptions = new SignalSubscriptions();
  const open = await openConnection({
    ...options,
    receiver: {
      onCall: ({ frame, fds }, connection) => {
        closeFds(fds);
        connection.send({
          type: messageTypes.error,
          replySerial: frame.serial,
          destination: frame.sender,
          errorName: "org.freedesktop.DBus.Error.UnknownObject",
          signature: "s",
          args: ["this connection has no objects"],
        });
      },
      onSignal: (frame, connection) => subscriptions.onSignal(frame, connection),
    },
    bodyBytesMax: BODY_BYTES_MAX,
    valuesMax: VALUES_MAX,
  });
  subscriptions.start(open);
  return {
    uniqueName: open.uniqueName,
    closed: open.closed,
    call: (method, callOptions) => open.call(method, callOptions),
    onSignal: (rule, listener) => subscriptions.add(rule, listener),
    [Symbol.asyncDispose]: () => open[Symbol.asyncDispose](),
  };
}

/** Opens a connection that also receives method calls. Rejects like `connectSessionBus`. */
export async function openConnection(
  options: ConnectOptions & {
    readonly receiver: BusReceiver;
    readonly bodyBytesMax: number;
    readonly valuesMax: number;
  },
): Promise<BusConnection> {
  const signal = options.signal ?? new AbortController().signal;
  const startedAt = performance.now();
  const transport = await openFirstTransport(options.address, options.negotiateFds, signal);
  return await BusConnection.open({
    transport,
    receiver: options.receiver,
    uid: options.uid ?? process.getuid?.() ?? 0,
    bodyBytesMax: options.bodyBytesMax,
    valuesMax: options.valuesMax,
    signal,
    timeoutMs: Math.max(1, CONNECT_TIMEOUT_MS - Math.round(performance.now() - startedAt)),
  });
}

async function openFirstTransport(
  address: string,
  negotiateFds: boolean,
  signal: AbortSignal,
): Promise<BusTransport> {
  let failure: unknown;
  using limit = createTimeLimit(signal, CONNECT_TIMEOUT_MS);
  for (const path of parseSocketPaths(address)) {
    try {
      return await (negotiateFds ? openFdTransport(path, limit.signal) : openPlainTransport(path));
    } catch (error) {
      if (error instanceof BusCallError) throw error;
      signal.throwIfAborted();
      if (limit.signal.aborted) throw noAnswerError(CONNECT_TIMEOUT_MS);
      failure = error;
    }
  }
  const refused = new BusCallError(
    "org.freedesktop.DBus.Error.NoServer",
    "no session bus answers at its address: log in to a desktop, or start the program with dbus-run-session",
  );
  refused.cause = failure;
  throw refused;
}
