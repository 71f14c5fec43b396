import { spawn, spawnSync } from "node:child_process";
import { closeSync, fstatSync, openSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import koffi from "koffi";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { BusConnection } from "../../src/dbus/bus-connection.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import { FdTransport, openFdTransport } from "../../src/dbus/fd-transport.ts";
import { loadSocketCalls, socketCalls } from "../../src/dbus/koffi-socket-calls.ts";
import { getControlBytes } from "../../src/dbus/socket-message.ts";
import { bundleProgram } from "../support/bundle-program.ts";
import { newDescriptor, openDescriptors } from "../support/open-descriptors.ts";
import { endReading, listenWithoutAccepting, socketPair } from "../support/socket-pair.ts";
import { SocketPeer, socketPeers } from "../support/socket-peer.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const PROGRAM = await bundleProgram("test/support/socket-process.ts");
const forever = new AbortController().signal;

let dir: string;
let openBefore: number;

beforeEach(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), "berth-socket-"));
  await loadSocketCalls();
  openBefore = openDescriptors();
});
afterEach(async () => {
  await rm(dir, { recursive: true });
  // The transport closes received descriptors in another thread, so the test waits until they are closed.
  await vi.waitFor(() => {
    if (openDescriptors() > openBefore) throw new Error("descriptors were left open");
  }, WAIT_OPTIONS);
});

/** Starts a process at the other end of a socket. Returns the lines that it prints. */
function startProcess(mode: string, options: { readonly openFilesMax?: number } = {}) {
  const [here, there] = socketPair();
  const program = [process.execPath, PROGRAM, mode];
  const { openFilesMax } = options;
  const limited = openFilesMax ? ["prlimit", `--nofile=${openFilesMax}`, ...program] : program;
  const [command = "", ...args] = limited;
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit", there] });
  closeSync(there);
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const stdout = child.stdio[1];
  if (!stdout) throw new Error("no output");
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const nextLine = async () => (await lines.next()).value;
  return { here, child, ended, nextLine };
}

