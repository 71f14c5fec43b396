/** The entries that may follow each ledger entry of a call; see src/assistant/agent/calls/call-entries.ts. */
const allowedNext: Readonly<Record<string, readonly string[]>> = {
  "": ["call.requested"],
  "call.requested": ["call.result", "call.dispatch", "call.parked", "call.expired"],
  "call.parked": ["call.confirmed", "call.declined", "call.expired", "call.result"],
  // The agent records a second answer to the confirmation request if the ledger has written the entry of the first one
  // but reports a failure.
  "call.confirmed": [
    "call.dispatch",
    "call.result",
    "call.confirmed",
    "call.declined",
    "call.expired",
  ],
  "call.dispatch": ["call.result", "call.confirmed", "call.declined", "call.expired"],
  // After a kill between ledger and journal, or a torn write, the end of a call is in the ledger twice, and the last
  // one counts.
  "call.declined": ["call.declined", "call.expired"],
  "call.expired": ["call.expired"],
  "call.result": ["call.result", "call.late", "undo.dispatch", "undo.result"],
  "call.late": ["undo.dispatch", "undo.result"],
  "undo.dispatch": ["undo.result", "undo.dispatch", "undo.late"],
  "undo.result": ["undo.dispatch", "undo.result", "undo.late"],
  // The app may answer an earlier attempt while a later one runs.
  "undo.late": ["undo.dispatch", "undo.result", "undo.late"],
};

/** Returns the first entry that is out of order; undefined if the order is valid. */
export function findOrderViolation(entryNames: readonly string[]): string | undefined {
  let last = "";
  for (const step of entryNames) {
    const [name = ""] = step.split(":");
    if (!allowedNext[last]?.includes(name)) return `${name} after ${last || "nothing"}`;
    last = name;
  }
  return undefined;
}
