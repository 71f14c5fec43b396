import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type { Caller } from "../../../../../src/assistant/caller.ts";
import { type DataClass, dataClasses } from "../../../../../src/assistant/data-class.ts";
import type { GenerateRequest } from "../../../../../src/assistant/inference/service-port.ts";
import { ProviderRefusal } from "../../../../../src/assistant/remote/provider-http/provider-refusal.ts";
import { Revoked } from "../../../../../src/assistant/remote/revocations.ts";
import { Mutex } from "../../../../../src/base/mutex.ts";
import {
  acme,
  answerWith,
  CANARY,
  chatRequest,
  createEgressHarness,
  cut,
  data,
  delta,
  type EgressHarness,
  never,
  refused,
  unreachable,
} from "../../../../support/egress-harness.ts";
import { joinText } from "../../../../support/service-harness.ts";

const sandboxed: Caller = {
  connection: ":1.8",
  pid: 8,
  app: { id: "org.example.App", kind: "flatpak" },
};

/** Checks that a finished request leaves no listeners, timers or open bodies. */
function expectNothingLeft({ consent, directory, http }: EgressHarness): void {
  expect([consent.watching, directory.watching, http.reading]).toEqual([0, 0, 0]);
}

describe("the ledger, the consent and the key for a request to a provider", () => {
  test("the ledger is written before the request is sent and before the first event", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("Hello", " there")];
    const { events, error } = await harness.run(chatRequest);
    expect(error).toBeUndefined();
    expect(harness.log).toEqual([
      "ledger inference.generate",
      "ledger egress.send",
      "http /chat/completions",
      "event accepted",
      "event text",
      "event text",
      "event started",
      "event end",
    ]);
    expect(events[0]).toEqual({ type: "accepted", model: "remote:acme:big", ledgerSeq: 0 });
    expect(joinText(events)).toBe("Hello there");
    expect(events.slice(-2)).toEqual([
      { type: "started", prompt: 0, promptTokens: 9, cachedTokens: 0 },
      { type: "end", choice: 0, reason: "stop", completionTokens: 4 },
    ]);
    expect(harness.directory.statuses).toEqual(["ok"]);
    expectNothingLeft(harness);
  });

  test("the ledger entries `inference.generate` and `egress.send` are written in one commit, with all their fields", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.consent.set("mail", true);
    const egress = {
      classes: ["prompt", "mail", "files"],
      allowedOnce: ["files", "mail"],
    } as const;
    const asker = { door: "overlay", caller: sandboxed } as const;
    await harness.run({ ...chatRequest, egress, asker });
    const [generate, send] = harness.ledger.entries;
    expect(generate).toMatchObject({
      name: "inference.generate",
      fields: { model: "remote:acme:big", max_tokens: null },
    });
    expect(send?.commit).toBe(generate?.commit);
    expect(send?.fields).toEqual({
      provider: "acme",
      model: "remote:acme:big",
      origin: "https://api.acme.test",
      kind: "generate",
      classes: ["prompt", "mail", "files"],
      once: ["files"],
      asker: { door: "overlay", connection: ":1.8", app: "org.example.App", verified: true },
      bytes: Buffer.byteLength(JSON.stringify(harness.http.calls[0]?.body)),
      attempt: 1,
    });
  });

  test("the ledger entry of each attempt says who asked, as far as that is known", async () => {
    const caller = { ...sandboxed, app: { id: "org.example.App", kind: "unit" } } as const;
    for (const [asker, field] of [
      [
        { door: "http", uid: 1000 },
        { door: "http", uid: 1000 },
      ],
      [
        { door: "http", uid: undefined },
        { door: "http", uid: null },
      ],
      [
        { door: "settings", caller },
        { door: "settings", connection: ":1.8", app: "org.example.App", verified: false },
      ],
      [undefined, null],
    ] as const) {
      const harness = createEgressHarness();
      harness.http.scripts = [unreachable, answerWith("a")];
      await harness.run({ ...chatRequest, asker });
      harness.http.scripts = [{ pieces: ['{"data":[]}'] }];
      await harness.service.listModels("acme", new AbortController().signal, asker);
      const sends = harness.ledger.entries.filter(({ name }) => name === "egress.send");
      expect(sends.map(({ fields }) => fields["asker"])).toEqual([field, field, field]);
    }
  });

  test("a request that the ledger records after the revocation of its consent is not sent", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    // Berth revokes consent in two steps within a mutex: it writes the ledger entry, and then changes the setting.
    const revoked = new Mutex().runExclusive(async () => {
      const fields = { scope: "prompt", allowed: false };
      await harness.ledger.append({ name: "remote.consent", fields });
      harness.consent.set("prompt", false);
    });
    const { error } = await harness.run(chatRequest);
    await revoked;
    expect(error).toMatchObject({ code: "consent_required" });
    expect(harness.ledger.entries.map(({ name, commit }) => [name, commit])).toEqual([
      ["remote.consent", 1],
      ["inference.generate", 1],
      ["egress.send", 1],
    ]);
    expect(harness.http.calls).toEqual([]);
    expectNothingLeft(harness);
  });

  test("without consent, the refusal is the only effect, whatever the request contains", async () => {
    const scopes = fc.uniqueArray(fc.constantFrom(...dataClasses));
    await fc.assert(
      fc.asyncProperty(scopes, scopes, scopes, async (classes, allowed, allowedOnce) => {
        const harness = createEgressHarness();
        harness.http.scripts = [answerWith("a")];
        for (const scope of dataClasses) harness.consent.set(scope, allowed.includes(scope));
        const { error } = await harness.run({ ...chatRequest, egress: { classes, allowedOnce } });
        const missing = ["prompt" as const, ...classes].filter(
          (scope) => !allowed.includes(scope) && !allowedOnce.includes(scope),
        );
        if (missing.length === 0) {
          expect(error).toBeUndefined();
          expect(harness.http.calls).toHaveLength(1);
        } else {
          expect(error).toMatchObject({ code: "consent_required" });
          const { message } = error instanceof Error ? error : new Error("none");
          expect(message).toContain("acme");
          for (const scope of missing)
            expect(message).toContain(`\`berth remote consent ${scope} on\``);
          expect(harness.log).toEqual([]);
          expect(harness.directory.asked).toBe(0);
        }
        expectNothingLeft(harness);
      }),
      { numRuns: 100 },
    );
  });

  test("for an app without the network, only the consent for this one request counts", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.consent.set("prompt", true);
    const egress = { classes: ["prompt"], allowedOnce: [], isOnceOnly: true } as const;
    const { error } = await harness.run({ ...chatRequest, egress });
    expect(error).toMatchObject({
      code: "consent_required",
      message: expect.stringContaining("the user must allow each request"),
    });
    expect([harness.log, harness.http.calls]).toEqual([[], []]);
    const allowed = { ...egress, allowedOnce: ["prompt"] } as const;
    expect((await harness.run({ ...chatRequest, egress: allowed })).error).toBeUndefined();
    expect(harness.ledger.entries.at(-1)?.fields).toMatchObject({ once: ["prompt"] });
    expectNothingLeft(harness);
  });

  test("without a writable ledger, nothing is sent, on the first and on the second try", async () => {
    const harness = createEgressHarness();
    harness.ledger.mode = "down";
    const unavailable = { code: "ledger_unavailable" };
    expect((await harness.run(chatRequest)).error).toMatchObject(unavailable);
    await expect(
      harness.service.embed({ ...chatRequest, texts: ["a"] }, new AbortController().signal),
    ).rejects.toMatchObject(unavailable);
    await expect(
      harness.service.listModels("acme", new AbortController().signal),
    ).rejects.toMatchObject(unavailable);
    expect(harness.http.calls).toEqual([]);

    harness.ledger.mode = "ok";
    harness.http.scripts = [unreachable];
    harness.http.onOpen = () => (harness.ledger.mode = "down");
    expect((await harness.run(chatRequest)).error).toMatchObject(unavailable);
    expect(harness.http.calls).toHaveLength(1);
    expectNothingLeft(harness);
  });

  test.each([
    ["tiny", "remote:<provider>:<model>"],
    ["remote:acme", "remote:<provider>:<model>"],
    ["remote:other:big", "berth remote"],
  ])("%s is not a model of a provider", async (model, hint) => {
    const harness = createEgressHarness();
    const { error } = await harness.run({ ...chatRequest, model });
    expect(error).toMatchObject({
      code: "model_not_found",
      param: "model",
      message: expect.stringContaining(hint),
    });
    expect(harness.log).toEqual([]);
  });

  test("a provider on the Internet needs a key, and one on a private network does not", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.directory.key = undefined;
    expect((await harness.run(chatRequest)).error).toMatchObject({
      code: "unauthorized",
      message: expect.stringContaining("berth remote key acme"),
    });
    expect(harness.log).toEqual([]);
    const [provider] = harness.directory.providers.splice(0);
    if (provider) harness.directory.providers.push({ ...provider, addressClass: "loopback" });
    expect((await harness.run(chatRequest)).error).toBeUndefined();
    expect(harness.http.calls[0]?.bearer).toBeUndefined();
  });
});

