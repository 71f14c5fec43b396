import os from "node:os";
import { BusCallError } from "./port.ts";
import {
  DESCRIPTORS_MAX,
  RECEIVED_BYTES_MAX,
  type ReceivedData,
  type SocketCalls,
  type SocketEvents,
  type SocketWatch,
} from "./socket-calls.ts";
import {
  getControlBytes,
  readDescriptors,
  SocketMessage,
  writeDescriptors,
} from "./socket-message.ts";

type Koffi = Pick<typeof import("koffi"), "load" | "address" | "errno" | "node" | "sizeof">;

// The following constants are the same on every 64-bit little-endian Linux that Node.js supports, with glibc and with
// musl.
const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const MSG_CMSG_CLOEXEC = 0x4000_0000;
const EINTR = os.constants.errno.EINTR;

/** The maximum number of bytes that are passed to one call of send or sendmsg. */
const SENT_BYTES_MAX = 64 * 1024;
/**
 * Size of the control buffer. The kernel uses at most 1,032 bytes of it for descriptors; the rest is space for other
 * control data.
 */
const CONTROL_BYTES = 64 * 1024;

let loaded: Promise<SocketCalls> | undefined;

/** Imports koffi at the first call, and returns the system calls that are made with it (see `socketCallsFrom`). */
export function loadSocketCalls(): Promise<SocketCalls> {
  loaded ??= socketCallsFrom(() => import("koffi"));
  return loaded;
}

/**
 * Imports koffi, and returns the system calls that are made with it. Rejects with BusCallError `NotSupported` if koffi
 * cannot be imported or lacks a needed function.
 */
export async function socketCallsFrom(importKoffi: () => Promise<Koffi>): Promise<SocketCalls> {
  try {
    const koffi = await importKoffi();
    if (process.platform !== "linux" || os.endianness() !== "LE" || koffi.sizeof("void *") !== 8) {
      throw new Error(
        `this is not a 64-bit little-endian Linux: ${process.platform} ${process.arch}`,
      );
    }
    return socketCalls(koffi, CONTROL_BYTES);
  } catch (error) {
    const refused = new BusCallError(
      "org.freedesktop.DBus.Error.NotSupported",
      "file descriptors cannot be passed, because the package koffi could not be loaded; install Berth's packages again, " +
        "with their optional packages (npm install --include=optional)",
    );
    refused.cause = error;
    throw refused;
  }
}

/** Binds the system calls. `controlBytes` is the space for received control data. */
export function socketCalls(koffi: Koffi, controlBytes: number): SocketCalls {
  // With null instead of a library name, koffi uses the C library that this process has already loaded.
  const libc = koffi.load(null);
  const socket: (domain: number, type: number, protocol: number) => number = libc.func(
    "int socket(int domain, int type, int protocol)",
  );
  const connect: (fd: number, address: Buffer, bytes: number) => number = libc.func(
    "int connect(int fd, const void *address, uint32_t bytes)",
  );
  const send: (fd: number, data: Buffer, bytes: number, flags: number) => number = libc.func(
    "int64_t send(int fd, const void *data, size_t bytes, int flags)",
  );
  const sendmsg: (fd: number, header: Buffer, flags: number) => number = libc.func(
    "int64_t sendmsg(int fd, const void *header, int flags)",
  );
  const recvmsg: (fd: number, header: Buffer, flags: number) => number = libc.func(
    "int64_t recvmsg(int fd, void *header, int flags)",
  );
  const close: (fd: number) => number = libc.func("int close(int fd)");

  const addressOf = (memory: Buffer) => koffi.address(memory);
  const outgoing = new SocketMessage(SENT_BYTES_MAX, getControlBytes(DESCRIPTORS_MAX), addressOf);
  const incoming = new SocketMessage(RECEIVED_BYTES_MAX, controlBytes, addressOf);

  /** Repeats a call that a signal interrupted. Returns the call's result, or its error as a negative number. */
  const repeated = (call: () => number): number => {
    for (;;) {
      const result = call();
      if (result >= 0) return result;
      const errno = koffi.errno();
      if (errno !== EINTR) return -errno;
    }
  };

  return {
    open: () => repeated(() => socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),

    connect: (fd, address) => repeated(() => connect(fd, address, address.length)),

    send: (fd, data, fds) => {
      const flags = MSG_DONTWAIT | MSG_NOSIGNAL;
      const bytes = Math.min(data.length, SENT_BYTES_MAX);
      if (fds.length === 0) return repeated(() => send(fd, data, bytes, flags));
      data.copy(outgoing.data, 0, 0, bytes);
      outgoing.setLengths(bytes, writeDescriptors(outgoing.control, fds));
      return repeated(() => sendmsg(fd, outgoing.header, flags));
    },

    receive: (fd): ReceivedData | number => {
      const result = repeated(() => {
        incoming.setLengths(RECEIVED_BYTES_MAX, controlBytes);
        return recvmsg(fd, incoming.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      });
      if (result < 0) return result;
      return {
        data: Buffer.from(incoming.data.subarray(0, result)),
        fds: readDescriptors(incoming.receivedControl),
        isTruncated: incoming.isControlTruncated,
      };
    },

    close: (fd) => {
      // close(2) is not repeated after an interruption, because Linux releases the descriptor whatever the result is.
      close(fd);
    },

    watch: (fd, onEvent) => watch(koffi, fd, onEvent),
  };
}

/**
 * Watches a descriptor with a poll handle of libuv on Node's own event loop. koffi ends the process if a handle is
 * used after it was closed. koffi calls back outside of the callback scopes of Node.js: promises that a callback
 * resolves wait for another event (on Node 26), and an exception surfaces in the next native call. So the callback
 * only schedules an immediate, which runs after the events of this loop iteration have been reported.
 */
function watch(koffi: Koffi, fd: number, onEvent: () => void): SocketWatch {
  let isClosed = false;
  let isRequested = false;
  let watched: SocketEvents = { readable: false, writable: false };
  const run = () => {
    isRequested = false;
    if (!isClosed) onEvent();
  };
  // The declared type of the callback lacks its first parameter, the status, which this code needs.
  const onPoll = (...[status]: readonly unknown[]) => {
    // libuv stops the handle on a socket error, so nothing is watched any more; the next call on the socket returns
    // that error.
    if (typeof status === "number" && status < 0) {
      watched = { readable: false, writable: false };
    }
    if (isRequested) return;
    isRequested = true;
    setImmediate(run);
  };
  const handle = koffi.node.poll(fd, watched, onPoll);
  return {
    update: (events) => {
      const { readable, writable } = events;
      if (isClosed || (readable === watched.readable && writable === watched.writable)) return;
      watched = { readable, writable };
      handle.start(watched, onPoll);
    },
    close: () => {
      if (isClosed) return;
      isClosed = true;
      handle.close();
    },
  };
}
