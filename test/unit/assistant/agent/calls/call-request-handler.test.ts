import { describe, expect, it } from "vitest";
import { defaultCallLimits } from "../../../../../src/assistant/agent/calls/caller-quotas.ts";
import type { Caller } from "../../../../../src/assistant/caller.ts";
import {
  AgentHarness,
  NOTES,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

describe("a call of a read tool", () => {
  it("runs at once with a trusted provenance chain, after its ledger entries were committed together", async () => {
    const harness = await AgentHarness.open();
    let atCall: string[] = [];
    harness.apps.fault = (step) => {
      if (step === "definition") atCall = harness.ledger.entries.map(({ name }) => name);
    };
    const answer = await harness.request("list", {});
    expect(atCall).toEqual(["agent.call.requested", "agent.call.dispatch"]);
    const [requested, dispatch] = harness.ledger.entries;
    expect(requested?.commit).toBe(dispatch?.commit);
    expect(answer).toMatchObject({
      disposition: "executed",
      detail: {
        v: 1,
        code: "ok",
        app_id: NOTES,
        tool: "list",
        tier: "read",
        effective_tier: "read",
      },
    });
    expect(answer.detail).toMatchObject({
      chain: ["user"],
      result: { notes: [] },
      undoable: false,
      ms: 0,
    });
    expect(answer.detail.ledger?.seq).toBe(dispatch?.seq);
    await harness.clock.settle();
    expect(harness.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.dispatch",
      "call.result:ok",
    ]);
    const [, , result] = harness.ledger.entries;
    expect(result?.fields).toMatchObject({ dispatch: dispatch?.seq, status: "executed" });
    expect(result?.sealed).toEqual({ result: '{"content":[],"structured":{"notes":[]}}' });
  });

  it("runs at once even if the caller is a systemd unit, because any program can choose a unit name", async () => {
    const harness = await AgentHarness.open();
    const unit: Caller = { ...userCaller(), app: { id: "org.example.shell", kind: "unit" } };
    const answer = await harness.request("list", {}, { caller: unit });
    expect(answer).toMatchObject({ disposition: "executed", detail: { chain: ["user"] } });
    const callId = await harness.park("create", { title: "a" }, unit);
    expect(harness.confirmationRequests.at(-1)?.spec.caller).toEqual({
      app: "org.example.shell",
      verified: false,
      actor: null,
    });
    await harness.agent.registerConfirmer(unit);
    expect((await harness.agent.confirm(callId, true, unit)).status).toBe("executed");
  });

  it("sends the arguments as canonical JSON", async () => {
    const harness = await AgentHarness.open();
    await harness.request("star", '{ "body": "b", "title": "\\u0061" }');
    expect(harness.app.received).toEqual([{ name: "star", args: { body: "b", title: "a" } }]);
    expect(harness.ledger.entries[0]?.sealed).toEqual({ args: '{"body":"b","title":"a"}' });
  });

  it("records the caller in the ledger, and seals the arguments", async () => {
    const harness = await AgentHarness.open();
    await harness.request(
      "create",
      { title: "secret words" },
      { caller: sandboxedCaller("org.example.chat"), actor: "me" },
    );
    const [requested] = harness.ledger.entries;
    expect(requested?.fields).toEqual({
      call: 1,
      app: NOTES,
      tool: "create",
      tier: "write",
      effective: "destructive",
      chain: ["user", "app:org.example.chat"],
      caller: { connection: ":1.9", app: "org.example.chat", verified: true },
      actor: "me",
    });
    expect(JSON.stringify(harness.ledger.entries.map(({ fields }) => fields))).not.toContain(
      "secret",
    );
  });

  it.each([undefined, []])(
    "needs confirmation with the provenance chain %j",
    async (provenance) => {
      const harness = await AgentHarness.open();
      const answer = await harness.request("list", {}, { provenance });
      expect(answer.disposition).toBe("confirm-chip");
      expect(answer.detail).toMatchObject({
        code: "confirm",
        tier: "read",
        effective_tier: "write",
        chain: [],
      });
      expect(harness.app.received).toEqual([]);
    },
  );
});

