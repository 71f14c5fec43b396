import { expect, it } from "vitest";
import { findFaultyResponse } from "../../support/provider/faulty-responses.ts";
import { startRemoteModels } from "../../support/provider/remote-models-harness.ts";
import { HttpChat } from "../../support/remote-companion-harness.ts";
import { forever, started } from "../../support/scripted-service.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/** A time slightly longer than a provider may be silent. */
const LIMIT_MS = 300_000 + 1_000;
const STREAMS = 200;
const KEPT_MAX = 8;

it("200 hanging streams end at their time limit, and leave no timer and no connection", async () => {
  const clock = new VirtualClock();
  await using elsewhere = await startRemoteModels({
    clock,
    provider: { script: findFaultyResponse },
  });
  const { provider, http: harness, ledger } = elsewhere;
  // The local model's streams run at the same time. They are only slow, and must continue.
  harness.service.script = async function* (request, signal) {
    yield { type: "accepted", model: "tiny", ledgerSeq: 1 };
    yield started();
    yield* [];
    await forever(signal);
  };
  const chat = (model: string, text: string) =>
    new HttpChat(harness.url, { model, stream: true, messages: [{ role: "user", content: text }] });
  await chat("remote:there:test-model", "Hello").result;
  const timersBefore = clock.timerCount;
  const appended = ledger.entries.length;

  const far = Array.from({ length: STREAMS }, (_, number) =>
    chat("remote:there:test-model", `Tell me #${number % 2 === 0 ? "hang" : "hang-head"}`),
  );
  const near = Array.from({ length: 5 }, () => chat("tiny", "Tell me"));
  await provider.until(({ requests }) => requests.length === STREAMS + 1);
  await Promise.all(far.filter((_, number) => number % 2 === 0).map(({ begun }) => begun));
  await expect.poll(() => harness.service.running).toBe(near.length);
  // The test advances the clock only after the last text of every stream, because each text restarts the timer of its
  // stream.
  await clock.advance(LIMIT_MS);
  const ends = await Promise.all(far.map(({ result: end }) => end));
  expect(ends.map(({ code }) => code)).toEqual(ends.map(() => "timeout"));
  expect(provider.requests).toHaveLength(STREAMS + 1);
  expect(harness.service.running).toBe(near.length);
  for (const one of near) one.disconnect();

  await expect.poll(() => provider.requests.map(({ state }) => state)).not.toContain("open");
  await expect.poll(() => harness.service.running).toBe(0);
  await expect.poll(() => clock.timerCount).toBe(timersBefore);
  await expect.poll(() => provider.connections).toBeLessThanOrEqual(KEPT_MAX);
  const sent = ledger.entries.slice(appended).filter(({ name }) => name === "egress.send");
  expect(sent).toHaveLength(STREAMS);
});