describe("sending and receiving on a bus connection", () => {
  test("a descriptor arrives even if more bytes precede it than fit into the socket's buffer", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    const fd = newDescriptor();
    const done: string[] = [];
    void sender.write(Buffer.alloc(4 << 20, "x")).then(() => done.push("large"));
    void sender.write("y", [fd]).then(() => done.push("with a descriptor"));
    expect(sender.transport.pendingBytes).toBeGreaterThan(3 << 20);
    using receiver = right.start();
    await vi.waitFor(() => expect(receiver.receivedBytes).toBe((4 << 20) + 1), WAIT_OPTIONS);
    expect(done).toEqual(["large", "with a descriptor"]);
    expect(sender.transport.pendingBytes).toBe(0);
    expect(receiver.text.endsWith("xy")).toBe(true);
    const received = receiver.fds.map((own) => fstatSync(own).rdev);
    expect(received).toEqual([fstatSync(fd).rdev]);
    closeSync(fd);
  });

  test("bytes and descriptors wait while the peer does not read", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    const fd = newDescriptor();
    let written = 0;
    const count = 300;
    for (let message = 0; message < count; message++) {
      void sender.write("x".repeat(10_000), [fd]).then(() => (written += 1));
    }
    await vi.waitFor(() => expect(written).toBeGreaterThan(0), WAIT_OPTIONS);
    const waiting = sender.transport.pendingBytes;
    expect(waiting).toBeGreaterThan(1_000_000);
    expect(written).toBe(count - Math.ceil(waiting / 10_000));
    using receiver = right.start();
    await vi.waitFor(() => expect(written).toBe(count), WAIT_OPTIONS);
    await vi.waitFor(() => expect(receiver.receivedBytes).toBe(count * 10_000), WAIT_OPTIONS);
    expect(receiver.fds).toHaveLength(count);
    expect(sender.transport.pendingBytes).toBe(0);
    closeSync(fd);
  });

  test("253 descriptors arrive with one message, and one more is rejected", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    using receiver = right.start();
    const fd = newDescriptor();
    await sender.write(
      "all",
      Array.from({ length: 253 }, () => fd),
    );
    await vi.waitFor(() => expect(receiver.text).toBe("all"), WAIT_OPTIONS);
    expect(receiver.fds).toHaveLength(253);
    await expect(
      sender.write(
        "more",
        Array.from({ length: 254 }, () => fd),
      ),
    ).rejects.toThrow("a message has more descriptors than allowed");
    closeSync(fd);
  });

  test("descriptors of messages that arrive together are assigned to the right messages", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    const events: unknown[] = [];
    const files = ["a", "b", "c"].map((name) => openSync(path.join(dir, name), "w"));
    for (const [index, fd] of files.entries()) {
      await sender.write(`plain ${index};`);
      await sender.write(`with ${index};`, [fd, fd]);
    }
    right.transport.start({
      onFds: (fds) => {
        for (const fd of fds) {
          events.push(path.basename(readlinkSync(`/proc/self/fd/${fd}`)));
          closeSync(fd);
        }
      },
      onData: (chunk) => events.push(...chunk.toString().split(";").slice(0, -1)),
      onClosed: () => {},
    });
    await vi.waitFor(() => expect(events.at(-1)).toBe("with 2"), WAIT_OPTIONS);
    expect(events).toEqual(
      ["a", "b", "c"].flatMap((name, index) => [name, name, `plain ${index}`, `with ${index}`]),
    );
    for (const fd of files) closeSync(fd);
    right.transport.destroy();
  });

  test("neither sockets nor received descriptors stay open in child processes", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    using receiver = right.start();
    const file = path.join(dir, "only here");
    const fd = openSync(file, "w");
    await sender.write("x", [fd]);
    await vi.waitFor(() => expect(receiver.fds).toHaveLength(1), WAIT_OPTIONS);
    closeSync(fd);
    await using server = await listen(path.join(dir, "bus"));
    const connected = await openFdTransport(server.path, forever);
    const inherited = spawnSync("ls", ["-l", "/proc/self/fd"], { encoding: "utf8" }).stdout;
    connected.destroy();
    expect(inherited).toContain(" 1 -> ");
    expect(inherited).not.toContain(file);
    const [received = -1] = receiver.fds;
    expect(readlinkSync(`/proc/self/fd/${received}`)).toBe(file);
    expect(readOpenFlags(received) & 0o2000000).not.toBe(0);
  });

  test("the socket of a connection is closed in child processes, and does not block", async () => {
    const calls = await loadSocketCalls();
    const fd = calls.open();
    expect(readOpenFlags(fd) & 0o2004000).toBe(0o2004000);
    calls.close(fd);
  });

  test("code that awaits received data continues even if the process has nothing else to do", async () => {
    const { here, nextLine: _ } = startProcess("echo");
    const calls = await loadSocketCalls();
    using peer = new SocketPeer(new FdTransport(calls, here)).start();
    await peer.write("one");
    await vi.waitFor(() => expect(peer.text).toBe("one"), WAIT_OPTIONS);
    await peer.write(" two");
    await vi.waitFor(() => expect(peer.text).toBe("one two"), WAIT_OPTIONS);
  });
});