describe("retries of a request to a provider", () => {
  test.each([
    ["a refused connection", unreachable],
    ["cut before the head", cut],
    ["502", refused(502)],
    ["503", refused(503)],
    ["504", refused(504)],
  ])(
    "happen twice after %s, and the ledger records each attempt before it is sent",
    async (_, failure) => {
      const harness = createEgressHarness();
      harness.http.scripts = [failure, failure, answerWith("a")];
      const { error, events } = await harness.run(chatRequest);
      expect(error).toBeUndefined();
      expect(events.at(-1)?.type).toBe("end");
      expect(harness.log.slice(0, 7)).toEqual([
        "ledger inference.generate",
        "ledger egress.send",
        "http /chat/completions",
        "ledger egress.send",
        "http /chat/completions",
        "ledger egress.send",
        "http /chat/completions",
      ]);
      const sends = harness.ledger.entries.filter(({ name }) => name === "egress.send");
      expect(sends.map(({ fields }) => fields["attempt"])).toEqual([1, 2, 3]);
      expect(harness.directory.statuses).toHaveLength(3);
      expect(harness.directory.statuses.at(-1)).toBe("ok");
    },
  );

  test("end after the third attempt", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [refused(503)];
    expect((await harness.run(chatRequest)).error).toMatchObject({ status: 503 });
    expect(harness.http.calls).toHaveLength(3);
  });

  test("happen after 250 and 500 ms, each delay varied by at most a quarter", async () => {
    for (const [random, first, second] of [
      [0, 188, 375],
      [1, 313, 625],
    ] as const) {
      const harness = createEgressHarness({ random: () => random });
      harness.http.scripts = [unreachable];
      const times: number[] = [];
      harness.http.onOpen = () => void times.push(harness.clock.now());
      await harness.run(chatRequest);
      const [one = 0, two = 0, three = 0] = times;
      expect([two - one, three - two]).toEqual([first, second]);
    }
  });

  test("do not happen after other errors, such as a refusal or a timeout", async () => {
    for (const failure of [
      ...[400, 401, 403, 404, 422, 429, 500, 501].map((status) => refused(status)),
      new AssistantError("timeout", "slow"),
      new AssistantError("bad_response", "odd"),
      new ProviderRefusal("provider_failed", "later", { status: 503, retryAfterSeconds: 60 }),
    ]) {
      const harness = createEgressHarness();
      harness.http.scripts = [failure];
      expect((await harness.run(chatRequest)).error).toBe(failure);
      expect(harness.http.calls).toHaveLength(1);
    }
  });

  test("wait for one second if the provider sends `Retry-After: 1`", async () => {
    const harness = createEgressHarness();
    const soon = { status: 503, retryAfterSeconds: 1 };
    harness.http.scripts = [new ProviderRefusal("provider_failed", "soon", soon), answerWith("a")];
    const times: number[] = [];
    harness.http.onOpen = () => void times.push(harness.clock.now());
    await harness.run(chatRequest);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBe(1000);
  });

  test("do not happen once the answer has begun", async () => {
    const harness = createEgressHarness();
    for (const pieces of [[cut], [delta({ content: "a" }), cut], [delta({ content: "a" })]]) {
      harness.http.scripts = [{ pieces }];
      const before = harness.http.calls.length;
      expect((await harness.run(chatRequest)).error).toMatchObject({ code: "cut_off" });
      expect(harness.http.calls.length - before).toBe(1);
      expect(harness.directory.statuses.at(-1)).toBe("failed");
    }
    expectNothingLeft(harness);
  });

  test("delay the event `accepted` by at most five seconds", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.http.head = () => never;
    const leaving = new AbortController();
    const events = harness.service.generate(chatRequest, leaving.signal);
    const first = events.next();
    await harness.clock.advance(5_000);
    expect((await first).value).toMatchObject({ type: "accepted" });
    const second = events.next();
    second.catch(() => {});
    leaving.abort(new Error("gone"));
    await expect(second).rejects.toThrow("gone");
    expectNothingLeft(harness);
  });
});

