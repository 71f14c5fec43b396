import { type RequestListener, Server, type ServerOptions } from "node:http";
import { isIPv4, type Socket } from "node:net";
import { createServer as createTlsServer, type Server as TlsServer } from "node:tls";

/** A certificate chain and its key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** The first byte of every TLS connection: the type of the handshake record. */
const HANDSHAKE = 0x16;
/** The server drops a client that connects and sends nothing for this time. */
const FIRST_BYTE_MS_MAX = 30_000;

/**
 * An HTTP server whose port accepts TLS from everywhere, and plain HTTP from this machine only, so that the command
 * line of this machine needs no certificate that is valid for 127.0.0.1.
 */
export class TlsServerWithLocalHttp extends Server {
  readonly #tls: TlsServer;
  readonly #undecided = new Set<Socket>();

  readonly #mayBePlain: (socket: Socket) => boolean;

  /** `mayBePlain` decides which connections may use plain HTTP; default: `isLocal`. */
  constructor(
    options: ServerOptions & { readonly mayBePlain?: (socket: Socket) => boolean },
    listener: RequestListener,
    certificate: Certificate,
  ) {
    super(options, listener);
    this.#mayBePlain = options.mayBePlain ?? isLocal;
    this.#tls = createTlsServer({ ...certificate, ALPNProtocols: ["http/1.1"] }, (socket) => {
      super.emit("connection", socket);
    });
    // If a client does not trust the certificate or disconnects during the handshake, only its connection is closed;
    // the server emits no error.
    this.#tls.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  /** Uses another certificate for new connections. Throws if the certificate and the key do not match. */
  setCertificate(certificate: Certificate): void {
    this.#tls.setSecureContext(certificate);
  }

  override emit(event: string, ...args: unknown[]): boolean {
    const [socket] = args;
    if (event !== "connection" || !isSocket(socket)) return super.emit(event, ...args);
    this.#choose(socket);
    return true;
  }

  override close(callback?: (error?: Error) => void): this {
    for (const socket of this.#undecided) socket.destroy();
    return super.close(callback);
  }

  #choose(socket: Socket): void {
    this.#undecided.add(socket);
    const forget = () => this.#undecided.delete(socket);
    socket.on("error", ignoreError).once("close", forget);
    socket.setTimeout(FIRST_BYTE_MS_MAX, () => socket.destroy());
    socket.once("readable", () => {
      forget();
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      this.#accept(socket);
    });
  }

  #accept(socket: Socket): void {
    const first: unknown = socket.read(1);
    if (!Buffer.isBuffer(first)) {
      socket.destroy();
      return;
    }
    socket.unshift(first);
    if (first[0] === HANDSHAKE) this.#tls.emit("connection", socket);
    else if (this.#mayBePlain(socket)) super.emit("connection", socket);
    else refusePlain(socket);
  }
}

function refusePlain(socket: Socket): void {
  const body = JSON.stringify({ error: "this port speaks HTTPS: use https:// in the URL" });
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  socket.resume();
}

/** True for a connection from this machine. */
export function isLocal({
  remoteAddress,
  localAddress,
}: {
  readonly remoteAddress?: string | undefined;
  readonly localAddress?: string | undefined;
}): boolean {
  const remote = remoteAddress?.replace(/^::ffff:/i, "") ?? "";
  const isLoopback = remote === "::1" || (isIPv4(remote) && remote.startsWith("127."));
  return isLoopback || (remoteAddress !== undefined && remoteAddress === localAddress);
}

function isSocket(value: unknown): value is Socket {
  return typeof value === "object" && value !== null && "remoteAddress" in value;
}

function ignoreError(): void {}