describe("the end of a bus connection", () => {
  test("when the peer closes, its data is read, and the end is not an error", async () => {
    const [left, right] = await socketPeers();
    const fd = newDescriptor();
    await left.write("bye", [fd]);
    closeSync(fd);
    left.transport.destroy();
    using receiver = right.start();
    await vi.waitFor(() => expect(receiver.closings).toBe(1), WAIT_OPTIONS);
    expect([receiver.text, receiver.fds.length, receiver.error]).toEqual(["bye", 1, undefined]);
  });

  test("when the peer closes in the middle of a message, writes of unsent data are settled", async () => {
    const [left, right] = await socketPeers();
    using receiver = right.start();
    left.start();
    let isDone = false;
    const fd = newDescriptor();
    void left.write(Buffer.alloc(4 << 20), [fd]).then(() => {
      isDone = true;
    });
    await vi.waitFor(() => expect(receiver.fds).toHaveLength(1), WAIT_OPTIONS);
    left.transport.destroy();
    left.transport.destroy();
    closeSync(fd);
    await vi.waitFor(() => expect([isDone, left.closings]).toEqual([true, 1]), WAIT_OPTIONS);
    await vi.waitFor(() => expect(receiver.closings).toBe(1), WAIT_OPTIONS);
    expect(receiver.receivedBytes).toBeLessThanOrEqual(4 << 20);
    expect(receiver.error).toBeUndefined();
  });

  test("when the peer closes without reading, its data is read before the reset", async () => {
    const [left, right] = await socketPeers();
    using sender = left.start();
    await sender.write("never read");
    await right.write("last words");
    right.transport.destroy();
    await vi.waitFor(() => expect(sender.closings).toBe(1), WAIT_OPTIONS);
    expect(sender.text).toBe("last words");
    expect(sender.error).toMatchObject({ code: "ECONNRESET" });
  });

  test("when the peer stops receiving, a write ends the connection after the arrived data was read", async () => {
    const [left, right] = socketPair();
    const calls = await loadSocketCalls();
    endReading(right);
    calls.send(right, Buffer.from("last words"), []);
    using sender = new SocketPeer(new FdTransport(calls, left));
    const written = sender.write("x");
    sender.start();
    await written;
    await vi.waitFor(() => expect(sender.closings).toBe(1), WAIT_OPTIONS);
    expect([sender.text, sender.error]).toEqual([
      "last words",
      expect.objectContaining({ code: "EPIPE" }),
    ]);
    closeSync(right);
  });

  test("a bus that is killed in the middle of a message leaks no descriptor", async () => {
    const { here, child, ended, nextLine } = startProcess("half-message");
    const calls = await loadSocketCalls();
    const opening = BusConnection.open({
      transport: new FdTransport(calls, here),
      receiver: { onCall: () => {}, onSignal: () => {} },
      uid: 0,
      bodyBytesMax: 1_000,
      valuesMax: 1_000,
      signal: forever,
      timeoutMs: 60_000,
    });
    const [error] = await Promise.all([
      getRejection(opening),
      nextLine().then((line) => {
        expect(line).toBe("written");
        child.kill("SIGKILL");
        return ended;
      }),
    ]);
    expect(error).toMatchObject({ busName: "org.freedesktop.DBus.Error.Disconnected" });
  });

  test("a peer that is killed while it does not read ends the connection", async () => {
    const { here, child, nextLine } = startProcess("receive");
    expect(await nextLine()).toBe("ready");
    child.kill("SIGSTOP");
    const calls = await loadSocketCalls();
    using peer = new SocketPeer(new FdTransport(calls, here)).start();
    const fd = newDescriptor();
    const written = Promise.all(
      Array.from({ length: 100 }, () => peer.write(Buffer.alloc(100_000), [fd])),
    );
    expect(peer.transport.pendingBytes).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await written;
    await vi.waitFor(() => expect(peer.closings).toBe(1), WAIT_OPTIONS);
    expect(peer.transport.pendingBytes).toBe(0);
    closeSync(fd);
  });
});