describe("a credential that changes between two attempts", () => {
  test("is not sent after it was cleared", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [unreachable];
    harness.http.onOpen = () => (harness.directory.key = undefined);
    expect((await harness.run(chatRequest)).error).toMatchObject({ code: "unauthorized" });
    expect(harness.http.calls).toHaveLength(1);
    expect(harness.ledger.entries.filter(({ name }) => name === "egress.send")).toHaveLength(1);
    expectNothingLeft(harness);
  });

  test("is not sent to a provider that was removed or changed its address", async () => {
    for (const now of [
      [],
      [{ ...acme, baseUrl: "https://other.test/v1" }],
      [{ ...acme, addressClass: "private" as const }],
    ]) {
      const harness = createEgressHarness();
      harness.http.scripts = [unreachable];
      harness.http.onOpen = () => void harness.directory.providers.splice(0, 1, ...now);
      expect((await harness.run(chatRequest)).error).toMatchObject({
        code: "model_not_found",
        message: expect.stringContaining("removed"),
      });
      expect(harness.http.calls).toHaveLength(1);
      expectNothingLeft(harness);
    }
  });

  test("is replaced by the new credential, which is kept as secret as the old one", async () => {
    const harness = createEgressHarness();
    const other = "sk-other-9876543210fedcba";
    harness.http.scripts = [
      unreachable,
      { pieces: [data({ error: { message: `bad ${other}` } })] },
    ];
    harness.http.onOpen = () => (harness.directory.key = other);
    const { error } = await harness.run(chatRequest);
    expect(harness.http.calls.map(({ bearer }) => bearer)).toEqual([CANARY, other]);
    expect(error).toMatchObject({ code: "provider_failed" });
    expect(String(error)).not.toContain("9876");
  });

  test("is read again when Berth requests an answer a second time because the first one was not JSON", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("no JSON")];
    harness.http.onOpen = () => (harness.directory.key = undefined);
    const guide = { kind: "json_object" } as const;
    const { error } = await harness.run({ ...chatRequest, guide, isStreamed: false });
    expect(error).toMatchObject({ code: "unauthorized" });
    expect(harness.http.calls).toHaveLength(1);
  });
});

