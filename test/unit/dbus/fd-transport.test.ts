import { closeSync, fstatSync } from "node:fs";
import os from "node:os";
import { describe, expect, test, vi } from "vitest";
import { FdTransport, openFdTransport } from "../../../src/dbus/fd-transport.ts";
import { loadSocketCalls, socketCallsFrom } from "../../../src/dbus/koffi-socket-calls.ts";
import { newDescriptor } from "../../support/open-descriptors.ts";
import { received, ScriptedSocket } from "../../support/scripted-socket.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const { EAGAIN, ECONNREFUSED, ECONNRESET, EMFILE, ENOBUFS, EPIPE } = os.constants.errno;
const forever = new AbortController().signal;

/** Starts a transport on a scripted socket, and records its events in a list. */
function startTransport(socket = new ScriptedSocket()) {
  const transport = new FdTransport(socket, 99);
  const events: unknown[] = [];
  transport.start({
    onFds: (fds) => events.push(fds),
    onData: (chunk) => events.push(chunk.toString("latin1")),
    onClosed: (error) => events.push(error ? `closed: ${error.message}` : "closed"),
  });
  const write = (text: string, fds: readonly number[] = []) =>
    transport.write(Buffer.from(text, "latin1"), fds, () => events.push(`done ${text}`));
  return { socket, transport, events, write };
}

