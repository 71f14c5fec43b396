/** What may follow what in the ledger, of one call; see src/assistant/agent/calls/call-entries.ts. */
const allowedNext: Readonly<Record<string, readonly string[]>> = {
  "": ["call.requested"],
  "call.requested": ["call.result", "call.dispatch", "call.parked", "call.expired"],
  "call.parked": ["call.confirmed", "call.declined", "call.expired", "call.result"],
  // A ledger that takes entries and then says that it did not leaves a call to be answered again.
  "call.confirmed": [
    "call.dispatch",
    "call.result",
    "call.confirmed",
    "call.declined",
    "call.expired",
  ],
  "call.dispatch": ["call.result", "call.confirmed", "call.declined", "call.expired"],
  // Killed between the ledger and the journal, or torn: the end stands twice, and the last one counts.
  "call.declined": ["call.declined", "call.expired"],
  "call.expired": ["call.expired"],
  "call.result": ["call.result", "undo.dispatch", "undo.result"],
  "undo.dispatch": ["undo.result", "undo.dispatch"],
  "undo.result": ["undo.dispatch", "undo.result"],
};

/** The first step that should not be there; undefined: the story can be read in order. */
export function findOrderViolation(entryNames: readonly string[]): string | undefined {
  let last = "";
  for (const step of entryNames) {
    const [name = ""] = step.split(":");
    if (!allowedNext[last]?.includes(name)) return `${name} after ${last || "nothing"}`;
    last = name;
  }
  return undefined;
}