describe("descriptors that cannot be received", () => {
  test("a receiver without buffer space for all descriptors of a message closes the connection", async () => {
    const [left, right] = socketPair();
    using sender = new SocketPeer(new FdTransport(await loadSocketCalls(), left)).start();
    using receiver = new SocketPeer(new FdTransport(socketCalls(koffi, getControlBytes(2)), right));
    const fd = newDescriptor();
    await sender.write("two", [fd, fd]);
    await sender.write("five", [fd, fd, fd, fd, fd]);
    await sender.write("none");
    receiver.start();
    await vi.waitFor(() => expect(receiver.closings).toBe(1), WAIT_OPTIONS);
    expect([receiver.text, receiver.fds.length]).toEqual(["two", 2]);
    expect(receiver.error?.message).toMatch(/^descriptors were lost/);
    await vi.waitFor(() => expect(sender.closings).toBe(1), WAIT_OPTIONS);
    closeSync(fd);
  });

  test("a process that may not open more descriptors closes the connection and reports why", async () => {
    const { here, nextLine } = startProcess("receive", { openFilesMax: 60 });
    expect(await nextLine()).toBe("ready");
    using peer = new SocketPeer(new FdTransport(await loadSocketCalls(), here)).start();
    const fd = newDescriptor();
    await peer.write(
      "x",
      Array.from({ length: 100 }, () => fd),
    );
    closeSync(fd);
    expect(await nextLine()).toMatch(/^0 descriptors were lost: this process has too many open/);
    await vi.waitFor(() => expect(peer.closings).toBe(1), WAIT_OPTIONS);
  });
});

describe("connecting to a bus", () => {
  test("connecting fails for a missing path, an unused socket and an invalid path", async () => {
    await expect(openFdTransport(path.join(dir, "nothing"), forever)).rejects.toMatchObject({
      code: "ENOENT",
      syscall: "connect",
    });
    const left = path.join(dir, "left");
    closeSync(listenWithoutAccepting(left, 1));
    await expect(openFdTransport(left, forever)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await expect(openFdTransport(`/${"x".repeat(107)}`, forever)).rejects.toMatchObject({
      code: "ENAMETOOLONG",
    });
    await expect(openFdTransport("\0berth nothing", forever)).rejects.toMatchObject({
      code: "ECONNREFUSED",
    });
  });

  test.each([
    ["the longest path", (folder: string) => `${folder}/`.padEnd(107, "x")],
    ["an abstract name", (folder: string) => `\0${folder}`],
  ])("a client can connect to a socket with %s", async (_, address) => {
    const fd = listenWithoutAccepting(address(dir), 1);
    const transport = await openFdTransport(address(dir), forever);
    expect(transport.canPassFds).toBe(true);
    transport.destroy();
    closeSync(fd);
  });

  test("connecting to a socket with a full backlog is retried until the signal aborts", async () => {
    const busy = path.join(dir, "busy");
    const listening = listenWithoutAccepting(busy, 0);
    const first = await openFdTransport(busy, forever);
    const abort = new AbortController();
    const { signal } = abort;
    const rejections = Promise.all([
      getRejection(openFdTransport(busy, signal)),
      getRejection(connectSessionBus({ address: `unix:path=${busy}`, negotiateFds: true, signal })),
    ]);
    await new Promise((resolve) => setImmediate(resolve));
    const reason = new Error("enough");
    abort.abort(reason);
    expect(await rejections).toEqual([reason, reason]);
    first.destroy();
    closeSync(listening);
  });

  test("more concurrent connections than the backlog holds all succeed", async () => {
    await using server = await listen(path.join(dir, "few"), 1);
    const transports = await Promise.all(
      Array.from({ length: 20 }, () => openFdTransport(server.path, forever)),
    );
    expect(transports).toHaveLength(20);
    for (const transport of transports) transport.destroy();
  });
});

function getRejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Starts a server that accepts connections and does nothing with them. */
async function listen(at: string, backlog = 16) {
  const { createServer } = await import("node:net");
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen({ path: at, backlog }, resolve));
  return {
    path: at,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

/** Returns the flags of an open descriptor, as the kernel reports them. */
function readOpenFlags(fd: number): number {
  const text = readFileSync(`/proc/self/fdinfo/${fd}`, "utf8");
  return Number.parseInt(/flags:\s+(\d+)/.exec(text)?.[1] ?? "", 8);
}