describe("writing to the socket of a bus", () => {
  test("descriptors of an unsent message are sent with its first byte, and not again with later bytes", () => {
    const { socket, transport, events, write } = startTransport();
    socket.sends.push(-EAGAIN, -EAGAIN, 3, -EAGAIN, 2);
    write("hello", [7, 8]);
    expect(transport.pendingBytes).toBe(5);
    expect(socket.watched).toEqual({ readable: true, writable: true });
    socket.event();
    expect(socket.sent).toEqual([]);
    socket.event();
    expect(transport.pendingBytes).toBe(2);
    expect(events).toEqual([]);
    socket.event();
    expect(transport.pendingBytes).toBe(0);
    expect(events).toEqual(["done hello"]);
    expect(socket.watched).toEqual({ readable: true, writable: false });
    expect(socket.sent).toEqual([
      { text: "hel", fds: [7, 8] },
      { text: "lo", fds: [] },
    ]);
  });

  test("messages are sent in the order in which they were written", () => {
    const { socket, events, write } = startTransport();
    socket.sends.push(1, -EAGAIN);
    write("one");
    write("");
    write("two", [5]);
    expect(events).toEqual([]);
    socket.event();
    expect(socket.sent.map(({ text }) => text)).toEqual(["o", "ne", "two"]);
    expect(events).toEqual(["done one", "done ", "done two"]);
  });

  test("a peer that reads as fast as this side writes does not block other work", () => {
    const { socket, transport, events } = startTransport();
    for (let byte = 0; byte < 1_000; byte++) socket.sends.push(1);
    transport.write(Buffer.alloc(1_000), [], () => events.push("done"));
    const first = socket.sendCalls;
    expect(first).toBeLessThan(100);
    expect(socket.watched.writable).toBe(true);
    socket.event();
    expect(socket.sendCalls).toBe(2 * first);
  });

  test("a write from within the callback `done` is sent after earlier writes", () => {
    const { socket, transport, write } = startTransport();
    transport.write(Buffer.from("a"), [], () => write("c"));
    expect(socket.sent.map(({ text }) => text)).toEqual(["a", "c"]);
    socket.sends.push(-EAGAIN);
    transport.write(Buffer.from("d"), [], () => write("f"));
    write("e");
    socket.event();
    expect(socket.sent.map(({ text }) => text)).toEqual(["a", "c", "d", "e", "f"]);
  });

  test("a write before start() that the socket does not accept is sent later, and nothing is read meanwhile", () => {
    const socket = new ScriptedSocket();
    const transport = new FdTransport(socket, 99);
    expect(socket.watched).toEqual({ readable: false, writable: false });
    socket.sends.push(-EAGAIN);
    transport.write(Buffer.from("early"), [], () => {});
    expect(socket.watched).toEqual({ readable: false, writable: true });
    socket.event();
    expect(socket.sent).toEqual([{ text: "early", fds: [] }]);
    expect([socket.receiveCalls, socket.watched.writable]).toEqual([0, false]);
  });

  test("a write that fails for a temporary lack of resources is repeated after a delay, and loses no descriptor", async () => {
    const { socket, events, write } = startTransport();
    socket.sends.push(-ENOBUFS, -109, 5);
    write("hello", [7]);
    expect(socket.watched).toEqual({ readable: true, writable: false });
    socket.event(); // Arriving data does not make the retry happen earlier.
    expect(socket.sendCalls).toBe(1);
    await vi.waitFor(() => expect(events).toEqual(["done hello"]), WAIT_OPTIONS);
    expect(socket.sent).toEqual([{ text: "hello", fds: [7] }]);
  });

  test("a permanent lack of memory closes the connection", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const { socket, events, write } = startTransport();
      for (let send = 0; send < 1_000; send++) socket.sends.push(-ENOBUFS);
      write("hello", [7]);
      await vi.advanceTimersByTimeAsync(60_000);
      await vi.waitFor(() => expect(events).toEqual(["done hello", "closed: sendmsg ENOBUFS"]));
      expect(socket.sendCalls).toBeLessThan(600);
    } finally {
      vi.useRealTimers();
    }
  });

  test("a failed write closes the connection after the data that has arrived was read", async () => {
    const { socket, transport, events, write } = startTransport();
    socket.sends.push(-EAGAIN);
    write("waits");
    write("fails", [7]);
    socket.sends.push(-EPIPE);
    socket.receives.push(received("good", [3]), received("bye"), -EAGAIN);
    socket.event();
    write("late");
    expect(events.slice(0, 2)).toEqual(["done waits", "done fails"]);
    await vi.waitFor(() => expect(events.at(-1)).toBe("closed: sendmsg EPIPE"), WAIT_OPTIONS);
    expect(events.filter((event) => event !== "done late").slice(2)).toEqual([
      [3],
      "good",
      "bye",
      "closed: sendmsg EPIPE",
    ]);
    expect(transport.pendingBytes).toBe(0);
    expect(socket.log).toEqual(["unwatch", "close 99"]);
  });

  test("a write that fails before start() closes the connection", async () => {
    const socket = new ScriptedSocket();
    const transport = new FdTransport(socket, 99);
    socket.sends.push(-EPIPE);
    transport.write(Buffer.from("x"), [], () => {});
    await vi.waitFor(() => expect(socket.log).toEqual(["unwatch", "close 99"]), WAIT_OPTIONS);
    const closed = new Promise((resolve) =>
      transport.start({ onFds: () => {}, onData: () => {}, onClosed: resolve }),
    );
    expect(await closed).toMatchObject({ code: "EPIPE" });
  });

  test("a peer that writes endlessly without reading is disconnected", async () => {
    const { socket, events, write } = startTransport();
    socket.receive = () => received("x");
    socket.sends.push(-EPIPE);
    write("fails");
    await vi.waitFor(() => expect(events.at(-1)).toBe("closed: sendmsg EPIPE"), WAIT_OPTIONS);
  });

  test("destroy() within the callback `done` of a write prevents later writes", async () => {
    const { socket, transport, events, write } = startTransport();
    socket.sends.push(-EAGAIN);
    transport.write(Buffer.from("a"), [], () => transport.destroy());
    write("b", [5]);
    socket.event();
    await vi.waitFor(() => expect(events).toEqual(["done b", "closed"]), WAIT_OPTIONS);
    expect(socket.sent).toEqual([{ text: "a", fds: [] }]);
  });
});