describe("request parameters that providers support differently", () => {
  const limited: GenerateRequest = {
    ...chatRequest,
    maxTokens: 50,
    sampling: { repeatPenalty: 1.1 },
  };

  test.each([
    ["Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead."],
    ["Unknown parameter: stream_options"],
    ["Extra inputs are not permitted, field: 'repeat_penalty'"],
  ])('are adapted after the error "%s", and the adaptation is remembered', async (message) => {
    const harness = createEgressHarness();
    harness.http.scripts = [refused(400, message), answerWith("a")];
    expect((await harness.run(limited)).error).toBeUndefined();
    const [first, second] = harness.http.calls.map(({ body }) => JSON.stringify(body));
    expect(harness.log.filter((line) => line === "ledger egress.send")).toHaveLength(2);
    const name = /max_completion|stream_options|repeat_penalty/.exec(message)?.[0] ?? "";
    expect(first?.includes(`"${name}`)).toBe(!name.startsWith("max"));
    expect(second?.includes(`"${name}`)).toBe(name.startsWith("max"));
    if (name.startsWith("max")) expect(second).not.toContain('"max_tokens"');
    // The next request already leaves out the parameter that the provider has refused.
    await harness.run(limited);
    expect(harness.http.calls).toHaveLength(3);
    expect(JSON.stringify(harness.http.calls[2]?.body)).toBe(second);
  });

  test("are adapted only once, and only if the request contains them", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [refused(400, "use max_completion_tokens")];
    expect((await harness.run(limited)).error).toMatchObject({ status: 400 });
    expect(harness.http.calls).toHaveLength(2);
    expect((await harness.run(chatRequest)).error).toMatchObject({ status: 400 });
    expect(harness.http.calls).toHaveLength(3);
  });
});

