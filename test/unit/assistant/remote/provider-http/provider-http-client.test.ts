import { expect, it } from "vitest";
import { openDescriptors } from "../../../../support/open-descriptors.ts";
import { catchAssistantError } from "../../../../support/provider/catch-assistant-error.ts";
import {
  createChatBody,
  ProviderHarness,
  readText,
} from "../../../../support/provider/provider-harness.ts";
import type { ScriptedResponse } from "../../../../support/provider/scripted-response.ts";

const never = () => new Promise<never>(() => {});
/** Sends one piece, and then no data until the connection is closed. */
const endless: ScriptedResponse = {
  type: "chat",
  text: ["a", "b"],
  before: (piece) => (piece ? never() : undefined),
};

it("the client reuses a connection for the next request to the same provider", async () => {
  await using harness = await ProviderHarness.start({ tls: true });
  for (let turn = 0; turn < 5; turn++) await harness.text();

  expect(harness.provider.connectionsTotal).toBe(1);
  await harness.http.closeIdle("acm");
  expect(harness.provider.connections).toBe(1);
  await harness.http.closeIdle("acme");
  await harness.provider.until(({ connections }) => connections === 0);
});

it("the client repeats a request only if a reused connection was closed", async () => {
  await using harness = await ProviderHarness.start();
  await harness.text();
  // The provider closes the reused connection before it answers, as a server does that no longer keeps it open.
  harness.provider.next({ type: "reset" });
  expect(await harness.text()).toContain("[DONE]");
  expect(harness.provider.requests).toHaveLength(3);

  harness.provider.next({ type: "reset" }, { type: "reset" });
  expect(await catchAssistantError(harness.open())).toMatchObject({ code: "unreachable" });
  expect(harness.provider.requests).toHaveLength(5);
});

it("the client repeats a request only once, even if every idle connection was closed", async () => {
  await using harness = await ProviderHarness.start();
  await Promise.all(Array.from({ length: 4 }, () => harness.text()));
  harness.provider.dropConnections();

  expect(await harness.text()).toContain("[DONE]");
});

it("the client does not repeat a request after it has received a byte of the answer, or after one second", async () => {
  await using harness = await ProviderHarness.start();
  await harness.text();
  harness.provider.next({ type: "raw", bytes: "HTTP/1.1 2", afterwards: "cut" });
  expect(await catchAssistantError(harness.open())).toMatchObject({ code: "bad_response" });
  await harness.text();
  harness.provider.next({ type: "chat", text: ["a", "b"], afterwards: { after: 1, do: "cut" } });
  expect(await catchAssistantError(harness.text())).toMatchObject({ code: "cut_off" });

  expect(harness.provider.requests).toHaveLength(4);
});

it("the client does not keep more idle connections than its limit", async () => {
  await using harness = await ProviderHarness.start();
  await Promise.all(Array.from({ length: 30 }, () => harness.text()));

  expect(harness.provider.connectionsTotal).toBe(30);
  await harness.provider.until(({ connections }) => connections === 8);
  expect(await harness.text()).toContain("[DONE]");
});

it("the client does not keep a connection that the provider wants to close", async () => {
  await using harness = await ProviderHarness.start();
  harness.provider.next({
    type: "status",
    status: 200,
    headers: { connection: "close" },
    body: "{}",
  });
  await harness.text();
  await harness.provider.until(({ connections }) => connections === 0);

  expect(await harness.text()).toContain("[DONE]");
});

it("an abort by the caller frees the connection at every moment", async () => {
  await using harness = await ProviderHarness.start();
  const whoLeaves = async (when: (left: AbortController) => Promise<unknown>) => {
    const left = new AbortController();
    await expect(when(left)).rejects.toThrow("gone");
    await harness.provider.until(({ connections }) => connections === 0);
    await harness.untilQuiet();
    expect(harness.clock.pending).toBe(0);
  };
  const gone = new Error("gone");

  await whoLeaves(async (left) => {
    left.abort(gone);
    return await harness.open({ signal: left.signal });
  });
  await whoLeaves(async (left) => {
    const opened = harness.open({ signal: left.signal });
    left.abort(gone);
    return await opened;
  });
  await whoLeaves(async (left) => {
    harness.provider.next({ type: "hang" });
    const sofar = harness.provider.requests.length;
    const opened = harness.open({ signal: left.signal });
    await harness.provider.until(({ requests }) => requests.length > sofar);
    left.abort(gone);
    return await opened;
  });
  await whoLeaves(async (left) => {
    harness.provider.next(endless);
    const answer = await harness.open({ signal: left.signal });
    const text = readText(answer);
    left.abort(gone);
    return await text;
  });
  await whoLeaves(async (left) => {
    harness.provider.next(endless);
    const answer = await harness.open({ signal: left.signal });
    left.abort(gone);
    return await readText(answer);
  });
});

