import type { BusTransport } from "./bus-transport.ts";
import { BusCallError } from "./port.ts";

/** Longest line of the SASL handshake. Its lines are short, so a peer that sends a longer line is not a message bus. */
const LINE_BYTES_MAX = 16 * 1024;

/**
 * The SASL handshake before the first message, as a state machine: AUTH with the user id, which the kernel confirms
 * to the bus; then NEGOTIATE_UNIX_FD if the transport can pass descriptors; then BEGIN.
 */
export class Authentication {
  #text = "";
  #state: "authenticating" | "negotiating" = "authenticating";
  readonly #transport: BusTransport;

  constructor(transport: BusTransport, uid: number) {
    this.#transport = transport;
    const id = Buffer.from(String(uid)).toString("hex");
    this.#send(`\0AUTH EXTERNAL ${id}\r\n`);
  }

  /**
   * Processes received bytes. Returns true when the handshake is complete and messages may be sent. Throws
   * BusCallError `AuthFailed`, or `NotSupported` if the bus does not pass descriptors.
   */
  feed(chunk: Buffer): boolean {
    this.#text += chunk.toString("latin1");
    for (;;) {
      const end = this.#text.indexOf("\r\n");
      if (end === -1) {
        if (this.#text.length > LINE_BYTES_MAX)
          throw authFailedError("the answer of the bus violates the D-Bus protocol");
        return false;
      }
      const line = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 2);
      if (this.#isDone(line)) return true;
    }
  }

  #isDone(line: string): boolean {
    if (this.#state === "authenticating") {
      if (!line.startsWith("OK")) throw authFailedError("the authentication as this user failed");
      if (this.#transport.canPassFds) {
        this.#state = "negotiating";
        this.#send("NEGOTIATE_UNIX_FD\r\n");
        return false;
      }
    } else if (line !== "AGREE_UNIX_FD") {
      throw new BusCallError(
        "org.freedesktop.DBus.Error.NotSupported",
        "this session bus does not pass file descriptors, which the assistant's token streams need",
      );
    }
    this.#send("BEGIN\r\n");
    return true;
  }

  #send(text: string): void {
    this.#transport.write(Buffer.from(text, "latin1"), [], () => {});
  }
}

function authFailedError(why: string): BusCallError {
  return new BusCallError(
    "org.freedesktop.DBus.Error.AuthFailed",
    `the session bus refused the connection: ${why}`,
  );
}
