import { randomBytes } from "node:crypto";
import { type Clock, delay, timestamp } from "../../base/clock.ts";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import type { Labels, LeaseRuntime } from "../runtime/port.ts";
import { buildLeaseLabels, findLastTerm, type LeaseTerm, parseLeaseTerm } from "./lease-term.ts";
import type { EngineWriter, WriterLease } from "./port.ts";

/**
 * Another process takes over the engine lease if it has observed no new term for this time. A renewal of the lease
 * creates a new term.
 */
export const LEASE_MS = 60_000;
/**
 * The holder regards its lease as lost after this time without a renewal. Calls in progress have then ended before
 * another process takes over, even if one of the clocks is a fifth too fast.
 */
const VALID_MS = 45_000;
const RENEW_MS = 20_000;
/** The interval of observations while another process holds the lease, and of attempts after a failure. */
export const POLL_MS = 5_000;
/**
 * The longest time between two observations of the lease for which the lease counts as observed. A clock that was
 * set forward would otherwise let the lease expire at once.
 */
const OBSERVATION_MS_MAX = 2 * POLL_MS;

export interface EngineLeaseOptions {
  readonly runtime: LeaseRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly instance: string;
  /** Identifies the data directory; a copy of the directory has another id. */
  readonly holderId: string;
  readonly host: string;
  readonly dataDir: string;
}

type LeaseState =
  /** The engine has not been asked yet, or has not answered for so long that the lease is no longer valid. */
  | { readonly type: "unknown" }
  | { readonly type: "held"; readonly term: number }
  | { readonly type: "taken"; readonly by: EngineWriter };

/**
 * The lease that permits one process of an instance to write to the engine. The lease is a chain of records on the
 * engine, `berth-<instance>_lease-<term>`, of which the last one names the holder. A process renews the lease, or takes
 * it over, by creating the record of the next term; then it removes the older records. If several processes create the
 * record of a term, the engine keeps only the first one.
 *
 * This process's view of the lease changes as follows:
 * - unknown -> held: the engine has no lease record, or the last term belongs to this data directory and this process
 *   has just started, or the last term has not changed for 60 s.
 * - held -> held: the holder renews the lease every 20 s.
 * - held -> taken, unknown -> taken: the last term belongs to another process.
 * - taken -> held: the last term has not changed for 60 s.
 *
 * A process reads no clock of another machine, and compares only its own observations: a holder that cannot renew the
 * lease stops writing after 45 s, and another process begins after it has observed the same term for 60 s.
 */
export class EngineLease implements WriterLease {
  readonly #options: EngineLeaseOptions;
  /** Distinguishes two processes on byte-identical data directories, such as those of a cloned machine. */
  readonly #session = randomBytes(8).toString("hex");
  readonly #since: string;
  readonly #listeners = new Set<() => void>();
  readonly #ended = new AbortController();
  #state: LeaseState = { type: "unknown" };
  /** The times between which a held lease is valid. If the clock is set back, the lease is not valid. */
  #valid = { fromMs: 0, untilMs: 0 };
  /**
   * The sessions whose terms count as this process's own: its session and, if the first observation finds a term of the
   * previous process on this data directory, the session of that process.
   */
  readonly #ownSessions = new Set([this.#session]);
  #hasObserved = false;
  /** The last lease term of another process, and the time for which this process has observed it. */
  #observed: { term: number; atMs: number; unchangedMs: number } | undefined;
  #attempt: Promise<void> | undefined;

  constructor(options: EngineLeaseOptions) {
    this.#options = options;
    this.#since = timestamp(options.clock.now());
  }

