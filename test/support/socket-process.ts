import { openSync } from "node:fs";
import { FdTransport } from "../../src/dbus/fd-transport.ts";
import { loadSocketCalls } from "../../src/dbus/koffi-socket-calls.ts";

/**
 * A separate process at the other end of a socket, which is its descriptor 3.
 *
 * The mode `half-message` is a bus that accepts every handshake line, answers the first message with the first bytes
 * of a message with three descriptors, and prints `written`. `receive` prints how many descriptors have arrived and
 * how the connection ended. `echo` sends all data back from a promise callback.
 */
const [mode] = process.argv.slice(2);
const transport = new FdTransport(await loadSocketCalls(), 3);

if (mode === "half-message") halfMessage();
else if (mode === "receive") receive();
else await echo();

function halfMessage(): void {
  let text = "";
  transport.start({
    onFds: () => {},
    onClosed: () => {},
    onData: (chunk) => {
      text += chunk.toString("latin1");
      const isBegun = text.includes("BEGIN\r\n");
      if (isBegun && !text.endsWith("BEGIN\r\n")) {
        const fds = [1, 2, 3].map(() => openSync("/dev/null", "r"));
        transport.write(Buffer.from("l\x02\x01\x01", "latin1"), fds, () => {
          process.stdout.write("written\n");
        });
      }
    },
  });
  transport.write(Buffer.from("OK 0123\r\nAGREE_UNIX_FD\r\n"), [], () => {});
}

function receive(): void {
  let count = 0;
  transport.start({
    onFds: (fds) => {
      count += fds.length;
    },
    onData: () => {},
    onClosed: (error) => {
      process.stdout.write(`${count} ${error ? error.message : "closed"}\n`);
    },
  });
  process.stdout.write("ready\n");
}

async function echo(): Promise<void> {
  let onData: ((chunk: Buffer) => void) | undefined;
  transport.start({
    onFds: () => {},
    onData: (chunk) => onData?.(chunk),
    onClosed: () => process.exit(0),
  });
  for (;;) {
    const chunk = await new Promise<Buffer>((resolve) => {
      onData = resolve;
    });
    transport.write(chunk, [], () => {});
  }
}
