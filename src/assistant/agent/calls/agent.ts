import { setMaxListeners } from "node:events";
import type { Clock } from "../../../base/clock.ts";
import { Listeners } from "../../../base/listeners.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Durability } from "../../../base/sqlite.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger } from "../../ledger/port.ts";
import { type AgentRules, isToolDisabled } from "../agent-rules.ts";
import type {
  AgentListener,
  AgentService,
  CallAnswer,
  CallRequest,
  CallResult,
  ConfirmationSpec,
  DiscoverState,
  ToolRecord,
  UndoReport,
} from "../port.ts";
import type { ToolApps } from "../tool-apps.ts";
import type { ToolRegistry } from "../tool-manifest.ts";
import { type BootClock, systemBootClock } from "./boot-clock.ts";
import { CallCompletionRecorder } from "./call-completion.ts";
import { toolApprovalEntry } from "./call-entries.ts";
import { CallIds } from "./call-ids.ts";
import { CallJournal } from "./call-journal.ts";
import { CallPlanner } from "./call-planner.ts";
import { CallRequestHandler } from "./call-request-handler.ts";
import { CallerQuotas, type CallLimits, defaultCallLimits } from "./caller-quotas.ts";
import { Dispatcher } from "./dispatcher.ts";
import { ExclusiveConfirmer } from "./exclusive-confirmer.ts";
import { recoverJournal } from "./journal-recovery.ts";
import { LedgerOutbox } from "./ledger-outbox.ts";
import { LiveDefinitions } from "./live-definitions.ts";
import { PendingConfirmations, unknownCallRefusal } from "./pending-confirmations.ts";
import { markReplayed } from "./planned-call.ts";
import { TierHistory } from "./tier-history.ts";
import { UndoExecutor } from "./undo-executor.ts";
import { ValidatorCache } from "./validator-cache.ts";

export interface AgentOptions {
  readonly registry: ToolRegistry;
  readonly apps: ToolApps;
  readonly ledger: Ledger;
  /** Returns the user's settings; called again for each tool call. */
  readonly rules: () => AgentRules;
  readonly discover: AgentService["discover"];
  readonly discoverState: AgentService["discoverState"];
  /** The companion's state directory, which holds the journal `agent.db`. Only one daemon may use it at a time. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Defaults to the boot clock of this machine; tests pass their own. */
  readonly bootClock?: BootClock;
  readonly limits?: CallLimits;
  /** Durability of the journal's commits. Defaults to `full`; tests use the faster `off`. */
  readonly durability?: Durability;
}

/**
 * When the daemon stops, calls that still run after this time are interrupted. The daemon may take 4.5 seconds to exit;
 * the rest of that time is for the ledger entries and the answers of these calls.
 */
const DRAIN_TIMEOUT_MS = 2_000;

