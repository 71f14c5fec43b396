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

describe("a read tool and a chain that is trusted", () => {
  it("runs at once, after its entries have been committed together", async () => {
    const world = await AgentHarness.open();
    let atCall: string[] = [];
    world.apps.fault = (step) => {
      if (step === "definition") atCall = world.ledger.entries.map(({ name }) => name);
    };
    const answer = await world.request("list", {});
    expect(atCall).toEqual(["agent.call.requested", "agent.call.dispatch"]);
    const [requested, dispatch] = world.ledger.entries;
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
    await world.clock.settle();
    expect(world.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.dispatch",
      "call.result:ok",
    ]);
    const [, , result] = world.ledger.entries;
    expect(result?.fields).toMatchObject({ dispatch: dispatch?.seq, status: "executed" });
    expect(result?.sealed).toEqual({ result: '{"content":[],"structured":{"notes":[]}}' });
  });

  it("is the same from a systemd unit, whose name any program could have taken", async () => {
    const world = await AgentHarness.open();
    const unit: Caller = { ...userCaller(), app: { id: "org.example.shell", kind: "unit" } };
    const answer = await world.request("list", {}, { caller: unit });
    expect(answer).toMatchObject({ disposition: "executed", detail: { chain: ["user"] } });
    const callId = await world.park("create", { title: "a" }, unit);
    expect(world.confirmationRequests.at(-1)?.spec.caller).toEqual({
      app: "org.example.shell",
      verified: false,
      actor: null,
    });
    world.agent.registerConfirmer(unit);
    expect((await world.agent.confirm(callId, true, unit)).status).toBe("executed");
  });

  it("sends the arguments in their one canonical form", async () => {
    const world = await AgentHarness.open();
    await world.request("star", '{ "body": "b", "title": "\\u0061" }');
    expect(world.app.received).toEqual([{ name: "star", args: { body: "b", title: "a" } }]);
    expect(world.ledger.entries[0]?.sealed).toEqual({ args: '{"body":"b","title":"a"}' });
  });

  it("tells in the ledger who asked, and seals what it asked for", async () => {
    const world = await AgentHarness.open();
    await world.request(
      "create",
      { title: "secret words" },
      { caller: sandboxedCaller("org.example.chat"), actor: "me" },
    );
    const [requested] = world.ledger.entries;
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
    expect(JSON.stringify(world.ledger.entries.map(({ fields }) => fields))).not.toContain(
      "secret",
    );
  });

  it.each([undefined, []])("asks where the chain is %j", async (provenance) => {
    const world = await AgentHarness.open();
    const answer = await world.request("list", {}, { provenance });
    expect(answer.disposition).toBe("confirm-chip");
    expect(answer.detail).toMatchObject({
      code: "confirm",
      tier: "read",
      effective_tier: "write",
      chain: [],
    });
    expect(world.app.received).toEqual([]);
  });
});

describe("a call that cannot run", () => {
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

  it.each(cases)("is %s, and nobody is asked (%#)", async (code, more, tool, args) => {
    const world = await AgentHarness.open();
    const answer = await world.request(tool, args, more);
    expect(answer).toMatchObject({ disposition: "failed", detail: { code } });
    expect(world.confirmationRequests).toEqual([]);
    expect(world.app.received).toEqual([]);
    expect(world.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      `call.result:${code}`,
    ]);
    expect(answer.detail.ledger?.seq).toBe(0);
  });

  it("says where its arguments are wrong", async () => {
    const world = await AgentHarness.open();
    const { detail } = await world.request("create", { title: 7, other: 1 });
    expect(detail.errors).toContainEqual({ path: "/title", message: "must be string" });
    expect(detail.errors?.map(({ path }) => path)).toContain("/other");
    expect(detail).toMatchObject({ tier: "write", effective_tier: "write" });
  });

  it("fills in no default and converts nothing", async () => {
    const world = await AgentHarness.open();
    expect((await world.request("create", { title: 1 })).detail.code).toBe("invalid_args");
    expect((await world.request("delete", { id: 1 })).detail.code).toBe("invalid_args");
  });

  it("is denied where the user has forbidden it, the app first", async () => {
    const world = await AgentHarness.open();
    const code = async (tool = "create", args: object = {}) =>
      (await world.request(tool, JSON.stringify(args))).detail.code;
    world.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    expect(await code()).toBe("tool_disabled");
    expect(await code("list")).toBe("ok");
    world.rules = { ...world.rules, disabledApps: new Set([NOTES]) };
    expect(await code()).toBe("app_disabled");
    expect(await code("none")).toBe("unknown_tool");
    // What is forbidden is not looked into.
    expect((await world.request("create", "{")).detail.code).toBe("app_disabled");
    expect(await code("create", { title: 1 })).toBe("app_disabled");
    world.rules = { ...world.rules, isPaused: true };
    expect(await code("none")).toBe("paused");
  });

  it("takes no name of any length into the ledger", async () => {
    const world = await AgentHarness.open();
    const appId = "x".repeat(3_000_000);
    const answer = await world.request("😀".repeat(100_000), {}, { appId });
    expect(answer.detail.code).toBe("unknown_app");
    expect(answer.detail.app_id.length).toBeLessThan(300);
    expect(JSON.stringify(world.ledger.entries).length).toBeLessThan(5_000);
  });

  it("is not begun where the requester had gone", async () => {
    const world = await AgentHarness.open();
    const gone = AbortSignal.abort(new Error("gone"));
    const request = {
      appId: NOTES,
      tool: "list",
      argsJson: "{}",
      actor: undefined,
      provenance: ["user"],
    };
    await expect(world.agent.requestCall(request, userCaller(), gone)).rejects.toThrow("gone");
    expect(world.ledger.entries).toEqual([]);
  });
});