describe("a call that the agent refuses", () => {
  const many = Array.from({ length: 40 }, () => "user");
  const cases = [
    ["unknown_app", { appId: "org.example.none" }, "create", {}],
    ["unknown_tool", {}, "none", {}],
    ["bad_json", {}, "create", "{"],
    ["bad_json", {}, "create", '{"title":"a","title":"b"}'],
    ["invalid_args", {}, "create", {}],
    ["invalid_args", {}, "create", { title: "x".repeat(121) }],
    ["invalid_args", {}, "create", { title: "a", more: 1 }],
    ["invalid_args", { provenance: many }, "create", { title: "a" }],
  ] as const;

  it.each(cases)(
    "fails with the code %s, and the user is not asked (case %#)",
    async (code, more, tool, args) => {
      const harness = await AgentHarness.open();
      const answer = await harness.request(tool, args, more);
      expect(answer).toMatchObject({ disposition: "failed", detail: { code } });
      expect(harness.confirmationRequests).toEqual([]);
      expect(harness.app.received).toEqual([]);
      expect(harness.ledger.entryNamesOfCall(answer.callId)).toEqual([
        "call.requested",
        `call.result:${code}`,
      ]);
      expect(answer.detail.ledger?.seq).toBe(0);
    },
  );

  it("reports the place of each invalid argument", async () => {
    const harness = await AgentHarness.open();
    const { detail } = await harness.request("create", { title: 7, other: 1 });
    expect(detail.errors).toContainEqual({
      path: "/title",
      message: "must be string",
      types: ["string"],
    });
    expect(detail.errors?.map(({ path }) => path)).toContain("/other");
    expect(detail).toMatchObject({ tier: "write", effective_tier: "write" });
  });

  it("keeps its arguments as they are: no defaults are added, and no values are converted", async () => {
    const harness = await AgentHarness.open();
    expect((await harness.request("create", { title: 1 })).detail.code).toBe("invalid_args");
    expect((await harness.request("delete", { id: 1 })).detail.code).toBe("invalid_args");
  });

  it("is denied if the user has disabled the app or the tool; the app is checked first", async () => {
    const harness = await AgentHarness.open();
    const code = async (tool = "create", args: object = {}) =>
      (await harness.request(tool, JSON.stringify(args))).detail.code;
    harness.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    expect(await code()).toBe("tool_disabled");
    expect(await code("list")).toBe("ok");
    harness.rules = { ...harness.rules, disabledApps: new Set([NOTES]) };
    expect(await code()).toBe("app_disabled");
    expect(await code("none")).toBe("unknown_tool");
    // The arguments of a disabled tool are not validated.
    expect((await harness.request("create", "{")).detail.code).toBe("app_disabled");
    expect(await code("create", { title: 1 })).toBe("app_disabled");
    harness.rules = { ...harness.rules, isPaused: true };
    expect(await code("none")).toBe("paused");
  });

  it("is recorded in the ledger with long names cut off", async () => {
    const harness = await AgentHarness.open();
    const appId = "x".repeat(3_000_000);
    const answer = await harness.request("😀".repeat(100_000), {}, { appId });
    expect(answer.detail.code).toBe("unknown_app");
    expect(answer.detail.app_id.length).toBeLessThan(300);
    expect(JSON.stringify(harness.ledger.entries).length).toBeLessThan(5_000);
  });

  it("does not begin if the request was aborted before", async () => {
    const harness = await AgentHarness.open();
    const gone = AbortSignal.abort(new Error("gone"));
    const request = {
      appId: NOTES,
      tool: "list",
      argsJson: "{}",
      actor: undefined,
      provenance: ["user"],
    };
    await expect(harness.agent.requestCall(request, userCaller(), gone)).rejects.toThrow("gone");
    expect(harness.ledger.entries).toEqual([]);
  });
});

describe("a call to an app that misbehaves", () => {
  it.each([
    ["tool_error", { kind: "error", message: "broken" }],
    ["transport_closed", { kind: "die" }],
    ["bad_result", { kind: "nonsense" }],
    ["result_too_large", { kind: "huge" }],
    ["tool_error", { kind: "result", isError: true, content: [{ type: "text", text: "no" }] }],
  ] as const)("fails with the code %s (case %#)", async (code, answer) => {
    const harness = await AgentHarness.open();
    harness.app.respond = () => answer;
    const { disposition, detail, callId } = await harness.request("list", {});
    expect(disposition).toBe("failed");
    expect(detail).toMatchObject({ code, undoable: false });
    await harness.clock.settle();
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.dispatch",
      `call.result:${code}`,
    ]);
  });

  it("fails when it is dispatched if the app has exited since the question", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    await harness.app.die();
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "failed", detail: { code: "app_unavailable" } });
  });
});