  get otherWriter(): EngineWriter | null {
    return this.#state.type === "taken" ? this.#state.by : null;
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async ensure(signal: AbortSignal): Promise<void> {
    if (this.#isValid()) return;
    // While another process holds the lease, `ensure` fails immediately; only `run` then observes the lease.
    if (this.#state.type !== "taken") await raceWithAbort(this.#tryOnce(), signal);
    if (this.#state.type === "taken") throw createLeasedError(this.#state.by);
    if (!this.#isValid())
      throw new BerthError("engine_unreachable", "the lease on the engine could not be renewed");
  }

  /**
   * Runs until the signal aborts. It does not release the lease at the end: otherwise another process would take over
   * at each restart of this one.
   */
  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.#ended.abort(signal.reason), { once: true });
    while (!signal.aborted) {
      const isRenewed = await this.#tryOnce().then(
        () => this.#state.type === "held" && this.#remainingMs() > RENEW_MS,
        (error: unknown) => {
          if (signal.aborted) return;
          const message = getErrorMessage(error);
          this.#options.logger.debug({ error: message }, "cannot renew the lease on the engine");
        },
      );
      const { clock } = this.#options;
      await delay(clock, isRenewed ? RENEW_MS : POLL_MS, signal).catch(() => {});
    }
  }

  #remainingMs(): number {
    const now = this.#options.clock.now();
    return now < this.#valid.fromMs ? 0 : this.#valid.untilMs - now;
  }

  #isValid(): boolean {
    return this.#state.type === "held" && this.#remainingMs() > 0;
  }

  #tryOnce(): Promise<void> {
    this.#attempt ??= this.#renewOrClaim(this.#ended.signal).finally(() => {
      this.#attempt = undefined;
    });
    return this.#attempt;
  }

  async #renewOrClaim(signal: AbortSignal): Promise<void> {
    const { runtime, clock, instance, logger } = this.#options;
    const startedMs = clock.now();
    let before = this.#state.type === "held" ? this.#state.term : 0;
    if (this.#state.type !== "held") {
      const last = findLastTerm(await this.#listTerms(signal));
      if (!this.#mayFollow(last)) return last && this.#lose(last);
      before = Math.max(last?.term ?? 0, this.#observed?.term ?? 0);
    }
    let isCreated = true;
    await runtime
      .createLease(instance, before + 1, this.#buildLabels(), signal)
      .catch((error: unknown) => {
        if (signal.aborted || isUnreachable(error)) throw error;
        logger.debug(
          { error: getErrorMessage(error) },
          "the engine created no record of the lease",
        );
        isCreated = false;
      });
    // If another process has created later terms and removed older records, `createLease` may have succeeded with the
    // number of a removed record. Therefore all terms are listed, and the highest one decides.
    const terms = await this.#listTerms(signal);
    const last = findLastTerm(terms);
    const isOwn = last !== undefined && this.#ownSessions.has(last.session);
    if (last && !isOwn) return this.#lose(last);
    if (!last && isCreated)
      throw new BerthError("engine_error", "the engine lost the record of the lease");
    // If the engine's disk is full, no process can create a record, so the holder keeps its lease without a new
    // record.
    this.#valid = { fromMs: startedMs, untilMs: startedMs + (isCreated ? VALID_MS : POLL_MS) };
    this.#hold(last?.term ?? before);
    for (const old of terms) {
      if (old.term === last?.term) continue;
      await runtime.removeLease(instance, old.term, signal).catch((error: unknown) => {
        logger.debug(
          { error: getErrorMessage(error) },
          "an old record of the lease could not be removed",
        );
      });
    }
  }

  #buildLabels(): Labels {
    const { instance, holderId, host, dataDir } = this.#options;
    const writer = { host, dataDir, since: this.#since };
    return buildLeaseLabels({ instance, holderId, session: this.#session, writer });
  }

  async #listTerms(signal: AbortSignal): Promise<readonly LeaseTerm[]> {
    const { runtime, instance } = this.#options;
    return (await runtime.listLeases(instance, signal)).map(parseLeaseTerm);
  }

  /**
   * Returns true if this process may create the next term of the engine lease. `last` is the current term; undefined if
   * the engine has no record of one.
   */
  #mayFollow(last: LeaseTerm | undefined): boolean {
    if (last && last.holderId === this.#options.holderId && !this.#hasObserved)
      this.#ownSessions.add(last.session);
    this.#hasObserved = true;
    if (last && this.#ownSessions.has(last.session)) return true;
    return this.#hasLapsed(last?.term);
  }

  /**
   * Records an observation of the last term. Returns true if the term has not changed for long enough, or if no term
   * has ever been observed. `term` is undefined if another program has removed the lease records. The last known term
   * then still counts, because its holder soon creates a new record.
   */
  #hasLapsed(term: number | undefined): boolean {
    const now = this.#options.clock.now();
    const before = this.#observed;
    if (term !== undefined && term !== before?.term) {
      this.#observed = { term, atMs: now, unchangedMs: 0 };
      return false;
    }
    if (before === undefined) return true;
    const passedMs = Math.min(Math.max(0, now - before.atMs), OBSERVATION_MS_MAX);
    const unchangedMs = before.unchangedMs + passedMs;
    this.#observed = { term: before.term, atMs: now, unchangedMs };
    return unchangedMs >= LEASE_MS;
  }

  #lose({ term, writer }: LeaseTerm): void {
    const isNew = this.#state.type !== "taken";
    if (this.#observed?.term !== term)
      this.#observed = { term, atMs: this.#options.clock.now(), unchangedMs: 0 };
    this.#state = { type: "taken", by: writer };
    if (!isNew) return;
    const { message, hint } = createLeasedError(writer);
    this.#options.logger.error({ hint }, message);
    this.#notify();
  }

  #hold(term: number): void {
    const isNew = this.#state.type === "taken";
    this.#observed = undefined;
    this.#state = { type: "held", term };
    if (!isNew) return;
    this.#options.logger.info({ term }, "this process writes to the engine now");
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

function isUnreachable(error: unknown): boolean {
  return error instanceof BerthError && error.code === "engine_unreachable";
}

function createLeasedError({ host, dataDir, since }: EngineWriter): BerthError {
  return new BerthError(
    "engine_leased",
    `another Berth with the same identity writes to the engine: on ${host}, data directory ${dataDir}, since ${since}; this one changes nothing there`,
    {
      hint: "stop the other process (one minute later, this one takes over), or run this process as another instance: berth restore FILE --new-instance",
    },
  );
}
