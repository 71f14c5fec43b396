import { EventEmitter, once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseSince } from "../../../src/api/routes/logs.ts";
import { BerthError } from "../../../src/base/errors.ts";
import { createClient } from "../../../src/client/rest/client.ts";
import type { AppLogLine } from "../../../src/controller/port.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
  putApp(api.store, "web");
});
afterEach(() => api[Symbol.asyncDispose]());

const line = (message: string): AppLogLine => ({
  time: "2030-01-01T00:00:00.000000001Z",
  stream: "stdout",
  message,
  container: "web-1",
});

async function* lines(count: number, text = ""): AsyncGenerator<AppLogLine> {
  for (let index = 0; index < count; index += 1) yield line(`${index}${text}`);
}

async function* failing(): AsyncGenerator<AppLogLine> {
  yield line("first");
  throw new BerthError("engine_unreachable", "the engine went away");
}

// oxlint-disable-next-line require-yield -- it fails before any line
async function* unreachable(): AsyncGenerator<AppLogLine> {
  throw new BerthError("engine_unreachable", "the engine is away", { hint: "start it" });
}

describe("logs from the API", () => {
  it("are returned as JSON, a hundred lines by default", async () => {
    api.control.logs = () => lines(2);
    const response = await api.request({ url: "/api/apps/web/logs" });
    expect(response.json()).toEqual({ name: "web", lines: [line("0"), line("1")] });
    await api.request({ url: "/api/apps/web/logs?tail=7&since=10m" });
    expect(api.control.logOptions).toEqual([
      { tail: 100, follow: false },
      { tail: 7, follow: false, sinceMs: api.clock.now() - 600_000 },
    ]);
  });

  it("are returned as raw text if the client accepts text/plain", async () => {
    api.control.logs = () => lines(3, " ünï");
    const headers = { accept: "text/plain" };
    const response = await api.request({ url: "/api/apps/web/logs", headers });
    expect(response.headers["content-type"]).toBe("text/plain; charset=utf-8");
    expect(response.body).toBe("0 ünï\n1 ünï\n2 ünï\n");
  });

  it("return 503 while the engine is unreachable, as JSON and as text", async () => {
    api.control.logs = unreachable;
    for (const accept of ["application/json", "text/plain"]) {
      const response = await api.request({ url: "/api/apps/web/logs", headers: { accept } });
      expect(response.statusCode).toBe(503);
      expect(readErrorBody(response)).toBe("the engine is away. Start it.");
    }
  });

  it("are truncated to the newest lines if they exceed the limit", async () => {
    api.control.logs = () => lines(700, "x".repeat(60_000));
    const response = await api.request({ url: "/api/apps/web/logs?tail=700" });
    expect(response.headers["x-berth-truncated"]).toBe("true");
    const { lines: kept } = response.json();
    expect(kept.length).toBeGreaterThan(500);
    expect(kept.length).toBeLessThan(600);
    expect(kept.at(-1).message).toMatch(/^699x/);
  });
});

describe("following logs through the API", () => {
  it("sends each line as it arrives, and stops reading when the client disconnects", async () => {
    const base = await api.listen();
    const waiting = new EventEmitter();
    let isEnded = false;
    const queue = [line("one")];
    api.control.logs = async function* follow(options, signal) {
      expect(options).toMatchObject({ follow: true, tail: 5 });
      signal.addEventListener("abort", () => waiting.emit("more"));
      try {
        while (!signal.aborted) {
          const next = queue.shift();
          if (next) yield next;
          else await once(waiting, "more");
        }
      } finally {
        isEnded = true;
      }
    };
    const client = createClient({ baseUrl: base, token: api.token("read") });
    const seen: string[] = [];
    for await (const { message } of client.apps.followLogs("web", { tail: 5 })) {
      seen.push(message);
      if (message === "two") break;
      queue.push(line("two"));
      waiting.emit("more");
    }
    expect(seen).toEqual(["one", "two"]);
    await expect.poll(() => isEnded).toBe(true);
  });

  it("waits for a slow reader instead of buffering all lines", async () => {
    const base = await api.listen();
    let produced = 0;
    api.control.logs = async function* endless(_options, signal) {
      for (; !signal.aborted; produced += 1) yield line("x".repeat(10_000));
    };
    const response = await fetch(`${base}/api/apps/web/logs?follow=true`, {
      headers: { authorization: `Bearer ${api.token("read")}` },
    });
    let before = -1;
    await expect
      .poll(
        () => {
          const isStill = produced === before;
          before = produced;
          return isStill;
        },
        { ...WAIT_OPTIONS, interval: 300 },
      )
      .toBe(true);
    expect(produced).toBeLessThan(5_000);
    await response.body?.cancel();
  });

  it("ends with an event named error if the source of the log fails, and the client throws that error", async () => {
    const base = await api.listen();
    api.control.logs = failing;
    const client = createClient({ baseUrl: base, token: api.token("read") });
    const seen: string[] = [];
    const read = async () => {
      for await (const { message } of client.apps.followLogs("web")) seen.push(message);
    };
    await expect(read()).rejects.toThrow("the engine went away");
    expect(seen).toEqual(["first"]);
  });
});

describe('the query parameter "since"', () => {
  it.each([
    ["10m", 1_000_000 - 600_000],
    ["1h30m", 1_000_000 - 5_400_000],
    ["1700000000", 1_700_000_000_000],
    ["1700000000.5", 1_700_000_000_500],
    ["2030-01-01T00:00:00Z", Date.parse("2030-01-01T00:00:00Z")],
    ["2030-01-01T01:00:00+01:00", Date.parse("2030-01-01T00:00:00Z")],
  ])("accepts %s", (text, expected) => {
    expect(parseSince(text, 1_000_000)).toBe(expected);
  });

  it.each(
    ["", "yesterday", "2030-01-01", "10", "-10m", "2030-99-99T00:00:00Z"].filter(
      (text) => text !== "10",
    ),
  )("refuses %j", (text) => {
    expect(() => parseSince(text, 0)).toThrow("is not a time");
  });
});
