import { hashJson } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { EngineHost, EngineInfo } from "../engine-host.ts";
import * as labels from "../labels.ts";
import type { WriterLease } from "../lease/port.ts";
import type { EngineState } from "../port.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";

/** The interval of listings of all containers. They find changes for which no event arrived. */
export const RESYNC_MS = 60_000;
/** The interval of connection attempts while the engine does not answer. */
const RECONNECT_MS = 1_000;

type ConnectionState =
  | { readonly connected: true; readonly info: EngineInfo }
  | { readonly connected: false; readonly message: string };

export interface EngineMonitorOptions {
  readonly lease: Pick<WriterLease, "otherWriter">;
  readonly runtime: WorkloadRuntime & EngineHost;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly instance: string;
  readonly onContainer: (app: string) => void;
  readonly onConnectionChange: (connected: boolean) => void;
  /**
   * Called after each listing of all containers, with the Apps whose containers have changed since a reconcile run or a
   * listing last observed them.
   */
  readonly onSweep: (apps: readonly string[]) => void;
  /** Returns the names of all Apps. */
  readonly listApps: () => readonly string[];
}

/**
 * Tracks if the engine answers, follows its events, and lists all containers once a minute. One listing covers all
 * Apps, and only Apps whose containers have changed are reconciled.
 */
export class EngineMonitor {
  readonly #options: EngineMonitorOptions;
  #state: ConnectionState = { connected: false, message: "not asked yet" };
  #fingerprints = new Map<string, string>();

  constructor(options: EngineMonitorOptions) {
    this.#options = options;
  }

  get state(): EngineState {
    if (!this.#state.connected) return this.#state;
    return { ...this.#state, otherWriter: this.#options.lease.otherWriter };
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#follow(signal), this.#resync(signal)]);
  }

  /**
   * Records the containers that a reconcile has observed, so that the next listing of all containers reports only
   * differences from them.
   */
  recordObservation(app: string, containers: readonly ObservedContainer[]): void {
    this.#fingerprints.set(app, fingerprint(containers));
  }

  /**
   * Lists all containers once, and reports the Apps whose containers have changed. Throws the engine's error if the
   * list fails.
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const { runtime, instance } = this.#options;
    const byApp = new Map<string, ObservedContainer[]>();
    for (const container of await runtime.listContainers({ instance }, signal)) {
      const app = container.labels[labels.APP];
      // A container of a component of Berth, such as the ingress, belongs to no App and has its own controller, so it
      // is left out here.
      if (app === undefined && container.labels[labels.COMPONENT] !== undefined) continue;
      byApp.set(app ?? "", [...(byApp.get(app ?? "") ?? []), container]);
    }
    const seen = new Map<string, string>();
    for (const name of new Set([...byApp.keys(), ...this.#options.listApps()])) {
      seen.set(name, fingerprint(byApp.get(name) ?? []));
    }
    const changed = [...seen]
      .filter(([name, digest]) => this.#fingerprints.get(name) !== digest)
      .map(([name]) => name);
    this.#fingerprints = seen;
    this.#options.onSweep(changed);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { runtime, instance, clock, logger } = this.#options;
    while (!signal.aborted) {
      try {
        for await (const event of runtime.events({ instance }, signal)) {
          if (event.type === "container") this.#options.onContainer(event.app);
          else if (event.type === "connected") await this.#handleConnect(signal);
          else this.#handleDisconnect(event.message);
        }
      } catch (error) {
        if (isAbortError(error) && signal.aborted) return;
        logger.warn({ err: error }, "the engine's events ended");
        this.#handleDisconnect(getErrorMessage(error));
      }
      if (signal.aborted) return;
      await delay(clock, RECONNECT_MS, signal).catch(() => {});
    }
  }

  async #handleConnect(signal: AbortSignal): Promise<void> {
    const info = await this.#options.runtime.info(signal);
    if (!this.#state.connected)
      this.#options.logger.info(
        { engine: info.name, version: info.version },
        "the container engine answers",
      );
    this.#state = { connected: true, info };
    this.#options.onConnectionChange(true);
    // Events are lost while there is no connection, so a listing has to find the containers without an App.
    await this.sweep(signal);
  }

  #handleDisconnect(message: string): void {
    const wasConnected = this.#state.connected || this.#state.message === "not asked yet";
    this.#state = { connected: false, message };
    if (!wasConnected) return;
    this.#options.logger.warn({ error: message }, "the container engine does not answer");
    this.#options.onConnectionChange(false);
  }

  async #resync(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      await delay(clock, RESYNC_MS, signal).catch(() => {});
      if (signal.aborted || !this.#state.connected) continue;
      try {
        await this.sweep(signal);
      } catch (error) {
        if (isAbortError(error) && signal.aborted) return;
        logger.warn({ error: getErrorMessage(error) }, "resync failed, will be tried again");
      }
    }
  }
}

function fingerprint(containers: readonly ObservedContainer[]): string {
  return hashJson(containers.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
}
