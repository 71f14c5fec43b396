import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/rest/client.ts";
import type { WatchEvent } from "../../../src/client/rest/event-calls.ts";
import {
  appStatus,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

let api: TestApi;
let base: string;
beforeEach(async () => {
  api = await openTestApi();
  base = await api.listen();
});
afterEach(() => api[Symbol.asyncDispose]());

const record = (name: string, message: string) =>
  api.store.events.record({ kind: "App", name, type: "Warning", reason: "Test", message });

/** Reads the stream of changes and records all of its events. */
function watch(options: { kind?: "App" | "Secret"; name?: string; lastEventId?: number } = {}) {
  const client = createClient({ baseUrl: base, token: api.token("read") });
  const stop = new AbortController();
  const items: WatchEvent[] = [];
  const ended = (async () => {
    try {
      for await (const item of client.events.watch({ ...options, signal: stop.signal })) {
        items.push(item);
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
  })();
  return { items, ended, stop: () => stop.abort() };
}

const openStreams = async () =>
  Number(/^berth_http_streams_open (\d+)$/m.exec(await api.metrics.metrics())?.[1]);

describe("the stream of changes", () => {
  it("sends each change and event in order, with its sequence number as the id", async () => {
    const reader = watch();
    await expect.poll(openStreams).toBe(1);
    const { uid } = putApp(api.store, "web");
    api.store.setStatus("App", "web", uid, appStatus(1));
    record("web", "hello");
    await expect.poll(() => reader.items.length).toBe(3);
    expect(reader.items).toMatchObject([
      { sequence: 1, type: "added", kind: "App", name: "web", generation: 1 },
      { sequence: 2, type: "status", name: "web" },
      { sequence: 3, type: "event", event: { reason: "Test", message: "hello", count: 1 } },
    ]);
    reader.stop();
    await reader.ended;
    await expect.poll(openStreams).toBe(0);
  });

  it("filters by kind and by name", async () => {
    const byName = watch({ kind: "App", name: "b" });
    const byKind = watch({ kind: "Secret" });
    await expect.poll(openStreams).toBe(2);
    putApp(api.store, "a");
    putApp(api.store, "b");
    api.store.apply({
      kind: "Secret",
      name: "b",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "replace",
      spec: { data: { key: "hush" } },
    });
    await expect.poll(() => byKind.items.length).toBe(1);
    await expect.poll(() => byName.items.length).toBe(1);
    expect(byName.items).toMatchObject([{ kind: "App", name: "b" }]);
    expect(JSON.stringify(byKind.items)).not.toContain("hush");
    byName.stop();
    byKind.stop();
    await Promise.all([byName.ended, byKind.ended]);
  });

  it("resumes after Last-Event-ID without gaps or repetitions", async () => {
    for (let count = 1; count <= 1_200; count += 1) record("web", `event ${count}`);
    const reader = watch({ lastEventId: 150 });
    await expect.poll(() => reader.items.length).toBe(1_050);
    record("web", "and one more");
    await expect.poll(() => reader.items.length).toBe(1_051);
    const sequences = reader.items.map((item) => item.sequence);
    expect(sequences).toEqual(Array.from({ length: 1_051 }, (_, index) => 151 + index));
    reader.stop();
    await reader.ended;
  });

  it("sends the event `reset` to a reader that missed too many changes, or whose last id is from another store", async () => {
    for (let count = 1; count <= 5_100; count += 1) record("web", `event ${count}`);
    const far = watch({ lastEventId: 1 });
    const foreign = watch({ lastEventId: 999_999 });
    await expect.poll(() => far.items.length).toBe(1);
    await expect.poll(() => foreign.items.length).toBe(1);
    expect(far.items).toEqual([{ reset: true, sequence: 5_100 }]);
    expect(foreign.items).toEqual([{ reset: true, sequence: 5_100 }]);
    record("web", "after");
    await expect.poll(() => far.items.length).toBe(2);
    far.stop();
    foreign.stop();
    await Promise.all([far.ended, foreign.ended]);
  });

  it("sends a heartbeat every 15 seconds", async () => {
    const socket = await open("/api/events");
    await expect.poll(() => socket.text()).toContain("retry: 2000");
    expect(socket.text()).not.toContain("\n:\n");
    await api.clock.advance(15_000);
    await expect.poll(() => socket.text()).toContain("\n:\n\n");
    socket.destroy();
  });

  it("disconnects a client that does not read, and continues for others", async () => {
    const slow = await open("/api/events");
    await expect.poll(() => slow.text()).toContain("retry: 2000");
    slow.pause();
    const reader = watch();
    await expect.poll(openStreams).toBe(2);
    const filler = "x".repeat(60_000);
    let written = 0;
    while ((await openStreams()) > 1) {
      // The loop queries the open streams only after every ten events, because a query takes longer than sending an
      // event.
      for (let count = 0; count < 10; count += 1) record("web", `${written++} ${filler}`);
      if (written > 2_000) throw new Error(`still open after ${written} events`);
      await expect.poll(() => reader.items.length, { ...WAIT_OPTIONS, interval: 1 }).toBe(written);
    }
    // Berth disconnects a client when Berth's buffer for the client is full. The kernel's socket buffers hold some more
    // megabytes, so this limit is larger than Berth's buffer.
    expect(JSON.stringify(reader.items).length).toBeLessThan(24 * 1024 * 1024);
    record("web", "still here");
    await expect.poll(() => reader.items.length).toBe(written + 1);
    slow.destroy();
    reader.stop();
    await reader.ended;
  });

  it("ends when the server closes", async () => {
    const reader = watch();
    await expect.poll(openStreams).toBe(1);
    await api.server.close();
    await reader.ended;
  });

  it("refuses an invalid id", async () => {
    const headers = { "last-event-id": "yesterday" };
    const response = await api.request({ url: "/api/events", headers });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain("Last-Event-ID");
    expect(await openStreams()).toBe(0);
  });
});

describe("the list of events", () => {
  it("is returned, newest first, with format=list, or if the client accepts JSON", async () => {
    record("a", "one");
    record("b", "two");
    const all = await api.request({ url: "/api/events", headers: { accept: "application/json" } });
    expect(all.json()).toMatchObject({
      events: [{ message: "two" }, { message: "one" }],
      total: 2,
    });
    const one = await api.request({ url: "/api/events?format=list&kind=App&name=a&limit=5" });
    expect(one.json()).toMatchObject({ events: [{ name: "a", first_time: expect.any(String) }] });
  });
});

describe("the audit list", () => {
  it("pages from the newest entry to the oldest, and shows the value of each field before and after the change", async () => {
    for (let count = 0; count < 5; count += 1) putApp(api.store, `app-${count}`);
    const first = (await api.request({ url: "/api/audit?limit=3" })).json();
    expect(first.entries.map((entry: { name: string }) => entry.name)).toEqual([
      "app-4",
      "app-3",
      "app-2",
    ]);
    expect(first.entries[0].changes).toContainEqual({ path: "/spec/image", after: "bb:1" });
    const url = `/api/audit?limit=3&before=${first.next_before}`;
    const second = (await api.request({ url })).json();
    expect(second.entries).toHaveLength(2);
    expect(second.next_before).toBeNull();
  });
});

/** Opens a connection that reads only while it is not paused. */
async function open(path: string): Promise<{
  text(): string;
  pause(): void;
  destroy(): void;
}> {
  const { port, hostname } = new URL(base);
  const socket: Socket = connect(Number(port), hostname);
  await new Promise((resolve) => socket.once("connect", resolve));
  let text = "";
  socket.on("data", (chunk) => {
    // Chunked encoding puts the length of each chunk on a line of its own, which is removed here.
    text += chunk.toString().replaceAll(/\r\n[0-9a-f]*(\r\n)?/g, "\n");
  });
  socket.on("error", () => {});
  const authorization = `Bearer ${api.token("read")}`;
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`);
  return {
    text: () => text,
    pause: () => socket.pause(),
    destroy: () => socket.destroy(),
  };
}