describe("clearing the key of a provider", () => {
  const cleared = new Revoked("unauthorized", "the key of acme was cleared", "acme");

  test.each([
    ["before the head", { head: () => never, scripts: [answerWith("a")] }],
    ["before the first byte", { scripts: [{ pieces: [never] }] }],
    ["between pieces", { scripts: [{ pieces: [delta({ content: "a" }), never] }] }],
    ["between two attempts", { scripts: [unreachable] }],
  ])("ends the requests that use it (%s), and nothing more is sent", async (_, http) => {
    const harness = createEgressHarness();
    Object.assign(harness.http, http);
    const running = harness.run(chatRequest);
    await harness.clock.settle();
    await harness.clock.settle();
    harness.directory.revocations.end("other", cleared);
    expect(harness.directory.watching).toBe(1);
    harness.directory.revocations.end("acme", cleared);
    expect((await running).error).toBe(cleared);
    expect(harness.http.calls).toHaveLength(1);
    // Berth records no status for a request that ended because its key was cleared.
    expect(harness.directory.statuses).toEqual(
      http.scripts[0] === unreachable ? ["unreachable"] : [],
    );
    expectNothingLeft(harness);
  });

  test("ends requests for lists of models too, and no part of their answers is stored", async () => {
    const harness = createEgressHarness();
    harness.http.head = () => never;
    harness.http.scripts = [answerWith("a")];
    const asked = harness.service.listModels("acme", new AbortController().signal);
    asked.catch(() => {});
    const listed = harness.service.models();
    await harness.clock.settle();
    await harness.clock.settle();
    expect(harness.directory.watching).toBe(2);
    harness.directory.revocations.end("acme", cleared);
    await expect(asked).rejects.toBe(cleared);
    expect(await listed).toEqual([]);
    expect(harness.directory.statuses).toEqual([]);
    expectNothingLeft(harness);
  });

  test("while the ledger entry is being written prevents the request", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.ledger.onAppend = () => harness.directory.revocations.end("acme", cleared);
    expect((await harness.run(chatRequest)).error).toBe(cleared);
    expect(harness.http.calls).toEqual([]);
    expectNothingLeft(harness);
  });
});

