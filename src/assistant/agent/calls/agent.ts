import { setMaxListeners } from "node:events";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Durability } from "../../../base/sqlite.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import { AssistantError } from "../../errors.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { ToolRegistry } from "../manifest.ts";
import type {
  AgentListener,
  AgentService,
  CallAnswer,
  CallEnd,
  CallRequest,
  ConfirmationSpec,
  ToolRecord,
  UndoReport,
} from "../port.ts";
import type { AgentRules } from "../rules.ts";
import type { ToolApps } from "../tool-apps.ts";
import { Admission, type CallLimits, callLimits } from "./admission.ts";
import { type BootClock, systemBootClock } from "./boot-clock.ts";
import { CallEnds } from "./call-ends.ts";
import { CallIds } from "./call-ids.ts";
import { Dispatcher } from "./dispatcher.ts";
import { Journal } from "./journal.ts";
import { Listeners } from "./listeners.ts";
import { LiveDefinitions } from "./live-definitions.ts";
import { OwedEntries } from "./owed-entries.ts";
import { Parking, unknownCall } from "./parking.ts";
import { replayed } from "./planned-call.ts";
import { Planner } from "./planner.ts";
import { recover } from "./recovery.ts";
import { Requests } from "./requests.ts";
import { Undoing } from "./undoing.ts";
import { Validators } from "./validators.ts";

export interface AgentOptions {
  readonly registry: ToolRegistry;
  readonly apps: ToolApps;
  readonly ledger: Ledger;
  /** Asked anew for each call. */
  readonly rules: () => AgentRules;
  readonly discover: (query: string, signal: AbortSignal) => Promise<readonly ToolRecord[]>;
  /** The companion's state directory; the journal is `agent.db` in it. One daemon at a time. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default: the machine's. */
  readonly bootClock?: BootClock;
  readonly limits?: CallLimits;
  /** Default: full. off is for tests. */
  readonly durability?: Durability;
}

/** Calls that are under way when the daemon stops have so long to end; then they are interrupted. */
const DRAIN_MS = 5_000;

/**
 * The agent bus. A call that may have an effect goes through these states, and what is before an arrow is on
 * the disk when what is behind it begins:
 *
 *   ledger: requested
 *     -> journal: parked -> ledger: parked -> everybody is asked         (a call that has to be confirmed)
 *   journal: dispatching -> ledger: dispatch -> app -> ledger: result -> journal: ended
 *
 * So whatever is killed between two steps: no effect without its entry, and none twice, because what is
 * `dispatching` is never given out again. A call that runs at once and leaves nothing to undo has no place
 * in the journal; its `requested` and `dispatch` are one commit, and nothing else stands before the app.
 *
 *   killed after            the next daemon finds          and says
 *   ledger: requested       nothing                        nothing: it was never begun
 *   journal: parked         parked                         denied/restarted
 *   journal: dispatching    dispatching                    failed/interrupted; whether it ran is not known
 *   ledger: dispatch        dispatching                    the same, and the ledger: indeterminate
 *   ledger: result          dispatching                    failed/interrupted; the ledger has the result too
 *   journal: ended          ended                          what was said before
 *
 * Where the ledger does not take an entry, nothing happens that would have come after it; what has happened
 * already, or is given up, is owed to the ledger, in the journal.
 */
export class Agent implements AgentService, AsyncDisposable {
  readonly #options: AgentOptions;
  readonly #journal: Journal;
  readonly #requests: Requests;
  readonly #parking: Parking;
  readonly #undoing: Undoing;
  readonly #ends: CallEnds;
  readonly #owed: OwedEntries;
  readonly #planner: Planner;
  readonly #definitions: LiveDefinitions;
  readonly #listeners: Listeners;
  readonly #tasks: TaskGroup;
  readonly #life = new AbortController();
  readonly #underWay = new Set<Promise<unknown>>();
  #isClosing = false;
  /** The connection that alone may confirm. */
  #confirmer: string | undefined;

