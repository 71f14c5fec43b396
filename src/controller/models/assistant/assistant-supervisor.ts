import { isMusl, MUSL_NOTICE } from "../../../base/c-library.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Environment } from "../../../base/process-environment.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import {
  isProcessRunning,
  terminateProcess,
  waitUntilGone,
} from "../../../base/running-process.ts";
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
import { probeDaemon } from "./daemon-probe.ts";
import type { AssistantDaemon, AssistantReport } from "./port.ts";

const RESTART_DELAY_MAX_MS = 60_000;
/** The interval of checks on a daemon that is not a child of this process, because no event reports its end. */
const WATCH_MS = 2_000;
/**
 * The time between SIGTERM and SIGKILL. It is short, because `berth up` must end within five seconds and has other
 * work to end.
 */
const GRACE_MS = 4_000;
/** The time that a killed process may take to disappear, because the system frees its memory first. */
const KILL_LIMIT_MS = 1_000;
/** Maps the flags in hints of the assistant to those of `berth up`. */
const flagAliases = {
  "--port": "--assistant-port",
  "--data-dir": "--assistant-data-dir",
  "--memory": "--assistant-memory",
};

/**
 * An event that Berth records about the assistant: the assistant is up, was taken over, replaced or found, or has
 * ended.
 */
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
  /** The program that starts a Berth of this version, and its arguments before `assistant`. */
  readonly program: readonly string[];
  readonly settings: AssistantSettings;
  /**
   * The id of this Berth's data directory. An assistant is adopted if an earlier process with the same id started it.
   */
  readonly owner: string;
  /** The environment variables of the assistant. */
  readonly environment: Environment;
  readonly transport: ControlTransport;
  /**
   * A notice for users of the assistant, shown while the assistant is up. The default notice names the limits that
   * result from the C library of this system.
   */
  readonly notice?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when the report has changed. `event` is undefined if the change is not worth an event. */
  readonly onChange: (report: AssistantReport, event: AssistantEvent | undefined) => void;
}

/** The exit of a daemon, with the number of milliseconds for which it had answered requests. */
interface DaemonExit {
  readonly reason: string;
  readonly upMs: number;
}

/**
 * Keeps the assistant running. If a daemon answers on the control socket, it is adopted if an earlier process of this
 * Berth started it; otherwise (`foreign`) it is used, but never ended. If no daemon answers, one is started as a child.
 * A daemon that has ended is started again, after a back-off (`waiting`) if it was this Berth's own. The states of the
 * report are therefore:
 *
 * starting -> up -> waiting -> starting; foreign -> starting.
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
  /** Ends the daemon that this Berth has started or adopted; undefined if there is none. */
  #terminateOwned: (() => Promise<void>) | undefined;
  readonly #restartPause = new RestartBackoff({ maxMs: RESTART_DELAY_MAX_MS });

  constructor(options: AssistantSupervisorOptions) {
    this.#options = options;
    this.#startedBy = computeStartedBy(options);
    this.#notice = options.notice ?? (isMusl() ? MUSL_NOTICE : null);
    this.#tasks = new TaskGroup((error) =>
      options.logger.error({ err: error }, "the supervisor of the assistant has failed"),
    );
  }

  report(): AssistantReport {
    return this.#report;
  }

  start(): void {
    this.#tasks.run("assistant", (signal) => this.#run(signal));
  }

  /** Ends the daemon, unless another process started it. Resolves shortly after GRACE_MS at the latest. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    await this.#terminateOwned?.();
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const probe = await probeDaemon(this.#options.transport, signal);
      const end = await this.#supervise(probe, signal);
      if (end) await this.#waitForRestart(end, signal);
    }
  }

  /**
   * Watches the daemon that the probe found, or starts one, until the daemon has ended. Returns how the daemon ended if
   * the next start has to wait for the back-off; undefined if the next probe can follow at once.
   */
  async #supervise(
    probe: AssistantIdentity | "none" | "silent",
    signal: AbortSignal,
  ): Promise<DaemonExit | undefined> {
    if (probe === "none") return this.#runChild(signal);
    if (probe === "silent") {
      const reason =
        "a program listens at the assistant's control socket, but does not answer as an assistant";
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

  /** Adopts a daemon that an earlier process of this Berth has started. */
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
        message: `the assistant on ${daemon.url} kept running while Berth was down, and is adopted`,
      },
    );
    await this.#untilGone(daemon, signal);
    this.#terminateOwned = undefined;
    return { reason: "the assistant ended; its log says why", upMs: clock.now() - since };
  }

  async #replace(daemon: AssistantIdentity, signal: AbortSignal): Promise<void> {
    this.#updateReport(
      {
        state: "starting",
        url: null,
        pid: null,
        message: "an assistant of another version is being ended",
      },
      {
        type: "Normal",
        reason: "AssistantReplaced",
        message: `an assistant of version ${daemon.version} kept running while Berth was down, and is restarted with the current version and settings`,
      },
    );
    await terminateProcess(
      daemon.pid,
      { clock: this.#options.clock, graceMs: GRACE_MS, killMs: KILL_LIMIT_MS },
      signal,
    );
  }

  async #useForeign(daemon: AssistantIdentity, signal: AbortSignal): Promise<void> {
    this.#updateReport(
      {
        state: "foreign",
        url: daemon.url,
        pid: daemon.pid,
        message:
          "another process started the assistant; Berth uses the assistant, but does not end it",
      },
      {
        type: "Normal",
        reason: "AssistantFound",
        message: `an assistant that another process started answers on ${daemon.url}, and is used`,
      },
    );
    await this.#untilGone(daemon, signal);
    this.#restartPause.reset();
  }

  /**
   * Resolves when the daemon has ended. The process is checked, because a busy or stopped daemon does not answer on the
   * socket.
   */
  async #untilGone({ pid }: AssistantIdentity, signal: AbortSignal): Promise<void> {
    const { transport, clock } = this.#options;
    for (;;) {
      await delay(clock, WATCH_MS, signal);
      const now = await probeDaemon(transport, signal);
      if (now === "silent" && isProcessRunning(pid)) continue;
      if (typeof now === "object" && now.pid === pid) continue;
      // The daemon closes its socket before its ledger. The next daemon needs the ledger, so its start waits until the
      // process has ended.
      if (now === "none") await waitUntilGone(() => isProcessRunning(pid), GRACE_MS, clock, signal);
      return;
    }
  }

  /** Ends a daemon that is not a child. Probes it first, because another process may have its process id now. */
  async #terminateDaemon({ pid }: AssistantIdentity): Promise<void> {
    const { transport, clock } = this.#options;
    const { signal } = new AbortController();
    const now = await probeDaemon(transport, signal);
    if (now === "none" || (typeof now === "object" && now.pid !== pid)) return;
    await terminateProcess(
      pid,
      { clock, graceMs: now === "silent" ? GRACE_MS / 2 : GRACE_MS, killMs: KILL_LIMIT_MS },
      signal,
    );
  }

  async #waitForRestart({ reason, upMs }: DaemonExit, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const waitMs = this.#restartPause.nextDelayMs(upMs);
    logger.warn({ reason, retryInMs: waitMs }, "the assistant is not up");
    this.#updateReport(
      {
        state: "waiting",
        url: null,
        pid: null,
        message: `${reason}; the next start is in ${waitMs / 1000} s`,
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