describe("limits of the agent", () => {
  const limits = { ...defaultCallLimits, parkedPerCaller: 2, parkedTotal: 3, runningPerCaller: 2 };

  it("apply to a sandboxed app as a whole, whatever its connections, and a burst of refusals is recorded once", async () => {
    const harness = await AgentHarness.open({
      limits: { ...limits, sandboxed: { perSecond: 1, burst: 2 } },
    });
    const ask = (connection: string) =>
      harness.request("none", {}, { caller: sandboxedCaller("org.example.chat", connection) });
    const codes = [];
    for (const connection of [":1.1", ":1.2", ":1.3", ":1.4"])
      codes.push((await ask(connection)).detail.code);
    expect(codes).toEqual(["unknown_tool", "unknown_tool", "rate_limited", "rate_limited"]);
    const written = harness.ledger.entries.filter(
      ({ fields }) => fields["code"] === "rate_limited",
    );
    expect(written).toHaveLength(1);
    await harness.clock.advance(1_000);
    expect((await ask(":1.5")).detail.code).toBe("unknown_tool");
  });

  it("count a call with large arguments as several calls", async () => {
    const sandbox = { perSecond: 1, burst: 10 };
    const harness = await AgentHarness.open({ limits: { ...limits, sandboxed: sandbox } });
    const ask = async (chars: number) => {
      const caller = sandboxedCaller("org.example.chat");
      return (await harness.request("create", { title: "x".repeat(chars) }, { caller })).detail
        .code;
    };
    expect([await ask(1_000_000), await ask(1_000)]).toEqual(["invalid_args", "rate_limited"]);
    await harness.clock.advance(5_000);
    expect([await ask(1_000), await ask(90_000), await ask(1_000)]).toEqual([
      "invalid_args",
      "rate_limited",
      "invalid_args",
    ]);
  });

  it("bound the number of calls that run concurrently", async () => {
    const harness = await AgentHarness.open({ limits });
    harness.app.respond = () => ({ kind: "hang" });
    const hanging = [harness.request("list", {}), harness.request("list", {})];
    expect((await harness.request("list", {})).detail.code).toBe("rate_limited");
    expect((await harness.request("none", {}, { caller: userCaller(":1.2") })).detail.code).toBe(
      "unknown_tool",
    );
    await harness.app.die();
    await Promise.all(hanging);
    harness.startNotes();
    expect((await harness.request("list", {})).detail.code).toBe("ok");
  });

  it("leave the user's programs a part of the calls that may wait when sandboxed apps use theirs", async () => {
    const harness = await AgentHarness.open({ limits: { ...limits, parkedSandboxed: 2 } });
    const ask = (caller = userCaller()) => harness.request("create", { title: "a" }, { caller });
    const first = await ask(sandboxedCaller("org.example.one"));
    expect((await ask(sandboxedCaller("org.example.two"))).disposition).toBe("confirm-modal");
    expect((await ask(sandboxedCaller("org.example.three"))).detail.code).toBe("too_many_parked");
    expect((await ask()).disposition).toBe("confirm-chip");
    expect((await ask()).detail.code).toBe("too_many_parked");
    await harness.agent.confirm(first.callId, false, userCaller());
    expect((await ask(sandboxedCaller("org.example.three"))).disposition).toBe("confirm-modal");
  });

  it("bound the number of calls that wait for confirmation, per caller and in total", async () => {
    const harness = await AgentHarness.open({ limits });
    const first = await harness.park();
    await harness.park();
    const third = await harness.request("create", { title: "a" });
    expect(third).toMatchObject({ disposition: "denied", detail: { code: "too_many_parked" } });
    expect(harness.ledger.entryNamesOfCall(third.callId)).toEqual([
      "call.requested",
      "call.result:too_many_parked",
    ]);
    expect((await harness.request("list", {})).disposition).toBe("executed");
    await harness.park("create", { title: "a" }, userCaller(":1.2"));
    expect(
      (await harness.request("create", { title: "a" }, { caller: userCaller(":1.3") })).detail.code,
    ).toBe("too_many_parked");
    await harness.agent.confirm(first, false, userCaller());
    await harness.park();
  });
});

describe("call ids", () => {
  it("increase and are never reused, even after the daemon was killed", async () => {
    const harness = await AgentHarness.open();
    const first = (await harness.request("list", {})).callId;
    const second = (await harness.request("none", {})).callId;
    expect(first).toBeGreaterThan(0);
    expect(second).toBeGreaterThan(first);
    harness.dir = harness.snapshot();
    await harness.start();
    expect((await harness.request("list", {})).callId).toBeGreaterThan(second);
    await harness.restart();
    const seen = new Set<number>();
    for (let index = 0; index < 1_100; index += 1)
      seen.add((await harness.request("none", {})).callId);
    expect(seen.size).toBe(1_100);
  });
});
