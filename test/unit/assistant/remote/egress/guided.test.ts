import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../../../src/assistant/inference/service-port.ts";
import {
  answerWith,
  chatRequest,
  createEgressHarness,
  data,
  delta,
} from "../../../../support/egress-harness.ts";
import { joinText } from "../../../../support/service-harness.ts";

const guide = { kind: "json_schema", name: "a", schema: { type: "object" }, strict: true } as const;
const whole: GenerateRequest = { ...chatRequest, guide, isStreamed: false };

const choices = (...texts: readonly string[]) => ({
  pieces: [
    ...texts.map((content, index) =>
      data({ choices: [{ index, delta: { content }, finish_reason: "stop" }] }),
    ),
    data("[DONE]"),
  ],
});

const text = (name: string) => ({ kind: "text", text: name }) as const;

describe("an answer of a provider that must be JSON", () => {
  test("is yielded once it has been validated", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("{", "}")];
    const { events, error } = await harness.run(whole);
    expect(error).toBeUndefined();
    expect(events.map(({ type }) => type)).toEqual(["accepted", "started", "text", "text", "end"]);
    expect(harness.http.calls).toHaveLength(1);
  });

  test("is requested once more if it is invalid, with another seed and a ledger entry", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("oh, {}"), answerWith("{}")];
    const { events, error } = await harness.run({ ...whole, sampling: { seed: 1 } });
    expect(error).toBeUndefined();
    expect(joinText(events)).toBe("{}");
    expect(events.map(({ type }) => type)).toEqual(["accepted", "started", "text", "end"]);
    const seeds = harness.http.calls.map(
      ({ body }) => JSON.stringify(body).match(/"seed":(\d+)/)?.[1],
    );
    expect(new Set(seeds).size).toBe(2);
    const sends = harness.ledger.entries.filter(({ name }) => name === "egress.send");
    expect(sends.map(({ fields }) => fields["attempt"])).toEqual([1, 2]);
    expect(harness.log.filter((line) => /egress|http/.test(line))).toEqual([
      "ledger egress.send",
      "http /chat/completions",
      "ledger egress.send",
      "http /chat/completions",
    ]);
  });

  test("is not requested a third time", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("no")];
    const { events, error } = await harness.run(whole);
    expect(error).toMatchObject({ code: "invalid_output" });
    expect(joinText(events)).toBe("");
    expect(harness.http.calls).toHaveLength(2);
  });

  test("is requested again only for those of several choices that are invalid", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [choices("no", "[1]", "nor"), choices("[0]", "[2]")];
    const { events, error } = await harness.run({ ...whole, n: 3 });
    expect(error).toBeUndefined();
    expect([0, 1, 2].map((choice) => joinText(events, choice))).toEqual(["[0]", "[1]", "[2]"]);
    expect(harness.http.calls[1]?.body).toMatchObject({ n: 2 });
  });

  test("is requested again only for those of several prompts whose answers are invalid", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [choices("[0]", "no", "nor", "[3]"), choices("[1]", "[2]")];
    const prompts = [text("a"), text("b")];
    const { events, error } = await harness.run({ ...whole, prompts, n: 2 });
    expect(error).toBeUndefined();
    const told = [0, 1, 2, 3].map((choice) => joinText(events, choice));
    expect(told).toEqual(["[0]", "[1]", "[2]", "[3]"]);
    expect(harness.http.calls[1]?.body).toMatchObject({ prompt: ["a", "b"] });
    expect(events.filter(({ type }) => type === "end")).toHaveLength(4);
  });

  test("is forwarded at once if it is streamed, and ends with an error if it is invalid", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("oh")];
    const { events, error } = await harness.run({ ...whole, isStreamed: true });
    expect(error).toMatchObject({ code: "invalid_output" });
    expect(joinText(events)).toBe("oh");
    expect(harness.http.calls).toHaveLength(1);
  });

  test("must not be a list if an object was requested", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("[]"), answerWith("{}")];
    const { events } = await harness.run({ ...whole, guide: { kind: "json_object" } });
    expect(joinText(events)).toBe("{}");
  });

  test("is not validated if a limit has cut it off or if it calls a tool", async () => {
    const harness = createEgressHarness();
    const call = delta({ tool_calls: [{ index: 0, id: "c", function: { name: "look" } }] });
    for (const pieces of [
      [delta({ content: "{" }, "length"), data("[DONE]")],
      [call, delta({}, "tool_calls"), data("[DONE]")],
    ]) {
      harness.http.scripts = [{ pieces }];
      const { error } = await harness.run(whole);
      expect(error).toBeUndefined();
    }
    expect(harness.http.calls).toHaveLength(2);
  });
});

test("an invalid JSON answer is not requested again after consent was revoked", async () => {
  const harness = createEgressHarness();
  harness.http.scripts = [answerWith("no")];
  harness.directory.noteStatus = () => harness.consent.set("prompt", false);
  const { error } = await harness.run(whole);
  expect(error).toMatchObject({ code: "consent_required" });
  expect(harness.http.calls).toHaveLength(1);
});
