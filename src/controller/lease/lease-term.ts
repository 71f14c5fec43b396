import { COMPONENT, INSTANCE, LEASE_PREFIX } from "../labels.ts";
import type { Labels, ObservedLease } from "../runtime/port.ts";
import type { EngineWriter } from "./port.ts";

/** One record of the engine lease: the process that has the lease in this term. */
export interface LeaseTerm {
  readonly term: number;
  readonly holderId: string;
  /** Identifies the process that created this record. */
  readonly session: string;
  readonly writer: EngineWriter;
}

export function buildLeaseLabels(options: {
  readonly instance: string;
  readonly holderId: string;
  readonly session: string;
  readonly writer: EngineWriter;
}): Labels {
  const { instance, holderId, session, writer } = options;
  return {
    [INSTANCE]: instance,
    [COMPONENT]: "lease",
    [`${LEASE_PREFIX}holder`]: holderId,
    [`${LEASE_PREFIX}session`]: session,
    [`${LEASE_PREFIX}host`]: writer.host,
    [`${LEASE_PREFIX}data-dir`]: writer.dataDir,
    [`${LEASE_PREFIX}since`]: writer.since,
  };
}

export function parseLeaseTerm({ term, labels }: ObservedLease): LeaseTerm {
  const read = (key: string) => labels[LEASE_PREFIX + key] ?? "unknown";
  return {
    term,
    holderId: read("holder"),
    session: read("session"),
    writer: { host: read("host"), dataDir: read("data-dir"), since: read("since") },
  };
}

export function findLastTerm(terms: readonly LeaseTerm[]): LeaseTerm | undefined {
  return terms.toSorted((a, b) => b.term - a.term)[0];
}