/**
 * Runs the tool calls of all callers. A call that may have an effect passes through the following actions in this
 * order. Each action is on the disk before the next action begins:
 *
 * 1. The ledger records the entry `requested`.
 * 2. Only for a call that must be confirmed: the journal stores the state `parked`, the ledger records the entry
 *    `parked`, and the listeners are notified. The call waits until it is confirmed.
 * 3. The journal stores the state `dispatching`, and the ledger records the entry `dispatch`.
 * 4. The app runs the tool.
 * 5. The ledger records the entry `result`, and the journal stores the state `ended`.
 *
 * If the daemon is killed between two actions, no effect lacks its ledger entry, and no effect happens twice, because
 * a call in state `dispatching` is never dispatched again. A call that runs at once and cannot be undone has no row
 * in the journal; its entries `requested` and `dispatch` are one commit, and the app is called right after it.
 *
 * After a kill, the next daemon reports a result that depends on the last action on the disk:
 *
 * - Ledger entry `requested`: the daemon reports nothing, because the call never began.
 * - Journal state `parked`: the daemon reports `denied` with `restarted`.
 * - Journal state `dispatching`: the daemon reports `failed` with `interrupted`, because the tool may have run.
 * - Ledger entry `dispatch`: the daemon also reports `failed` with `interrupted`, and records `indeterminate`.
 * - Ledger entry `result`: the daemon also reports `failed` with `interrupted`, but the ledger has the result.
 * - Journal state `ended`: the daemon reports the stored result again.
 *
 * If the ledger rejects an entry, the actions after that entry do not happen. Entries about events that have already
 * happened, or about cancelled calls, wait in the journal's outbox until the ledger accepts them.
 *
 * A call that exceeds its time limit ends as `failed` with an unknown outcome. If the app answers within some minutes,
 * the ledger records the entry `late`, and the journal stores the answer in place of the result.
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
  readonly #tiers: TierHistory;
  readonly #listeners: Listeners<AgentListener>;
  readonly #tasks: TaskGroup;
  readonly #lifetime = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #ids: CallIds;
  #isClosing = false;
  #stopDrainTimer: (() => void) | undefined;
  readonly #confirmer: ExclusiveConfirmer;

  private constructor(options: AgentOptions, journal: CallJournal) {
    const { registry, apps, ledger, rules, clock, logger } = options;
    const bootClock = options.bootClock ?? systemBootClock;
    const lifetime = this.#lifetime.signal;
    // Every running call adds a listener to the signal, so Node.js's warning about more than ten listeners is turned
    // off.
    setMaxListeners(0, lifetime);
    this.#options = options;
    this.#journal = journal;
    this.#listeners = new Listeners(logger);
    this.#confirmer = new ExclusiveConfirmer(ledger);
    this.#tasks = new TaskGroup((err, task) =>
      logger.error({ err, task }, "a background task of the agent failed"),
    );
    const tasks = this.#tasks;
    this.#tiers = new TierHistory({ registry, journal, logger });
    const tiers = this.#tiers;
    this.#planner = new CallPlanner({ registry, rules, validators: new ValidatorCache(), tiers });
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
    const listener: AgentListener = {
      confirmationRequested: (...event) =>
        this.#listeners.notify((one) => one.confirmationRequested(...event)),
      callResolved: (...event) => this.#listeners.notify((one) => one.callResolved(...event)),
    };
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
    this.#undoExecutor = new UndoExecutor({ ...shared, outbox, tasks });
    const ids = new CallIds({ journal, logger });
    this.#ids = ids;
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
   * Opens the journal and ends the calls that the previous daemon left open. If the journal cannot be used, rejects
   * with AssistantError `ledger_unavailable` or with the BerthErrors of `openDatabase`.
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
    const rules = this.#options.rules();
    return this.#options.registry.apps().flatMap((app) =>
      app.tools
        .map((tool) => ({
          app_id: app.appId,
          name: tool.name,
          tier: tool.tier,
          description: tool.description,
          undoable: tool.undo !== undefined,
          ...(isToolDisabled(rules, app.appId, tool.name) ? { disabled: true as const } : {}),
        }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }

  discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]> {
    return this.#options.discover(query, signal);
  }

  discoverState(): DiscoverState {
    return this.#options.discoverState();
  }

  /** Rejects if `signal` is already aborted. An abort after this method was called does not stop the tool call. */
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
      // The loop usually runs once. It runs again if another caller was answering the confirmation but the ledger
      // failed, because the call is then still parked.
      let requester = this.#pendingConfirmations.findRequester(callId);
      while (requester) {
        if (!isRequester(caller, requester))
          throw new AssistantError(
            "forbidden",
            "only the caller that requested a call may withdraw it",
          );
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

  undoCall(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoExecutor.retry(callId, caller));
  }

  undoSkip(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#track(() => this.#undoExecutor.skip(callId, caller));
  }

  /**
   * Registers the only connection that may confirm calls. Rejects with `forbidden` for a sandboxed app, which could
   * otherwise lock the user out and approve calls in the user's name.
   */
  registerConfirmer(caller: Caller): Promise<void> {
    return this.#track(async () => {
      assertMayConfirm(caller);
      await this.#confirmer.register(caller);
    });
  }

  approveTool(appId: string, tool: string, digest: string, caller: Caller): Promise<void> {
    return this.#track(async () => {
      const app = sandboxedApp(caller);
      if (app !== undefined)
        throw new AssistantError("forbidden", `${app} is sandboxed, and may not approve tools`);
      const found = this.#planner.findTool(appId, tool);
      if ("code" in found) throw new AssistantError("not_found", found.message);
      const entry = toolApprovalEntry({ appId, tool, digest }, caller);
      const record = () => this.#options.ledger.append(entry);
      if (digest !== found.tool.digest)
        return this.#definitions.approve(appId, found.tool, digest, record);
      // If the tool may be called without an approval, there is nothing to approve and nothing to record.
      if (this.#tiers.check(found.app, found.tool) === undefined) return;
      await record();
      this.#tiers.approve(appId, found.tool);
    });
  }

  /**
   * Handles the end of a connection. The calls of that connection continue: parked calls wait for a program that may
   * confirm them, and running calls are not interrupted.
   */
  handleDisconnect(connection: string): void {
    this.#confirmer.release(connection);
  }

  subscribe(listener: AgentListener): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Begins the time after which running calls are interrupted. The daemon calls this as soon as it stops, before it
   * closes its other parts, so that callers get their answers before the process exits.
   */
  beginShutdown(): void {
    this.#stopDrainTimer ??= this.#options.clock.setTimer(DRAIN_TIMEOUT_MS, () =>
      this.#lifetime.abort(),
    );
  }

  /**
   * Rejects new requests and waits up to two seconds for running calls. Parked calls stay in the journal and are
   * denied at the next start.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.beginShutdown();
    this.#pendingConfirmations.stop();
    this.#outbox.stop();
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    this.#stopDrainTimer?.();
    this.#lifetime.abort();
    await this.#tasks[Symbol.asyncDispose]();
    this.#outbox.stop();
    this.#completions.retryUnsaved();
    this.#tiers[Symbol.dispose]();
    this.#ids.release();
    this.#journal[Symbol.dispose]();
  }

  /** Throws AssistantError `forbidden` if this caller may not confirm calls of `requester`. */
  #assertMayConfirm(caller: Caller, requester: Caller): void {
    assertMayConfirm(caller);
    if (!this.#confirmer.isOpenTo(caller.connection))
      throw new AssistantError("forbidden", "another program has registered to confirm calls");
    if (this.#options.rules().confirm === "strict" && isSameProcess(caller, requester))
      throw new AssistantError("forbidden", "the program that requested a call may not confirm it");
  }

  /** The result of an ended call. A sandboxed app gets only the results of its own calls. */
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

/** Throws `forbidden` for a sandboxed app, which may confirm no call. */
function assertMayConfirm(caller: Caller): void {
  const app = sandboxedApp(caller);
  if (app !== undefined)
    throw new AssistantError("forbidden", `${app} is sandboxed, and may not confirm calls`);
}

/**
 * Returns true if `caller` requested the call. A sandboxed app is recognised on every connection that it opens, any
 * other program only on the connection of the request.
 */
function isRequester(caller: Caller, requester: Caller): boolean {
  const app = sandboxedApp(requester);
  return app === undefined
    ? caller.connection === requester.connection
    : app === sandboxedApp(caller);
}

/** Returns true if both callers are the same process, even if that process uses two connections. */
function isSameProcess(one: Caller, other: Caller): boolean {
  return one.connection === other.connection || one.pid === other.pid;
}
