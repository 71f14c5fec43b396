import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { CountingClock } from "../../support/counting-clock.ts";
import {
  RawClient,
  rawPost,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, forever } from "../../support/scripted-service.ts";

function descriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

test("1,000 cancelled streams leave no descriptor, timer or listener", async () => {
  const clock = new CountingClock();
  await using harness = await startInferenceHttp({ clock });
  harness.service.script = async function* (_request, signal) {
    yield accepted;
    yield { type: "text", choice: 0, text: "one" };
    await forever(signal);
  };
  const body = JSON.stringify({ messages: [{ role: "user", content: "hi" }], stream: true });
  const round = async (count: number, leave: (client: RawClient) => void) => {
    const clients = Array.from({ length: count }, () =>
      new RawClient(harness.port).write(rawPost("/v1/chat/completions", body)),
    );
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(count);
    for (const client of clients) leave(client);
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
  };

  await round(10, (client) => client.socket.destroy());
  await expect.poll(() => harness.server.server.listenerCount("close"), SHORT_WAIT).toBeLessThan(5);
  const before = descriptors();
  for (let batch = 0; batch < 5; batch += 1) {
    await round(100, (client) => client.socket.destroy());
    await round(100, (client) => client.socket.resetAndDestroy());
  }
  expect(harness.service.aborted).toBe(1_010);
  await expect.poll(descriptors, SHORT_WAIT).toBeLessThanOrEqual(before);
  expect(clock.pending).toBe(0);
  expect(await harness.metrics.metrics()).toMatch(/connections_open 0\n[^]*requests_underway 0\n/);
  // Fifty requests over one kept-alive connection, such as that of the openai client, leave no timers or sockets.
  using client = new RawClient(harness.port);
  harness.service.script = function* () {
    yield accepted;
    yield { type: "end", choice: 0, reason: "stop", completionTokens: 0 };
  };
  for (let count = 1; count <= 50; count += 1) {
    client.write(rawPost("/v1/chat/completions", body));
    await client.until((text) => text.split("[DONE]").length === count + 1);
  }
  expect(clock.pending).toBe(0);
  const sockets = await new Promise<number>((resolve) => {
    harness.server.server.getConnections((_error, open) => resolve(open));
  });
  expect(sockets).toBe(1);
});
