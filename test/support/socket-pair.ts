import koffi from "koffi";
import { socketAddress } from "../../src/dbus/connect-socket.ts";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;

const libc = koffi.load(null);
const socketpair: (domain: number, type: number, protocol: number, fds: Int32Array) => number =
  libc.func("int socketpair(int domain, int type, int protocol, void *fds)");
const socket: (domain: number, type: number, protocol: number) => number = libc.func(
  "int socket(int domain, int type, int protocol)",
);
const bind: (fd: number, address: Buffer, bytes: number) => number = libc.func(
  "int bind(int fd, const void *address, uint32_t bytes)",
);
const listen: (fd: number, backlog: number) => number = libc.func(
  "int listen(int fd, int backlog)",
);
const shutdown: (fd: number, how: number) => number = libc.func("int shutdown(int fd, int how)");

/** Returns two connected Unix sockets that do not block and that no child process inherits. */
export function socketPair(): readonly [number, number] {
  const fds = new Int32Array(2);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) !== 0) {
    throw new Error(`socketpair failed with ${koffi.errno()}`);
  }
  return [fds[0] ?? -1, fds[1] ?? -1];
}

/** Shuts down reading: the socket gets no more data, and its peer cannot write to it. */
export function endReading(fd: number): void {
  if (shutdown(fd, 0) !== 0) throw new Error(`shutdown failed with ${koffi.errno()}`);
}

/**
 * Returns a socket that listens at a path and accepts no connection. When `backlog` connections and one more are
 * waiting, further clients cannot connect.
 */
export function listenWithoutAccepting(path: string, backlog: number): number {
  const fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const address = socketAddress(path);
  if (fd < 0 || bind(fd, address, address.length) !== 0 || listen(fd, backlog) !== 0) {
    throw new Error(`no socket at ${path}: ${koffi.errno()}`);
  }
  return fd;
}
