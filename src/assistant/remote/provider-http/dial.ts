import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, type SecureContext } from "node:tls";
import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { ProviderAddresses } from "../address/provider-addresses.ts";
import type { AddressClass } from "../port.ts";

/** The destination of a connection: the host, the port, the expected class of its address, and whether TLS is used. */
export interface DialTarget {
  readonly isEncrypted: boolean;
  /** The host: a name, or an IP address without brackets. */
  readonly host: string;
  readonly port: number;
  /**
   * The class of the provider's address (public, loopback or private) when the provider was added. Connections to an
   * address of another class are refused.
   */
  readonly pinned: AddressClass;
}

export interface DialDependencies {
  readonly addresses: ProviderAddresses;
  readonly clock: Clock;
  readonly trust: SecureContext;
}

/** The time limit for resolving the name, trying all addresses, and the TLS handshake. */
const CONNECT_MS_MAX = 10_000;
/** The time after which the host's next address is tried. Node's default of 250 ms is too short for distant servers. */
const NEXT_ADDRESS_MS = 1_000;

/**
 * Connects to `target`, so that the socket is ready for the first request. Uses one of the addresses that were just
 * checked, never the result of another lookup. Rejects with AssistantError `unreachable`, with errors of the connection
 * and of TLS, and with the signal's reason.
 */
export async function dial(
  target: DialTarget,
  { addresses, clock, trust }: DialDependencies,
  signal: AbortSignal,
): Promise<Socket> {
  const limit = new AbortController();
  const stop = () => limit.abort(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  const stopTimer = clock.setTimer(CONNECT_MS_MAX, () => limit.abort(dialTimeoutError()));
  try {
    const { host, port, pinned } = target;
    const checked = await addresses.resolveConnectable({ host, port }, pinned, limit.signal);
    return await connectSocket(target, checked, trust, limit.signal);
  } finally {
    stopTimer();
    signal.removeEventListener("abort", stop);
  }
}

function connectSocket(
  target: DialTarget,
  checked: readonly string[],
  trust: SecureContext,
  signal: AbortSignal,
): Promise<Socket> {
  const { host, port, isEncrypted } = target;
  const options = {
    host,
    port,
    // `lookup` returns the addresses that were checked. Node does not call `lookup` if `host` is an IP address, but
    // then that address itself was checked.
    lookup: createLookup(checked),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    noDelay: true,
    keepAlive: true,
  };
  const socket = isEncrypted
    ? connectTls({
        ...options,
        secureContext: trust,
        // SNI can only contain a name. For an IP address, the certificate is checked without SNI.
        servername: isIP(host) === 0 ? host : "",
        // The verification of certificates is switched on explicitly, because NODE_TLS_REJECT_UNAUTHORIZED would change
        // the default.
        rejectUnauthorized: true,
        ALPNProtocols: ["http/1.1"],
      })
    : connect(options);
  return new Promise((resolve, reject) => {
    const onAbort = () => socket.destroy();
    const over = () => {
      signal.removeEventListener("abort", onAbort);
      socket.off("error", onError).off("close", onClose);
    };
    const onError = (error: Error) => {
      over();
      // The promise is rejected with the first error, so later errors of this socket are ignored.
      socket.on("error", () => {}).destroy();
      reject(error);
    };
    const onClose = () => {
      over();
      reject(
        signal.aborted
          ? signal.reason
          : new AssistantError("unreachable", "the provider closed the connection"),
      );
    };
    socket.once(isEncrypted ? "secureConnect" : "connect", () => {
      over();
      resolve(socket);
    });
    socket.on("error", onError).on("close", onClose);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}

function createLookup(checked: readonly string[]): LookupFunction {
  const all = checked.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, callback) => {
    const [first] = all;
    if (options.all === true) callback(null, [...all]);
    else callback(null, first?.address ?? "", first?.family);
  };
}

function dialTimeoutError(): AssistantError {
  return new AssistantError(
    "unreachable",
    `the provider does not answer within ${CONNECT_MS_MAX / 1000} s`,
  );
}
