import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BusValue } from "../../../src/dbus/port.ts";
import { type BusPeer, callPeer, NOT_FOUND, parsePeerJson } from "./bus-peer.ts";

/** The Agent1 interface of an agent with one app, which has a tool of each tier. */
export interface AgentPeer extends BusPeer {
  readonly app: string;
  readonly tools: {
    /** A tool that reads, without arguments. */
    readonly read: string;
    /** A tool that adds a note. Its argument `title` is required, and the call can be undone. */
    readonly write: string;
    /** A tool that deletes the note with the argument `id`. */
    readonly destructive: string;
  };
  countNotes(): number;
}

const text = expect.any(String);
const byUser: BusValue = new Map([["provenance", { signature: "as", value: ["user"] }]]);

/** Checks the behaviour that clients of Agent1 rely on. */
export function agentBusContract(name: string, open: () => Promise<AgentPeer>): void {
  describe(`Agent1: ${name}`, () => {
    let peer: AgentPeer;
    beforeEach(async () => {
      peer = await open();
    });
    afterEach(() => peer[Symbol.asyncDispose]());

    const request = async (tool: string, args: object | string, options: BusValue = byUser) => {
      const json = typeof args === "string" ? args : JSON.stringify(args);
      const [id, disposition, detail] = await callPeer(
        peer,
        "RequestCall",
        peer.app,
        tool,
        json,
        options,
      );
      return { id: id ?? 0n, disposition, detail: parsePeerJson(detail) };
    };
    const confirm = async (id: BusValue, approve: boolean) => {
      const [status, detail] = await callPeer(peer, "Confirm", id, approve);
      return { status, detail: parsePeerJson(detail) };
    };
    const parked = async () => parsePeerJson((await callPeer(peer, "ListParked"))[0]);
    const undo = async () => parsePeerJson((await callPeer(peer, "Undo"))[0]);

    it("lists the tools of apps", async () => {
      const tools = parsePeerJson((await callPeer(peer, "ListTools"))[0]);
      expect(tools).toEqual(
        expect.arrayContaining([
          {
            app_id: peer.app,
            name: peer.tools.write,
            tier: "write",
            description: text,
            undoable: true,
          },
          expect.objectContaining({ name: peer.tools.destructive, tier: "destructive" }),
        ]),
      );
    });

    it("needs no confirmation for a tool that only reads, if the user requests the call", async () => {
      expect(await request(peer.tools.read, {})).toMatchObject({
        disposition: "executed",
        detail: { v: 1, code: "ok", app_id: peer.app, tool: peer.tools.read },
      });
    });

    it("runs a write only after it is confirmed, and only once", async () => {
      const { id, disposition, detail } = await request(peer.tools.write, { title: "Milk" });
      expect([disposition, detail]).toMatchObject(["confirm-chip", { code: "confirm" }]);
      const spec = {
        v: 1,
        call_id: Number(id),
        app_id: peer.app,
        app_name: text,
        tool: peer.tools.write,
        title: text,
        description: text,
        args: { title: "Milk" },
        tiers: { declared: "write", effective: "write" },
        chain: ["user"],
        undo: text,
        caller: { app: null, verified: false, actor: null },
        expires_at: text,
        hold_ms: expect.any(Number),
        digest: text,
      };
      expect(await parked()).toMatchObject([spec]);
      expect(peer.countNotes()).toBe(0);
      expect(await confirm(id, true)).toMatchObject({
        status: "executed",
        detail: { code: "ok", undoable: true },
      });
      expect(await confirm(id, false)).toMatchObject({
        status: "executed",
        detail: { replayed: true },
      });
      expect([peer.countNotes(), await parked()]).toEqual([1, []]);
      expect(peer.signals.map(({ member, args }) => [member, args[0]])).toEqual([
        ["ConfirmationRequested", id],
        ["CallResolved", id],
      ]);
      expect(parsePeerJson(peer.signals[0]?.args[1])).toMatchObject(spec);
      expect(peer.signals[1]?.args[1]).toBe("executed");
    });

    it("runs no call that is declined", async () => {
      const { id } = await request(peer.tools.write, { title: "Milk" });
      expect(await confirm(id, false)).toMatchObject({
        status: "denied",
        detail: { code: "declined" },
      });
      expect(peer.countNotes()).toBe(0);
    });

    it("requests a modal confirmation of a destructive call, and of a write without a provenance", async () => {
      const destructive = await request(peer.tools.destructive, { id: "1" });
      expect(destructive.disposition).toBe("confirm-modal");
      const unknown = await request(peer.tools.write, { title: "Milk" }, new Map());
      expect(unknown.disposition).toBe("confirm-modal");
      expect(await parked()).toMatchObject([
        { call_id: Number(destructive.id), tiers: { effective: "destructive" } },
        { call_id: Number(unknown.id), tiers: { declared: "write", effective: "destructive" } },
      ]);
    });

    it("rejects calls of unknown apps, with broken JSON, and with missing arguments", async () => {
      const [, disposition, detail] = await callPeer(
        peer,
        "RequestCall",
        "org.example.Absent",
        "x",
        "{}",
        byUser,
      );
      expect([disposition, parsePeerJson(detail)]).toMatchObject([
        "failed",
        { code: "unknown_app" },
      ]);
      expect(await request(peer.tools.write, "{title}")).toMatchObject({
        disposition: "failed",
        detail: { code: "bad_json" },
      });
      expect(await request(peer.tools.write, {})).toMatchObject({
        disposition: "failed",
        detail: { code: "invalid_args", errors: [{ path: "/title", message: text }] },
      });
      expect(await confirm(999n, true)).toMatchObject({
        status: "failed",
        detail: { code: "unknown_call" },
      });
    });

    it("undoes the last call, but not a call that the client has excluded with UndoSkip", async () => {
      expect(await undo()).toMatchObject({ v: 1, status: "nothing", call_id: null, remaining: 0 });
      const ids: BusValue[] = [];
      for (const title of ["Milk", "Eggs", "Salt"]) {
        const { id } = await request(peer.tools.write, { title });
        await confirm(id, true);
        ids.push(id);
      }
      expect(await undo()).toMatchObject({
        status: "undone",
        call_id: Number(ids[2]),
        app_id: peer.app,
        tool: peer.tools.write,
        compensation: { tool: text },
        attempts: 1,
        remaining: 2,
      });
      const [skipped] = await callPeer(peer, "UndoSkip", ids[1] ?? 0n);
      expect(parsePeerJson(skipped)).toMatchObject({ status: "skipped", remaining: 1 });
      await expect(callPeer(peer, "UndoSkip", 999n)).rejects.toMatchObject(NOT_FOUND);
      expect(await undo()).toMatchObject({ status: "undone", call_id: Number(ids[0]) });
      expect(peer.countNotes()).toBe(1);
    });

    it("registers a client as one that confirms calls", async () => {
      expect(await callPeer(peer, "RegisterConfirmer")).toEqual([]);
    });
  });
}
