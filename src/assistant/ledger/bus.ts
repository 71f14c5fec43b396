import type { Clock } from "../../base/clock.ts";
import { toText } from "../../dbus/bus-values.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { sandboxedApp } from "../caller.ts";
import type { TextEraser } from "./port.ts";

const PATH = "/dev/assistant/Ledger1";
const INTERFACE_VERSION = 1;
/**
 * Matches an RFC 3339 time. The offset from UTC is required, so that the time means the same moment on every machine.
 */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

export interface LedgerBusDependencies {
  readonly bus: Bus;
  readonly ledger: TextEraser;
  readonly clock: Clock;
  /** The text that the method Ping returns, such as `berth 0.1.0`. */
  readonly daemon: string;
}

/** Exports the ledger's erasure on the session bus and returns a function that removes it again. */
export function serveLedger(dependencies: LedgerBusDependencies): () => void {
  return dependencies.bus.serve(PATH, createLedgerInterface(dependencies));
}

function createLedgerInterface({ ledger, clock, daemon }: LedgerBusDependencies): ServedInterface {
  return {
    name: "dev.assistant.Ledger1",
    methods: {
      Ping: () => [daemon],
      EraseTexts: async ({ args: [before], caller }) => {
        if (sandboxedApp(caller) !== undefined)
          throw new AssistantError(
            "forbidden",
            "a sandboxed app may not erase texts of the ledger: use a program outside of the sandbox",
          );
        const beforeMs = parsePastTime(toText(before), clock.now());
        return [JSON.stringify({ v: 1, ...(await ledger.eraseBefore(beforeMs)) })];
      },
    },
    properties: { Version: () => INTERFACE_VERSION },
  };
}

function parsePastTime(text: string, nowMs: number): number {
  const timeMs = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(timeMs))
    throw new AssistantError(
      "invalid_request",
      "`before` is not an RFC 3339 time such as 2026-01-31T00:00:00Z",
      { param: "before" },
    );
  if (timeMs > nowMs)
    throw new AssistantError("invalid_request", "`before` is in the future", { param: "before" });
  return timeMs;
}
