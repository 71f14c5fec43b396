import { isMusl, MUSL_NOTICE } from "../../../base/c-library.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Environment } from "../../../base/process-environment.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import type { AssistantSettings } from "../../../config/config.ts";
import { DaemonChild } from "../../daemons/daemon-child.ts";
import { RestartBackoff } from "../../daemons/restart-backoff.ts";
import {
  type AssistantLaunchSettings,
  buildAssistantCommand,
  classifyOwnership,
  computeStartedBy,
} from "./assistant-command.ts";
import type { AssistantIdentity } from "./control-responses.ts";
import type { ControlTransport } from "./control-transport.ts";
import { isProcessRunning, probeDaemon, terminateProcess, waitUntilGone } from "./daemon-probe.ts";
import type { AssistantDaemon, AssistantReport } from "./port.ts";

const LONGEST_WAIT_MS = 60_000;
/** How often a daemon is asked that is no child of ours, so that nothing tells when it ends. */
const WATCH_MS = 2_000;
/** `berth up` ends within five seconds, and this is not all that it has to do. */
const GRACE_MS = 4_000;
/** In what the assistant advises. */
const flagAliases = {
  "--port": "--assistant-port",
  "--data-dir": "--assistant-data-dir",
  "--memory": "--assistant-memory",
};

/** What happened to the assistant, to be recorded as an event of Berth itself. */
export interface AssistantEvent {
  readonly type: "Normal" | "Warning";
  readonly reason:
    | "AssistantUp"
    | "AssistantTakenOver"
    | "AssistantReplaced"
    | "AssistantFound"
    | "AssistantEnded";
  readonly message: string;
}

export interface AssistantSupervisorOptions extends AssistantLaunchSettings {
  /** The program that starts a Berth of this version, and its first arguments: what stands before `assistant`. */
  readonly program: readonly string[];
  readonly settings: AssistantSettings;
  /** The id of this Berth's data directory: an assistant that an earlier process of it started is ours. */
  readonly owner: string;
  /** What the assistant may know. */
  readonly environment: Environment;
  readonly transport: ControlTransport;
  /** What its users have to know while it is up; default: what the C library of this system means to it. */
  readonly notice?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The report is another one now. `event` is undefined where that is no news to anybody. */
  readonly onChange: (report: AssistantReport, event: AssistantEvent | undefined) => void;
}

/** An end, and how long it had answered before, in milliseconds. */
interface DaemonExit {
  readonly reason: string;
  readonly upMs: number;
}

/**
 * Keeps the assistant running. Where a daemon answers at the control socket, it is taken over if this
 * Berth started it before it was killed, and used but never ended if somebody else did; where none does,
 * one is started as a child. What ends is started again:
 *
 * starting -> up -> waiting -> starting; foreign -> starting, once that one has gone.
 */
