import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BusValue } from "../../../src/dbus/port.ts";
import { type BusPeer, callPeer, NOT_FOUND, parsePeerJson } from "./bus-peer.ts";

export interface OverlayPeer extends BusPeer {
  /** Makes the next query send no answer until it is cancelled. */
  hang(): void;
  /** The options of a query that has to ask for consent. */
  askingOptions(): BusValue;
}

/** Checks the behaviour that clients of Overlay1 rely on. */
export function overlayBusContract(name: string, open: () => Promise<OverlayPeer>): void {
  describe(`Overlay1: ${name}`, () => {
    let peer: OverlayPeer;
    beforeEach(async () => {
      peer = await open();
    });
    afterEach(() => peer[Symbol.asyncDispose]());

    const ask = async (options: BusValue = new Map()) => {
      const [id] = await callPeer(peer, "Ask", "Well?", options);
      return id;
    };
    const members = () => peer.signals.map(({ member }) => member);
    const finished = () =>
      peer.signals
        .filter(({ member }) => member === "Finished")
        .map(({ args: [id, status, detail] }) => ({ id, status, detail: parsePeerJson(detail) }));

    it("answers with Started, the tokens and one Finished, all with the number of the query", async () => {
      const id = await ask();
      expect(id).toEqual(expect.any(BigInt));
      await expect.poll(finished).toHaveLength(1);
      expect(members().join(" ")).toMatch(/^Started (?:Token )+Finished$/);
      expect(peer.signals.filter(({ args }) => args[0] !== id)).toEqual([]);
      expect(parsePeerJson(peer.signals[0]?.args[1])).toEqual({
        v: 1,
        lane: "agent",
        model: null,
        route: "local",
        options: [],
        unavailable: expect.any(Array),
        sources: [],
      });
      expect(finished()[0]).toMatchObject({
        status: "completed",
        detail: { v: 1, code: "ok", finish_reason: "stop", model: expect.any(String), calls: [] },
      });
    });

    it("gives each query a different number", async () => {
      expect(await ask()).not.toBe(await ask());
      await expect.poll(finished).toHaveLength(2);
    });

    it("ends a cancelled query with exactly one Finished", async () => {
      peer.hang();
      const id = await ask();
      await expect.poll(members).toContain("Started");
      await callPeer(peer, "Cancel", id ?? 0n);
      await expect.poll(finished).toMatchObject([{ id, status: "cancelled" }]);
    });

    it.each([
      [true, { status: "completed", detail: { code: "ok" } }],
      [false, { status: "denied", detail: { code: "declined" } }],
    ])("asks for consent, and accepts %s as the answer, once", async (isApproved, end) => {
      const id = await ask(peer.askingOptions());
      await expect.poll(members).toContain("ConfirmationNeeded");
      const [, spec] =
        peer.signals.find(({ member }) => member === "ConfirmationNeeded")?.args ?? [];
      expect(parsePeerJson(spec)).toMatchObject({
        v: 1,
        kind: "consent",
        provider: expect.any(String),
        model: expect.any(String),
        scopes: expect.arrayContaining(["prompt"]),
        sources: [],
        expires_at: expect.any(String),
      });
      await callPeer(peer, "Respond", id ?? 0n, isApproved);
      await expect.poll(finished).toMatchObject([{ id, ...end }]);
    });

    it("rejects an answer to an unknown query, and the cancellation of an unknown query", async () => {
      await expect(callPeer(peer, "Respond", 999n, true)).rejects.toMatchObject(NOT_FOUND);
      await expect(callPeer(peer, "RespondTo", 999n, 1, true)).rejects.toMatchObject(NOT_FOUND);
      await expect(callPeer(peer, "Cancel", 999n)).rejects.toMatchObject(NOT_FOUND);
    });

    it("reports its state with the local model and the providers", async () => {
      const [status] = await callPeer(peer, "GetStatus");
      expect(status).toBeInstanceOf(Map);
      if (!(status instanceof Map)) return;
      expect(status.get("state")).toEqual({ signature: "s", value: "idle" });
      expect(status.get("model")).toEqual({ signature: "s", value: "tiny" });
      expect(status.get("providers")).toMatchObject({ signature: "as" });
    });
  });
}
