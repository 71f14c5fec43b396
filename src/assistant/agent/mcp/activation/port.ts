/** Starts apps that are not running. Callers watch the app's socket to learn when the app listens. */
export interface Activator {
  /**
   * Starts the app. Rejects with ToolAppError `app_unavailable` as soon as it is known that the app will not start,
   * and with the signal's reason when the caller aborts because the socket has appeared. Resolves when the start was
   * requested and a failure can no longer be noticed. An app that is already starting is not started again.
   */
  activate(appId: string, signal: AbortSignal): Promise<void>;

  /** Resolves to false if no mechanism knows the app, so that `activate` would reject. Starts nothing. */
  canStart(appId: string, signal: AbortSignal): Promise<boolean>;
}

/** One of the ways to start an app: as a D-Bus service, as a systemd unit, or with a command. */
export interface AppStarter {
  /**
   * Starts the app like `Activator.activate`, but resolves to `unknown`, without any effect, if this mechanism does not
   * know the app.
   */
  start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown">;

  /** Resolves to false if `start` would resolve to `unknown`. Starts nothing. */
  knows(appId: string, signal: AbortSignal): Promise<boolean>;
}