describe("an app that does not do what it is asked", () => {
  it.each([
    ["tool_error", { kind: "error", message: "broken" }],
    ["transport_closed", { kind: "die" }],
    ["bad_result", { kind: "nonsense" }],
    ["result_too_large", { kind: "huge" }],
    ["tool_error", { kind: "result", isError: true, content: [{ type: "text", text: "no" }] }],
  ] as const)("fails with %s (%#)", async (code, answer) => {
    const world = await AgentHarness.open();
    world.app.respond = () => answer;
    const { disposition, detail, callId } = await world.request("list", {});
    expect(disposition).toBe("failed");
    expect(detail).toMatchObject({ code, undoable: false });
    await world.clock.settle();
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.dispatch",
      `call.result:${code}`,
    ]);
  });

  it("is found out when it is called, and not before", async () => {
    const world = await AgentHarness.open();
    await world.app.die();
    const callId = await world.park();
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "failed", detail: { code: "app_unavailable" } });
  });
});

describe("limits", () => {
  const limits = { ...defaultCallLimits, parkedPerCaller: 2, parkedTotal: 3, runningPerCaller: 2 };

  it("hold back a sandboxed app by its identity, and write down one refusal of a flood", async () => {
    const world = await AgentHarness.open({
      limits: { ...limits, sandboxed: { perSecond: 1, burst: 2 } },
    });
    const ask = (connection: string) =>
      world.request("none", {}, { caller: sandboxedCaller("org.example.chat", connection) });
    const codes = [];
    for (const connection of [":1.1", ":1.2", ":1.3", ":1.4"])
      codes.push((await ask(connection)).detail.code);
    expect(codes).toEqual(["unknown_tool", "unknown_tool", "rate_limited", "rate_limited"]);
    const written = world.ledger.entries.filter(({ fields }) => fields["code"] === "rate_limited");
    expect(written).toHaveLength(1);
    await world.clock.advance(1_000);
    expect((await ask(":1.5")).detail.code).toBe("unknown_tool");
  });

  it("count large arguments more", async () => {
    const sandbox = { perSecond: 1, burst: 10 };
    const world = await AgentHarness.open({ limits: { ...limits, sandboxed: sandbox } });
    const ask = async (chars: number) => {
      const caller = sandboxedCaller("org.example.chat");
      return (await world.request("create", { title: "x".repeat(chars) }, { caller })).detail.code;
    };
    expect([await ask(1_000_000), await ask(1_000)]).toEqual(["invalid_args", "rate_limited"]);
    await world.clock.advance(5_000);
    expect([await ask(1_000), await ask(90_000), await ask(1_000)]).toEqual([
      "invalid_args",
      "rate_limited",
      "invalid_args",
    ]);
  });

  it("bound how many calls are under way", async () => {
    const world = await AgentHarness.open({ limits });
    world.app.respond = () => ({ kind: "hang" });
    const hanging = [world.request("list", {}), world.request("list", {})];
    expect((await world.request("list", {})).detail.code).toBe("rate_limited");
    expect((await world.request("none", {}, { caller: userCaller(":1.2") })).detail.code).toBe(
      "unknown_tool",
    );
    await world.app.die();
    await Promise.all(hanging);
    world.startNotes();
    expect((await world.request("list", {})).detail.code).toBe("ok");
  });

  it("bound how many calls wait, for each caller and in all, and give the places back", async () => {
    const world = await AgentHarness.open({ limits });
    const first = await world.park();
    await world.park();
    const third = await world.request("create", { title: "a" });
    expect(third).toMatchObject({ disposition: "denied", detail: { code: "too_many_parked" } });
    expect(world.ledger.entryNamesOfCall(third.callId)).toEqual([
      "call.requested",
      "call.result:too_many_parked",
    ]);
    expect((await world.request("list", {})).disposition).toBe("executed");
    await world.park("create", { title: "a" }, userCaller(":1.2"));
    expect(
      (await world.request("create", { title: "a" }, { caller: userCaller(":1.3") })).detail.code,
    ).toBe("too_many_parked");
    await world.agent.confirm(first, false, userCaller());
    await world.park();
  });
});

describe("numbers of calls", () => {
  it("grow, and are never given again, however the daemon ends", async () => {
    const world = await AgentHarness.open();
    const first = (await world.request("list", {})).callId;
    const second = (await world.request("none", {})).callId;
    expect(first).toBeGreaterThan(0);
    expect(second).toBeGreaterThan(first);
    world.dir = world.snapshot();
    await world.start();
    expect((await world.request("list", {})).callId).toBeGreaterThan(second);
    await world.restart();
    const seen = new Set<number>();
    for (let index = 0; index < 1_100; index += 1)
      seen.add((await world.request("none", {})).callId);
    expect(seen.size).toBe(1_100);
  });
});