  private constructor(options: AgentOptions, journal: Journal) {
    const { registry, apps, ledger, rules, clock, logger } = options;
    const bootClock = options.bootClock ?? systemBootClock;
    const life = this.#life.signal;
    // Each call that is under way listens to it.
    setMaxListeners(0, life);
    this.#options = options;
    this.#journal = journal;
    this.#listeners = new Listeners({ logger });
    this.#tasks = new TaskGroup((err, task) =>
      logger.error({ err, task }, "a task of the agent failed"),
    );
    const tasks = this.#tasks;
    this.#planner = new Planner({ registry, rules, validators: new Validators() });
    const planner = this.#planner;
    this.#definitions = new LiveDefinitions({ apps, journal, logger });
    const definitions = this.#definitions;
    const dispatcher = new Dispatcher({ apps, ledger, definitions, clock, logger, life });
    this.#owed = new OwedEntries({ journal, ledger, clock, tasks, logger });
    const owed = this.#owed;
    this.#ends = new CallEnds({ ledger, journal, owed, planner, clock, tasks, logger });
    const ends = this.#ends;
    const admission = new Admission({ limits: options.limits ?? callLimits, clock });
    const listener = this.#listeners;
    const shared = { ledger, journal, planner, dispatcher, logger };
    this.#parking = new Parking({ ...shared, ends, admission, listener, clock, bootClock, tasks });
    this.#undoing = new Undoing({ ...shared, owed });
    const ids = new CallIds({ journal, logger });
    this.#requests = new Requests({
      ...shared,
      ends,
      admission,
      ids,
      parking: this.#parking,
      definitions,
      life,
    });
  }

  /**
   * Opens the journal, and ends what the last daemon left open. Rejects with AssistantError
   * `ledger_unavailable`, or with the BerthErrors of `openDatabase`, where the journal cannot be used.
   */
  static async open(options: AgentOptions): Promise<Agent> {
    const { dir, ledger, clock, logger } = options;
    const journal = new Journal({ dir, durability: options.durability ?? "full" });
    try {
      await recover({ journal, ledger, nowMs: clock.now(), logger });
      const agent = new Agent(options, journal);
      agent.#tasks.run("pay the ledger", () => agent.#owed.pay());
      return agent;
    } catch (error) {
      journal[Symbol.dispose]();
      throw error;
    }
  }

  listTools(): readonly ToolRecord[] {
    return this.#options.registry.apps().flatMap((app) =>
      app.tools
        .map((tool) => ({
          app_id: app.appId,
          name: tool.name,
          tier: tool.tier,
          description: tool.description,
          undoable: tool.undo !== undefined,
        }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }

  discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]> {
    return this.#options.discover(query, signal);
  }

  /** A signal that aborts before anything is written ends the request; later it ends nothing. */
  requestCall(request: CallRequest, caller: Caller, signal: AbortSignal): Promise<CallAnswer> {
    return this.#track(async () => {
      signal.throwIfAborted();
      return this.#requests.request(request, caller);
    });
  }

  listParked(caller: Caller): readonly ConfirmationSpec[] {
    return this.#parking.waiting(sandboxedApp(caller));
  }

  confirm(callId: number, approve: boolean, caller: Caller): Promise<CallEnd> {
    return this.#track(async () => {
      const requester = this.#parking.requester(callId);
      if (requester) {
        this.#mayConfirm(caller, requester);
        const end = await this.#parking.answer(callId, approve, caller);
        if (end) return end;
      }
      return this.#ended(callId, caller);
    });
  }

  withdraw(callId: number, caller: Caller): Promise<CallEnd> {
    return this.#track(async () => {
      // Once is mostly enough: whoever else was answering may have found the ledger closed, and left it parked.
      let requester = this.#parking.requester(callId);
      while (requester) {
        if (!isRequester(caller, requester))
          throw new AssistantError("forbidden", "only whoever asked for a call may take it back");
        const end = await this.#parking.answer(callId, false, caller);
        requester = this.#parking.requester(callId);
        if (end && !requester) return end;
      }
      return this.#ended(callId, caller);
    });
  }

  undo(caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoing.undo(caller));
  }

  undoSkip(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoing.skip(callId, caller));
  }

  /** Throws `forbidden` for a sandboxed app, which could otherwise lock the user out and approve in their name. */
  registerConfirmer(caller: Caller): void {
    const app = sandboxedApp(caller);
    if (app !== undefined)
      throw new AssistantError("forbidden", `${app} is sandboxed, and may not confirm calls`);
    if (this.#confirmer !== undefined && this.#confirmer !== caller.connection)
      throw new AssistantError("busy", "another program confirms calls at present");
    this.#confirmer = caller.connection;
  }

  async approveTool(appId: string, tool: string, digest: string, caller: Caller): Promise<void> {
    const app = sandboxedApp(caller);
    if (app !== undefined)
      throw new AssistantError("forbidden", `${app} is sandboxed, and may not approve tools`);
    const found = this.#planner.find(appId, tool);
    if ("code" in found) throw new AssistantError("not_found", found.message);
    this.#definitions.approve(appId, found.tool, digest);
  }

  /** What it asked for stays: parked calls wait for whoever may confirm, and what runs is not cut off. */
  callerGone(connection: string): void {
    if (this.#confirmer === connection) this.#confirmer = undefined;
  }

  subscribe(listener: AgentListener): () => void {
    return this.#listeners.add(listener);
  }

  /** Takes nothing new, and lets what is under way end within five seconds. Parked calls end with the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#parking.stop();
    this.#owed.stop();
    const interrupt = this.#options.clock.setTimer(DRAIN_MS, () => this.#life.abort());
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    interrupt();
    this.#life.abort();
    await this.#tasks[Symbol.asyncDispose]();
    this.#owed.stop();
    this.#ends.saveUnsaved();
    this.#journal[Symbol.dispose]();
  }

  /** Throws `forbidden`. */
  #mayConfirm(caller: Caller, requester: Caller): void {
    const app = sandboxedApp(caller);
    if (app !== undefined)
      throw new AssistantError("forbidden", `${app} is sandboxed, and may not confirm calls`);
    if (this.#confirmer !== undefined && this.#confirmer !== caller.connection)
      throw new AssistantError("forbidden", "another program has registered to confirm calls");
    if (this.#options.rules().confirm === "strict" && isSameProgram(caller, requester))
      throw new AssistantError("forbidden", "whoever asked for a call may not confirm it");
  }

  /** The answer that was given; a sandboxed app gets those to what it asked for itself. */
  #ended(callId: number, caller: Caller): CallEnd {
    const ended = this.#ends.find(callId);
    const app = sandboxedApp(caller);
    if (ended && (app === undefined || app === ended.requester)) return replayed(ended.end);
    const { status, code, message } = unknownCall(callId);
    return { status, detail: { v: 1, code, message, app_id: "", tool: "" } };
  }

  #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosing)
      return Promise.reject(new AssistantError("shutting_down", "the assistant is shutting down"));
    const running = work();
    this.#underWay.add(running);
    return running.finally(() => this.#underWay.delete(running));
  }
}

/** A sandboxed app is the same one by whatever connection. */
function isRequester(caller: Caller, requester: Caller): boolean {
  const app = sandboxedApp(requester);
  return app === undefined
    ? caller.connection === requester.connection
    : app === sandboxedApp(caller);
}

/** Also by another connection of the same process. */
function isSameProgram(one: Caller, other: Caller): boolean {
  return one.connection === other.connection || (one.pid !== undefined && one.pid === other.pid);
}
