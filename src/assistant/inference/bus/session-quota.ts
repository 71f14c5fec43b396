import { AssistantError } from "../../assistant-error.ts";
import { type Caller, ownerKey, sandboxedApp } from "../../caller.ts";

/**
 * The largest number of sessions of one client. A client needs one session for each conversation, so a client with more
 * sessions than this probably never closes any. All connections of a sandboxed app are one client.
 */
const SESSIONS_PER_OWNER_MAX = 64;
/**
 * The largest number of sessions. Each session uses two descriptors and, during a message, the memory of a pipe. The
 * kernel allows a user 1,024 pipes of full size.
 */
const SESSIONS_MAX = 1_024;
/**
 * The largest number of sessions of all sandboxed apps together. The others are reserved for the user's own programs.
 */
const SANDBOXED_SESSIONS_MAX = 768;

/** The largest number of messages and embeddings in progress of one sandboxed app. */
const REQUESTS_PER_APP_MAX = 8;
/**
 * The same for all sandboxed apps together. A model has 64 places for waiting requests by default, so most of them are
 * always left for the user's own programs.
 */
const SANDBOXED_REQUESTS_MAX = 16;

/** Counts the sessions, in total and by client. */
export class SessionQuota {
  /** The number of sessions by `ownerKey`, including sessions that are being opened. */
  readonly #counts = new Map<string, number>();
  #count = 0;
  #sandboxedCount = 0;

  /**
   * Reserves a slot for one more session. Returns a function that releases the slot; calling it again has no effect.
   * Throws `limits_exceeded` if too many sessions are open.
   */
  reserve(caller: Caller): () => void {
    const owner = ownerKey(caller);
    const sandboxed = sandboxedApp(caller) === undefined ? 0 : 1;
    const count = this.#counts.get(owner) ?? 0;
    if (count >= SESSIONS_PER_OWNER_MAX)
      throw tooManySessionsError(
        `this ${sandboxed === 1 ? "app" : "connection"} has ${SESSIONS_PER_OWNER_MAX} sessions open`,
      );
    if (this.#count >= SESSIONS_MAX)
      throw tooManySessionsError(`${SESSIONS_MAX} sessions are open`);
    if (this.#sandboxedCount + sandboxed > SANDBOXED_SESSIONS_MAX)
      throw tooManySessionsError(`sandboxed apps have ${SANDBOXED_SESSIONS_MAX} sessions open`);
    this.#counts.set(owner, count + 1);
    this.#count += 1;
    this.#sandboxedCount += sandboxed;
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#count -= 1;
      this.#sandboxedCount -= sandboxed;
      const left = (this.#counts.get(owner) ?? 1) - 1;
      if (left === 0) this.#counts.delete(owner);
      else this.#counts.set(owner, left);
    };
  }
}

/**
 * Throws `limits_exceeded` if `owner` is a sandboxed app with too many requests in progress. `sessions` are all sessions,
 * each with the number of its requests in progress.
 */
export function checkSandboxedRequests(
  owner: Caller,
  sessions: readonly { readonly owner: Caller; readonly requests: number }[],
): void {
  const app = sandboxedApp(owner);
  if (app === undefined) return;
  let [own, all] = [0, 0];
  for (const session of sessions) {
    const other = sandboxedApp(session.owner);
    if (other === undefined) continue;
    all += session.requests;
    if (other === app) own += session.requests;
  }
  if (own >= REQUESTS_PER_APP_MAX) throw tooManyRequestsError(`${app} has ${own}`);
  if (all >= SANDBOXED_REQUESTS_MAX) throw tooManyRequestsError(`sandboxed apps have ${all}`);
}

function tooManySessionsError(what: string): AssistantError {
  return new AssistantError(
    "limits_exceeded",
    `${what}, which is the limit; close one that is not needed`,
  );
}

function tooManyRequestsError(who: string): AssistantError {
  return new AssistantError(
    "limits_exceeded",
    `${who} requests in progress, which is the limit: wait for one of them to end`,
  );
}
