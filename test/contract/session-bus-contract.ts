import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BusValue, SessionBus } from "../../src/dbus/port.ts";

/** The environment of the contract: a peer with the interface dev.assistant.Remote1 on the bus. */
export interface SessionBusHarness extends AsyncDisposable {
  connect(): Promise<SessionBus>;
  /** The peer's method handlers, by the method's name. A handler may throw an AssistantError. */
  answers: Record<string, (...args: readonly BusValue[]) => Promise<readonly BusValue[]>>;
  /** Emits the peer's signal LoginCompleted. */
  emitLogin(provider: string, isOk: boolean, detail: string): void;
  /** An error that the peer returns with the D-Bus name `dev.assistant.Error.NotFound`. */
  readonly notFound: Error;
}

const REMOTE = "dev.assistant.Remote1";
const remote = { destination: REMOTE, path: "/dev/assistant/Remote1", interface: REMOTE };

/** Checks, for any SessionBus, the behaviour that clients rely on. */
export function sessionBusContract(adapter: string, open: () => Promise<SessionBusHarness>): void {
  describe(`the session bus: ${adapter}`, () => {
    let harness: SessionBusHarness;
    let bus: SessionBus;
    beforeEach(async () => {
      harness = await open();
      bus = await harness.connect();
    });
    afterEach(async () => {
      await bus[Symbol.asyncDispose]();
      await harness[Symbol.asyncDispose]();
    });

    const call = (
      member: string,
      signature: string,
      args: readonly BusValue[],
      { signal = new AbortController().signal, timeoutMs = 60_000 } = {},
    ) => bus.call({ ...remote, member, signature, args }, { signal, timeoutMs });

    it("the bus calls a method with its arguments, and resolves to the answer", async () => {
      harness.answers["BeginLogin"] = async (id = "") => [id];
      expect(await call("BeginLogin", "s", ["one"])).toEqual(["one"]);
      expect(await call("ClearKey", "s", ["one"])).toEqual([]);
    });

    it("the bus rejects with the name and the text of the error that a method returns", async () => {
      harness.answers["ClearKey"] = () => Promise.reject(harness.notFound);
      await expect(call("ClearKey", "s", ["one"])).rejects.toMatchObject({
        busName: "dev.assistant.Error.NotFound",
        message: harness.notFound.message,
      });
    });

    it("the bus rejects a call of a method that does not exist, and of a bus name without an owner", async () => {
      await expect(call("Explode", "", [])).rejects.toMatchObject({
        busName: "org.freedesktop.DBus.Error.UnknownMethod",
      });
      const absent = { ...remote, destination: "org.example.Absent", member: "State" };
      const { signal } = new AbortController();
      await expect(
        bus.call({ ...absent, signature: "", args: [] }, { signal, timeoutMs: 60_000 }),
      ).rejects.toMatchObject({ busName: "org.freedesktop.DBus.Error.ServiceUnknown" });
    });

    it("the bus rejects with the reason of an abort, both before the call and during it", async () => {
      const before = AbortSignal.abort(new Error("too late"));
      await expect(call("State", "", [], { signal: before })).rejects.toThrow("too late");
      const leaving = new AbortController();
      harness.answers["State"] = async () => {
        leaving.abort(new Error("changed my mind"));
        return new Promise(() => {});
      };
      const during = call("State", "", [], { signal: leaving.signal });
      await expect(during).rejects.toThrow("changed my mind");
    });

    it("the bus rejects with NoReply when the time limit of the call has passed", async () => {
      harness.answers["State"] = () => new Promise(() => {});
      await expect(call("State", "", [], { timeoutMs: 50 })).rejects.toMatchObject({
        busName: "org.freedesktop.DBus.Error.NoReply",
      });
    });

    it("the bus passes signals to listeners, in order, until they unsubscribe", async () => {
      const received: (readonly BusValue[])[] = [];
      const rule = { ...remote, sender: REMOTE, member: "LoginCompleted" };
      const stop = await bus.onSignal(rule, ({ args }) => void received.push(args));
      const others = await bus.onSignal({ ...rule, member: "SomethingElse" }, () => {
        throw new Error("this listener has another rule");
      });
      harness.emitLogin("one", true, "ok");
      harness.emitLogin("two", false, "timeout");
      await expect
        .poll(() => received)
        .toEqual([
          ["one", true, "ok"],
          ["two", false, "timeout"],
        ]);
      stop();
      others();
      harness.emitLogin("three", true, "ok");
      await call("ClearKey", "s", ["one"]);
      expect(received).toHaveLength(2);
    });

    it("the bus rejects pending and later calls when it is disposed", async () => {
      harness.answers["State"] = () => new Promise(() => {});
      const [pending] = await Promise.allSettled([
        call("State", "", []),
        bus[Symbol.asyncDispose](),
        bus.closed,
      ]);
      expect(pending).toMatchObject({
        status: "rejected",
        reason: { busName: expect.stringMatching(/\.(?:Disconnected|NoReply)$/) },
      });
      await expect(call("State", "", [])).rejects.toMatchObject({
        busName: "org.freedesktop.DBus.Error.Disconnected",
      });
    });
  });
}