it("a caller that ends the body frees the connection, whether the body has begun or not", async () => {
  await using harness = await ProviderHarness.start();
  harness.provider.next(endless, endless);
  const begun = await harness.open();
  for await (const piece of begun.body()) {
    expect(piece.length).toBeGreaterThan(0);
    break;
  }
  const notBegun = await harness.open();
  await notBegun.body()[Symbol.asyncIterator]().return?.();

  await harness.provider.until(({ connections }) => connections === 0);
});

it("the disposal of the client ends all requests in progress", async () => {
  const harness = await ProviderHarness.start({ tls: true });
  await harness.text();
  harness.provider.next(endless, { type: "hang" });
  const answer = await harness.open();
  const text = readText(answer);
  const opened = harness.open({ limits: { headMs: 60_000 } });
  await harness.provider.until(({ requests }) => requests.length === 3);
  const connecting = harness.open();
  const all = [text, opened, connecting].map((waited) => catchAssistantError(waited));
  await harness.http[Symbol.asyncDispose]();

  for (const error of await Promise.all(all))
    expect(error).toMatchObject({ code: "shutting_down" });
  expect(await catchAssistantError(harness.open())).toMatchObject({ code: "shutting_down" });
  await harness.provider.until(({ connections }) => connections === 0);
  expect(harness.clock.pending).toBe(0);
  await harness[Symbol.asyncDispose]();
});

it("a hundred answers are streamed concurrently, each to its own caller", async () => {
  await using harness = await ProviderHarness.start({ tls: true });
  const asked = Array.from({ length: 100 }, (_, number) => `number ${number} please`);
  let here = 0;
  const together = new Promise<void>((resolve) => {
    harness.provider.next(
      ...asked.map(
        (): ScriptedResponse => ({
          type: "chat",
          text: ["x"],
          before: () => {
            here += 1;
            if (here === asked.length) resolve();
            return together;
          },
        }),
      ),
    );
  });
  const answers = await Promise.all(asked.map(() => harness.open()));
  expect(harness.provider.connections).toBe(100);
  const texts = await Promise.all(answers.map((answer) => readText(answer)));
  expect(texts.every((text) => text.includes("[DONE]"))).toBe(true);

  const own = await Promise.all(
    asked.map((words) => harness.text({ body: createChatBody(words, { stream: true }) })),
  );
  for (const [number, text] of own.entries()) expect(text).toContain(`" ${number}"`);
});

const turns: Readonly<Record<string, ScriptedResponse>> = {
  "/v1/endless": endless,
  "/v1/cut": { type: "chat", text: ["a", "b"], afterwards: { after: 1, do: "cut" } },
  "/v1/silent": endless,
  "/v1/hang": { type: "hang" },
  "/v1/refused": { type: "status", status: 500, body: "no" },
  "/v1/garbage": { type: "raw", bytes: "?\r\n\r\n", afterwards: "hang" },
  "/v1/compressed": {
    type: "status",
    status: 200,
    headers: { "content-encoding": "br" },
    body: "x",
  },
  "/v1/long": { type: "chat", text: Array.from({ length: 100 }, () => "long") },
};

it("no resource remains after 200 streams that were cancelled, cut off, too slow or refused", async () => {
  await using harness = await ProviderHarness.start({
    tls: true,
    script: ({ path }) => turns[path],
  });
  await harness.text();
  await harness.http.closeIdle("acme");
  await harness.provider.until(({ connections }) => connections === 0);
  const descriptors = openDescriptors();
  const kinds: readonly (() => Promise<unknown>)[] = [
    async () => {
      const left = new AbortController();
      const answer = await harness.open({ signal: left.signal, path: "/endless" });
      const text = readText(answer);
      left.abort(new Error("gone"));
      return await text;
    },
    () => harness.text({ path: "/cut" }),
    () => harness.text({ path: "/silent", limits: { silentMs: 20 } }),
    () => harness.open({ path: "/hang", limits: { headMs: 20 } }),
    () => harness.open({ path: "/refused" }),
    () => harness.text({ path: "/garbage" }),
    () => harness.open({ path: "/compressed" }),
    () => harness.text({ path: "/long", limits: { bytesMax: 1_000 } }),
  ];
  const outcomes = await Promise.allSettled(
    Array.from({ length: 200 }, async (_, number) => kinds[number % kinds.length]?.()),
  );

  expect(outcomes.filter(({ status }) => status === "fulfilled")).toEqual([]);
  await harness.http.closeIdle("acme");
  await harness.provider.until(({ connections }) => connections === 0);
  await harness.untilQuiet();
  expect(harness.clock.pending).toBe(0);
  await expect.poll(openDescriptors).toBeLessThanOrEqual(descriptors);
});