export class AssistantSupervisor implements AssistantDaemon, AsyncDisposable {
  readonly #options: AssistantSupervisorOptions;
  readonly #tasks: TaskGroup;
  readonly #startedBy: string;
  readonly #notice: string | null;
  #report: AssistantReport = {
    state: "starting",
    url: null,
    pid: null,
    starts: 0,
    message: "it is being started",
  };
  /** What is ours to end. */
  #terminateOwned: (() => Promise<void>) | undefined;
  readonly #restartPause = new RestartBackoff({ maxMs: LONGEST_WAIT_MS });

  constructor(options: AssistantSupervisorOptions) {
    this.#options = options;
    this.#startedBy = computeStartedBy(options);
    this.#notice = options.notice ?? (isMusl() ? MUSL_NOTICE : null);
    this.#tasks = new TaskGroup((error) =>
      options.logger.error({ err: error }, "the assistant is not looked after any more"),
    );
  }

  report(): AssistantReport {
    return this.#report;
  }

  start(): void {
    this.#tasks.run("assistant", (signal) => this.#run(signal));
  }

  /** Ends what is ours within GRACE_MS and a moment; what somebody else started goes on. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    await this.#terminateOwned?.();
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const there = await probeDaemon(this.#options.transport, signal);
      const end = await this.#supervise(there, signal);
      if (end) await this.#waitForRestart(end, signal);
    }
  }

  /** Until it has ended; undefined where the next look need not wait. */
  async #supervise(
    probe: AssistantIdentity | "nobody" | "silent",
    signal: AbortSignal,
  ): Promise<DaemonExit | undefined> {
    if (probe === "nobody") return this.#runChild(signal);
    if (probe === "silent") {
      const reason = "something listens at its control socket, and does not answer as an assistant";
      return { reason, upMs: 0 };
    }
    const owner = classifyOwnership(probe, this.#startedBy);
    if (owner === "ours") return this.#adopt(probe, signal);
    await (owner === "outdated" ? this.#replace(probe, signal) : this.#useForeign(probe, signal));
    return undefined;
  }

  async #runChild(signal: AbortSignal): Promise<DaemonExit> {
    const { clock, environment } = this.#options;
    let upSince: number | undefined;
    const child = new DaemonChild({
      command: buildAssistantCommand(this.#options, this.#startedBy),
      environment,
      clock,
      flags: flagAliases,
      onReady: (url) => {
        if (signal.aborted) return;
        upSince = clock.now();
        this.#updateReport(
          { state: "up", url, pid: child.pid ?? null, message: this.#notice },
          { type: "Normal", reason: "AssistantUp", message: `the assistant answers on ${url}` },
        );
      },
    });
    this.#terminateOwned = () => child.end(GRACE_MS);
    this.#updateReport({
      state: "starting",
      url: null,
      pid: child.pid ?? null,
      starts: this.#report.starts + 1,
      message: "it is being started",
    });
    const reason = await raceWithAbort(child.ended, signal);
    this.#terminateOwned = undefined;
    return { reason, upMs: upSince === undefined ? 0 : clock.now() - upSince };
  }

  /** One that was our child before this process was started. */
  async #adopt(daemon: AssistantIdentity, signal: AbortSignal): Promise<DaemonExit> {
    const { clock } = this.#options;
    const since = clock.now();
    this.#terminateOwned = () => this.#terminateDaemon(daemon);
    this.#updateReport(
      {
        state: "up",
        url: daemon.url,
        pid: daemon.pid,
        starts: this.#report.starts + 1,
        message: this.#notice,
      },
      {
        type: "Normal",
        reason: "AssistantTakenOver",
        message: `the assistant on ${daemon.url} went on while Berth was away, and is taken over`,
      },
    );
    await this.#untilGone(daemon, signal);
    this.#terminateOwned = undefined;
    return { reason: "it ended; its log says why", upMs: clock.now() - since };
  }

  async #replace(daemon: AssistantIdentity, signal: AbortSignal): Promise<void> {
    this.#updateReport(
      { state: "starting", url: null, pid: null, message: "another version makes way" },
      {
        type: "Normal",
        reason: "AssistantReplaced",
        message: `an assistant of version ${daemon.version} went on while Berth was away, and is started anew with the settings of now`,
      },
    );
    await terminateProcess(daemon.pid, { clock: this.#options.clock, graceMs: GRACE_MS }, signal);
  }

  async #useForeign(daemon: AssistantIdentity, signal: AbortSignal): Promise<void> {
    this.#updateReport(
      {
        state: "foreign",
        url: daemon.url,
        pid: daemon.pid,
        message: "somebody else started it: Berth uses it, and does not end it",
      },
      {
        type: "Normal",
        reason: "AssistantFound",
        message: `an assistant that somebody else started answers on ${daemon.url}, and is used`,
      },
    );
    await this.#untilGone(daemon, signal);
    this.#restartPause.reset();
  }

  /** One that is busy or stopped does not answer, and is there all the same. */
  async #untilGone({ pid }: AssistantIdentity, signal: AbortSignal): Promise<void> {
    const { transport: calls, clock } = this.#options;
    for (;;) {
      await delay(clock, WATCH_MS, signal);
      const now = await probeDaemon(calls, signal);
      if (now === "silent" && isProcessRunning(pid)) continue;
      if (typeof now === "object" && now.pid === pid) continue;
      // Its socket closes before its ledger, which the next one needs.
      if (now === "nobody") await waitUntilGone(pid, GRACE_MS, clock, signal);
      return;
    }
  }

  /** Ends one that is no child; its process id may be somebody else's by now. */
  async #terminateDaemon({ pid }: AssistantIdentity): Promise<void> {
    const { transport: calls, clock } = this.#options;
    const { signal } = new AbortController();
    const now = await probeDaemon(calls, signal);
    if (now === "nobody" || (typeof now === "object" && now.pid !== pid)) return;
    await terminateProcess(
      pid,
      { clock, graceMs: now === "silent" ? GRACE_MS / 2 : GRACE_MS },
      signal,
    );
  }

  async #waitForRestart({ reason, upMs: heldMs }: DaemonExit, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const waitMs = this.#restartPause.nextDelayMs(heldMs);
    logger.warn({ reason, retryInMs: waitMs }, "the assistant is not up");
    this.#updateReport(
      {
        state: "waiting",
        url: null,
        pid: null,
        message: `${reason}; it is started again after ${waitMs / 1000} s`,
      },
      { type: "Warning", reason: "AssistantEnded", message: `the assistant is not up: ${reason}` },
    );
    await delay(clock, waitMs, signal);
  }

  #updateReport(to: Partial<AssistantReport>, event?: AssistantEvent): void {
    this.#report = { ...this.#report, ...to };
    if (event?.type === "Normal")
      this.#options.logger.info({ url: this.#report.url, pid: this.#report.pid }, event.message);
    this.#options.onChange(this.#report, event);
  }
}
