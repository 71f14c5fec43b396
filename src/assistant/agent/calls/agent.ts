import { setMaxListeners } from "node:events";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Durability } from "../../../base/sqlite.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { AgentRules } from "../agent-rules.ts";
import type {
  AgentListener,
  AgentService,
  CallAnswer,
  CallRequest,
  CallResult,
  ConfirmationSpec,
  ToolRecord,
  UndoReport,
} from "../port.ts";
import type { ToolApps } from "../tool-apps.ts";
import type { ToolRegistry } from "../tool-manifest.ts";
import { AgentListeners } from "./agent-listeners.ts";
import { type BootClock, systemBootClock } from "./boot-clock.ts";
import { CallCompletionRecorder } from "./call-completion.ts";
import { CallIds } from "./call-ids.ts";
import { CallJournal } from "./call-journal.ts";
import { CallPlanner } from "./call-planner.ts";
import { CallRequestHandler } from "./call-request-handler.ts";
import { CallerQuotas, type CallLimits, defaultCallLimits } from "./caller-quotas.ts";
import { Dispatcher } from "./dispatcher.ts";
import { recoverJournal } from "./journal-recovery.ts";
import { LedgerOutbox } from "./ledger-outbox.ts";
import { LiveDefinitions } from "./live-definitions.ts";
import { PendingConfirmations, unknownCallRefusal } from "./pending-confirmations.ts";
import { markReplayed } from "./planned-call.ts";
import { UndoExecutor } from "./undo-executor.ts";
import { ValidatorCache } from "./validator-cache.ts";

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
const DRAIN_TIMEOUT_MS = 5_000;

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
  readonly #journal: CallJournal;
  readonly #requestHandler: CallRequestHandler;
  readonly #pendingConfirmations: PendingConfirmations;
  readonly #undoExecutor: UndoExecutor;
  readonly #completions: CallCompletionRecorder;
  readonly #outbox: LedgerOutbox;
  readonly #planner: CallPlanner;
  readonly #definitions: LiveDefinitions;
  readonly #listeners: AgentListeners;
  readonly #tasks: TaskGroup;
  readonly #lifetime = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #isClosing = false;
  /** The connection that alone may confirm. */
  #confirmer: string | undefined;

  private constructor(options: AgentOptions, journal: CallJournal) {
    const { registry, apps, ledger, rules, clock, logger } = options;
    const bootClock = options.bootClock ?? systemBootClock;
    const lifetime = this.#lifetime.signal;
    // Each call that is under way listens to it.
    setMaxListeners(0, lifetime);
    this.#options = options;
    this.#journal = journal;
    this.#listeners = new AgentListeners({ logger });
    this.#tasks = new TaskGroup((err, task) =>
      logger.error({ err, task }, "a task of the agent failed"),
    );
    const tasks = this.#tasks;
    this.#planner = new CallPlanner({ registry, rules, validators: new ValidatorCache() });
    const planner = this.#planner;
    this.#definitions = new LiveDefinitions({ apps, journal, logger });
    const definitions = this.#definitions;
    const dispatcher = new Dispatcher({ apps, ledger, definitions, clock, logger, lifetime });
    this.#outbox = new LedgerOutbox({ journal, ledger, clock, tasks, logger });
    const outbox = this.#outbox;
    const completions = new CallCompletionRecorder({
      ledger,
      journal,
      outbox,
      planner,
      clock,
      tasks,
      logger,
    });
    this.#completions = completions;
    const quotas = new CallerQuotas({ limits: options.limits ?? defaultCallLimits, clock });
    const listener = this.#listeners;
    const shared = { ledger, journal, planner, dispatcher, logger };
    const pendingConfirmations = new PendingConfirmations({
      ...shared,
      completions,
      quotas,
      listener,
      clock,
      bootClock,
      tasks,
    });
    this.#pendingConfirmations = pendingConfirmations;
    this.#undoExecutor = new UndoExecutor({ ...shared, outbox });
    const ids = new CallIds({ journal, logger });
    this.#requestHandler = new CallRequestHandler({
      ...shared,
      completions,
      quotas,
      ids,
      pendingConfirmations,
      definitions,
      lifetime,
    });
  }

  /**
   * Opens the journal, and ends what the last daemon left open. Rejects with AssistantError
   * `ledger_unavailable`, or with the BerthErrors of `openDatabase`, where the journal cannot be used.
   */
  static async open(options: AgentOptions): Promise<Agent> {
    const { dir, ledger, clock, logger } = options;
    const journal = new CallJournal({ dir, durability: options.durability ?? "full" });
    try {
      await recoverJournal({ journal, ledger, nowMs: clock.now(), logger });
      const agent = new Agent(options, journal);
      agent.#tasks.run("flush the ledger outbox", () => agent.#outbox.flush());
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
      return this.#requestHandler.handle(request, caller);
    });
  }

  listParked(caller: Caller): readonly ConfirmationSpec[] {
    return this.#pendingConfirmations.list(sandboxedApp(caller));
  }

  confirm(callId: number, approve: boolean, caller: Caller): Promise<CallResult> {
    return this.#track(async () => {
      const requester = this.#pendingConfirmations.findRequester(callId);
      if (requester) {
        this.#assertMayConfirm(caller, requester);
        const end = await this.#pendingConfirmations.answer(callId, approve, caller);
        if (end) return end;
      }
      return this.#findResult(callId, caller);
    });
  }

  withdraw(callId: number, caller: Caller): Promise<CallResult> {
    return this.#track(async () => {
      // Once is mostly enough: whoever else was answering may have found the ledger closed, and left it parked.
      let requester = this.#pendingConfirmations.findRequester(callId);
      while (requester) {
        if (!isRequester(caller, requester))
          throw new AssistantError("forbidden", "only whoever asked for a call may take it back");
        const end = await this.#pendingConfirmations.answer(callId, false, caller);
        requester = this.#pendingConfirmations.findRequester(callId);
        if (end && !requester) return end;
      }
      return this.#findResult(callId, caller);
    });
  }

  undo(caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoExecutor.undo(caller));
  }

  undoSkip(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoExecutor.skip(callId, caller));
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
    const found = this.#planner.findTool(appId, tool);
    if ("code" in found) throw new AssistantError("not_found", found.message);
    this.#definitions.approve(appId, found.tool, digest);
  }

  /** What it asked for stays: parked calls wait for whoever may confirm, and what runs is not cut off. */
  handleDisconnect(connection: string): void {
    if (this.#confirmer === connection) this.#confirmer = undefined;
  }

  subscribe(listener: AgentListener): () => void {
    return this.#listeners.add(listener);
  }

  /** Takes nothing new, and lets what is under way end within five seconds. Parked calls end with the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#pendingConfirmations.stop();
    this.#outbox.stop();
    const interrupt = this.#options.clock.setTimer(DRAIN_TIMEOUT_MS, () => this.#lifetime.abort());
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    interrupt();
    this.#lifetime.abort();
    await this.#tasks[Symbol.asyncDispose]();
    this.#outbox.stop();
    this.#completions.retryUnsaved();
    this.#journal[Symbol.dispose]();
  }

  /** Throws `forbidden`. */
  #assertMayConfirm(caller: Caller, requester: Caller): void {
    const app = sandboxedApp(caller);
    if (app !== undefined)
      throw new AssistantError("forbidden", `${app} is sandboxed, and may not confirm calls`);
    if (this.#confirmer !== undefined && this.#confirmer !== caller.connection)
      throw new AssistantError("forbidden", "another program has registered to confirm calls");
    if (this.#options.rules().confirm === "strict" && isSameProgram(caller, requester))
      throw new AssistantError("forbidden", "whoever asked for a call may not confirm it");
  }

  /** The answer that was given; a sandboxed app gets those to what it asked for itself. */
  #findResult(callId: number, caller: Caller): CallResult {
    const ended = this.#completions.find(callId);
    const app = sandboxedApp(caller);
    if (ended && (app === undefined || app === ended.requester)) return markReplayed(ended.result);
    const { status, code, message } = unknownCallRefusal(callId);
    return { status, detail: { v: 1, code, message, app_id: "", tool: "" } };
  }

  #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosing)
      return Promise.reject(new AssistantError("shutting_down", "the assistant is shutting down"));
    const running = work();
    this.#running.add(running);
    return running.finally(() => this.#running.delete(running));
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