describe("reading from the socket of a bus", () => {
  test("descriptors are reported before the data with which they arrived", () => {
    const { socket, events } = startTransport();
    socket.receives.push(received("a", [3, 4]), received("b"));
    socket.event();
    expect(events).toEqual([[3, 4], "a", "b"]);
  });

  test("a peer that writes endlessly does not block other work", () => {
    const { socket } = startTransport();
    for (let read = 0; read < 1_000; read++) socket.receives.push(received("x", [1_000 + read]));
    socket.event();
    expect(socket.receiveCalls).toBeLessThan(10);
    expect(socket.watched.readable).toBe(true);
  });

  test.each([
    ["the end of the stream", received(""), "closed"],
    ["a connection reset", -ECONNRESET, "closed: recvmsg ECONNRESET"],
  ])("%s closes the connection exactly once", async (_, last, closed) => {
    const { socket, transport, events, write } = startTransport();
    socket.sends.push(-EAGAIN, -EAGAIN);
    write("unsent", [5]);
    socket.receives.push(received("half", [3]), last, received("never"));
    socket.event();
    transport.destroy();
    socket.event();
    await vi.waitFor(() => expect(events.at(-1)).toBe(closed), WAIT_OPTIONS);
    expect(events).toEqual([[3], "half", "done unsent", closed]);
    expect(socket.log).toEqual(["unwatch", "close 99"]);
  });

  test("the descriptors of a truncated message are closed, and the connection ends with an error", async () => {
    const { socket, events } = startTransport();
    const fd = newDescriptor();
    socket.receives.push({ ...received("x", [fd]), isTruncated: true }, received("never"));
    socket.event();
    await vi.waitFor(
      () => expect(events).toEqual([expect.stringMatching(/^closed: descriptors were lost/)]),
      WAIT_OPTIONS,
    );
    await vi.waitFor(() => expect(() => fstatSync(fd)).toThrow("EBADF"), WAIT_OPTIONS);
  });

  test("no event follows destroy(), not even for data that was read together with other data", async () => {
    const socket = new ScriptedSocket();
    const transport = new FdTransport(socket, 99);
    const events: unknown[] = [];
    transport.start({
      onFds: (fds) => {
        events.push(fds);
        transport.destroy();
      },
      onData: () => events.push("data"),
      onClosed: (error) => events.push(["closed", error]),
    });
    socket.receives.push(received("x", [3]), received("y"));
    socket.event();
    await vi.waitFor(() => expect(events).toEqual([[3], ["closed", undefined]]), WAIT_OPTIONS);
  });
});

const load = (socket: ScriptedSocket) => () => Promise.resolve(socket);

describe("connecting to the socket of a bus", () => {
  test("a connect is retried while the listener's backlog is full", async () => {
    const socket = new ScriptedSocket();
    socket.connects.push(-EAGAIN, -EAGAIN, -EAGAIN);
    const transport = await openFdTransport("/x", forever, load(socket));
    expect(socket.log).toEqual(["open", "connect", "connect", "connect", "connect"]);
    transport.destroy();
  });

  test("an abort ends the retries with the signal's reason", async () => {
    const socket = new ScriptedSocket();
    socket.connects.push(...Array.from({ length: 1_000 }, () => -EAGAIN));
    const abort = new AbortController();
    const opening = openFdTransport("/x", abort.signal, load(socket));
    const reason = new Error("enough");
    await vi.waitFor(() => expect(socket.log.length).toBeGreaterThan(2), WAIT_OPTIONS);
    abort.abort(reason);
    await expect(opening).rejects.toBe(reason);
    expect(socket.log.at(-1)).toBe("close 99");
    await expect(openFdTransport("/x", abort.signal, load(socket))).rejects.toBe(reason);
    expect(socket.log.filter((call) => call === "open")).toHaveLength(1);
  });

  test("a refused connect rejects with the system's error, and the socket is closed", async () => {
    const socket = new ScriptedSocket();
    socket.connects.push(-ECONNREFUSED);
    await expect(openFdTransport("/x", forever, load(socket))).rejects.toMatchObject({
      code: "ECONNREFUSED",
      message: "connect ECONNREFUSED /x",
    });
    expect(socket.log).toEqual(["open", "connect", "close 99"]);
    socket.open = () => -EMFILE;
    await expect(openFdTransport("/x", forever, load(socket))).rejects.toMatchObject({
      code: "EMFILE",
    });
  });
});

test("without the package koffi, the error suggests what to do", async () => {
  const missing = new Error("Cannot find package 'koffi'");
  const loadMissing = () => socketCallsFrom(() => Promise.reject(missing));
  await expect(openFdTransport("/nowhere", forever, loadMissing)).rejects.toMatchObject({
    busName: "org.freedesktop.DBus.Error.NotSupported",
    message: expect.stringMatching(/koffi.*npm install/),
    cause: missing,
  });
});

test("with the package koffi, Berth can call the socket functions of the system", async () => {
  const calls = await loadSocketCalls();
  const fd = calls.open();
  expect(fd).toBeGreaterThan(2);
  closeSync(fd);
});
