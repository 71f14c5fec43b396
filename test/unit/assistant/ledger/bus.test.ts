import { expect, it } from "vitest";
import type { BusCall } from "../../../../src/assistant/bus/port.ts";
import type { Caller } from "../../../../src/assistant/caller.ts";
import { serveLedger } from "../../../../src/assistant/ledger/bus.ts";
import { toText } from "../../../../src/dbus/bus-values.ts";
import { FakeBus } from "../../../support/fake-bus.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const PATH = "/dev/assistant/Ledger1";
const NOW = Date.parse("2026-11-21T10:00:00Z");

function serve() {
  const bus = new FakeBus();
  const asked: number[] = [];
  const ledger = {
    eraseBefore: async (beforeMs: number) => {
      asked.push(beforeMs);
      return { texts: 2, entries: 1, first: 4, last: 7 };
    },
  };
  serveLedger({ bus, ledger, clock: new VirtualClock(NOW), daemon: "berth test" });
  const methods = bus.served.get(PATH)?.methods ?? {};
  const erase = async (before: string, app?: Caller["app"]) => {
    const caller = { connection: ":1.7", pid: 7, app };
    const { signal } = new AbortController();
    const call: BusCall = { caller, args: [before], signal, whenAnswered: () => {} };
    return methods["EraseTexts"]?.(call);
  };
  return { asked, erase };
}

it("EraseTexts erases the texts before a time, and reports what was erased as JSON", async () => {
  const { asked, erase } = serve();
  const [json] = (await erase("2026-11-20T12:00:00+02:00")) ?? [];
  expect(JSON.parse(toText(json))).toEqual({ v: 1, texts: 2, entries: 1, first: 4, last: 7 });
  expect(asked).toEqual([Date.parse("2026-11-20T10:00:00Z")]);
});

it.each(["", "2026-11-20", "2026-11-20T12:00:00", "yesterday", "2026-11-21T10:00:01Z"])(
  "EraseTexts refuses the time %j, which has no offset, is invalid, or is in the future",
  async (before) => {
    const { asked, erase } = serve();
    await expect(erase(before)).rejects.toMatchObject({ code: "invalid_request", param: "before" });
    expect(asked).toEqual([]);
  },
);

it("EraseTexts refuses a sandboxed app, but not a program whose systemd unit has a name", async () => {
  const { asked, erase } = serve();
  for (const kind of ["flatpak", "snap"] as const)
    await expect(
      erase("2026-11-20T00:00:00Z", { id: "org.example.App", kind }),
    ).rejects.toMatchObject({
      code: "forbidden",
    });
  expect(asked).toEqual([]);
  await erase("2026-11-20T00:00:00Z", { id: "org.example.App", kind: "unit" });
  expect(asked).toHaveLength(1);
});
