import type { Socket } from "node:net";
import { backoffMs } from "../../../base/backoff.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { ToolAppError } from "../tool-apps.ts";
import type { Activator } from "./activation/port.ts";
import { waitForSocket } from "./activation/wait-for-socket.ts";
import { AppConnection } from "./app-connection.ts";
import type { McpLimits } from "./mcp-limits.ts";
import type { SocketFolder } from "./socket-folder.ts";

export interface AppConnectorOptions {
  readonly appId: string;
  readonly folder: SocketFolder;
  readonly activator: Activator;
  readonly version: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits: McpLimits;
  /** A signal that aborts when the daemon stops. */
  readonly signal: AbortSignal;
}

/** Keeps at most one connection and one connection attempt to one app, with a back-off after failures. */
export class AppConnector {
  readonly #options: AppConnectorOptions;
  #connection: AppConnection | undefined;
  #connecting: Promise<AppConnection> | undefined;
  #failures = 0;
  #lastFailure = "";
  #lastFailedConnection: AppConnection | undefined;
  #backoffUntil = 0;

  constructor(options: AppConnectorOptions) {
    this.#options = options;
  }

  get isConnected(): boolean {
    return this.#connection !== undefined && !this.#connection.isClosed;
  }

  /** Returns the open connection, or connects. Concurrent callers share one attempt, which none of them can abort. */
  async getConnection(isActivatable: boolean, signal: AbortSignal): Promise<AppConnection> {
    signal.throwIfAborted();
    if (this.#connection && !this.#connection.isClosed) return this.#connection;
    if (!this.#connecting) {
      this.#assertNotBackingOff();
      const connecting = this.#connect(isActivatable).finally(() => {
        this.#connecting = undefined;
      });
      this.#connecting = connecting;
    }
    return await raceWithAbort(this.#connecting, signal);
  }

  /** Resets the count of failures. Callers call this method when the app has answered a tool call. */
  recordSuccess(): void {
    this.#failures = 0;
  }

  /**
   * Counts a failure once per `connection`, because all callers on a connection see the same failure. `connection` is
   * undefined if connecting failed.
   */
  recordFailure(error: unknown, connection?: AppConnection): void {
    const { clock, limits, logger, appId, signal } = this.#options;
    if (signal.aborted || !(error instanceof ToolAppError)) return;
    if (connection && connection === this.#lastFailedConnection) return;
    this.#lastFailedConnection = connection;
    this.#failures += 1;
    this.#lastFailure = error.message;
    const excess = this.#failures - limits.failuresBeforeBackoff;
    const backoff = { firstMs: limits.backoffMs, maxMs: limits.backoffMsMax };
    const delayMs = excess < 0 ? 0 : backoffMs(excess, backoff);
    this.#backoffUntil = clock.now() + delayMs;
    const fields = { app: appId, failures: this.#failures, restMs: delayMs, err: error };
    logger.warn(fields, "an app connection or call failed");
  }

  async close(): Promise<void> {
    await this.#connecting?.catch(() => {});
    await this.#connection?.close();
  }

  #assertNotBackingOff(): void {
    const remainingMs = this.#backoffUntil - this.#options.clock.now();
    if (remainingMs <= 0) return;
    const seconds = Math.ceil(remainingMs / 1000);
    throw new ToolAppError(
      "app_unavailable",
      `${this.#options.appId} failed ${this.#failures} times in a row and is not called for ${seconds} s; the last failure was: ${this.#lastFailure}`,
    );
  }

  async #connect(isActivatable: boolean): Promise<AppConnection> {
    const { appId, folder, logger, signal } = this.#options;
    let hasListened = false;
    try {
      await folder.ensure();
      const connection = await AppConnection.open({
        ...this.#options,
        open: async (opening) => {
          const socket = await this.#open(isActivatable, opening);
          hasListened = true;
          return socket;
        },
        onClosed: (closed) => {
          if (this.#connection !== closed) return;
          this.#connection = undefined;
          logger.debug({ app: appId }, "app disconnected");
        },
      });
      if (signal.aborted) {
        await connection.close();
        throw signal.reason;
      }
      this.#connection = connection;
      logger.debug({ app: appId }, "app connected");
      return connection;
    } catch (error) {
      // No failure is counted for an app that does not run and cannot be started, because the next attempt to connect
      // costs almost nothing.
      if (hasListened || isActivatable) this.recordFailure(error);
      throw error;
    }
  }

  async #open(isActivatable: boolean, signal: AbortSignal): Promise<Socket> {
    const { appId, folder } = this.#options;
    const { socket } = await folder.connect(appId, signal);
    if (socket) return socket;
    if (isActivatable) return await this.#activate(signal);
    const message = `${appId} is not running, and its manifest does not allow starting it`;
    throw new ToolAppError("app_unavailable", message);
  }

  async #activate(signal: AbortSignal): Promise<Socket> {
    const { appId, activator, clock, limits } = this.#options;
    const bound = new AbortController();
    const follow = () => bound.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    const stopTimer = clock.setTimer(limits.activationTimeoutMs, () => {
      const seconds = Math.ceil(limits.activationTimeoutMs / 1000);
      const message = `${appId} was started, but did not listen within ${seconds} s`;
      bound.abort(new ToolAppError("activation_timeout", message));
    });
    const arriving = waitForSocket({ ...this.#options, signal: bound.signal });
    const activating = activator.activate(appId, bound.signal);
    try {
      return await Promise.race([arriving, activating.then(() => arriving)]);
    } catch (error) {
      // If the socket appeared at the moment when the activation failed, its connection is closed, because this call
      // fails.
      void arriving.then((socket) => socket.destroy()).catch(() => {});
      throw error;
    } finally {
      stopTimer();
      signal.removeEventListener("abort", follow);
      // Cancels the call to the bus or the watch of the socket folder, whichever is still pending.
      bound.abort(
        new DOMException(
          "the wait for the app has ended: the app is running, or cannot be started",
          "AbortError",
        ),
      );
      activating.catch(() => {});
    }
  }
}