describe("revoking consent", () => {
  type Moment =
    | "before the head"
    | "before the first byte"
    | "between pieces"
    | "between two attempts";
  const moments: readonly Moment[] = [
    "before the head",
    "before the first byte",
    "between pieces",
    "between two attempts",
  ];

  test("at any moment ends the requests that need the consent, and nothing more is sent", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...moments),
        fc.constantFrom(...dataClasses),
        fc.uniqueArray(fc.constantFrom(...dataClasses)),
        fc.boolean(),
        async (moment, revoked, others, isOnce) => {
          const harness = createEgressHarness();
          for (const scope of dataClasses) harness.consent.set(scope, true);
          if (moment === "before the head") harness.http.head = () => never;
          harness.http.scripts =
            moment === "between two attempts"
              ? [unreachable]
              : moment === "between pieces"
                ? [{ pieces: [delta({ content: "a" }), never] }]
                : [{ pieces: [never] }];
          const classes: DataClass[] = ["prompt", ...others];
          const allowedOnce: DataClass[] = isOnce ? [revoked] : [];
          const request = { ...chatRequest, egress: { classes, allowedOnce } };
          const leaving = new AbortController();
          const running = harness.run(request, leaving.signal);
          await harness.clock.settle();
          await harness.clock.settle();
          const sent = harness.http.calls.length;
          expect(sent).toBe(1);
          harness.consent.set(revoked, false);
          const isEnded = classes.includes(revoked) && !isOnce;
          if (!isEnded) leaving.abort(new Error("gone"));
          const { error } = await running;
          expect(error).toMatchObject(
            isEnded
              ? { code: "consent_required", message: expect.stringContaining("revoked") }
              : { message: "gone" },
          );
          expect(harness.http.calls).toHaveLength(sent);
          expect(harness.directory.statuses).not.toContain("failed");
          expectNothingLeft(harness);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("while the ledger entry is being written prevents the request", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [answerWith("a")];
    harness.ledger.onAppend = () => harness.consent.set("prompt", false);
    expect((await harness.run(chatRequest)).error).toMatchObject({ code: "consent_required" });
    expect(harness.http.calls).toEqual([]);
  });

  test("is reported as consent_required even if the connection fails first", async () => {
    const harness = createEgressHarness();
    const body = async function* () {
      yield Buffer.from(delta({ content: "a" }));
      harness.consent.set("prompt", false);
      throw cut;
    };
    const answer = { status: 200, contentType: "text/event-stream", body };
    harness.http.open = () => Promise.resolve(answer);
    const { error } = await harness.run(chatRequest);
    expect(error).toMatchObject({ code: "consent_required" });
    expect(harness.directory.statuses).toEqual(["ok"]);
  });

  test("also ends the request for an embedding", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [never] }];
    const embedding = harness.service.embed(
      { ...chatRequest, texts: ["a"] },
      new AbortController().signal,
    );
    embedding.catch(() => {});
    await harness.clock.settle();
    await harness.clock.settle();
    harness.consent.set("prompt", false);
    await expect(embedding).rejects.toMatchObject({ code: "consent_required" });
    expectNothingLeft(harness);
  });
});

describe("a caller that stops reading the answer of a provider", () => {
  test.each(["by an abort", "by leaving the loop"])("closes the body: %s", async (how) => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [delta({ content: "a" }), never] }];
    const leaving = new AbortController();
    const events = harness.service.generate(chatRequest, leaving.signal);
    await events.next();
    expect((await events.next()).value).toMatchObject({ type: "text" });
    expect(harness.http.reading).toBe(1);
    if (how === "by an abort") {
      const pending = events.next();
      pending.catch(() => {});
      leaving.abort(new Error("gone"));
      await expect(pending).rejects.toThrow("gone");
    } else await events.return();
    expect(harness.directory.statuses).toEqual(["ok"]);
    expectNothingLeft(harness);
  });
});

test("no key appears in an error, a ledger entry or a body", async () => {
  const harness = createEgressHarness();
  const echo = { error: { message: `Incorrect API key provided: ${CANARY}`, code: 401 } };
  const seen: unknown[] = [];
  for (const pieces of [
    [`data: ${JSON.stringify(echo)}\n\n`],
    [JSON.stringify(echo)],
    [`data: {${CANARY}\n\n`],
    [CANARY],
    [`<html>${CANARY}`],
  ]) {
    harness.http.scripts = [{ pieces }];
    const { error, events } = await harness.run(chatRequest);
    expect(error).toBeInstanceOf(AssistantError);
    if (error instanceof Error) seen.push(error.message, String(error.cause), events);
  }
  seen.push(
    harness.ledger.entries,
    harness.http.calls.map(({ body }) => body),
  );
  expect(JSON.stringify(seen)).not.toContain("canary");
  expect(harness.http.calls[0]?.bearer).toBe(CANARY);
});
