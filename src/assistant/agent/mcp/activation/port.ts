/** Starts apps that are not running. Callers watch the app's socket to see if it is up. */
export interface Activator {
  /**
   * Starts the app. Rejects with ToolAppError `app_unavailable` as soon as it is known that the app will not start,
   * and with the signal's reason when the caller aborts because the socket has appeared. Resolves when this method
   * can find out nothing more. An app that is already starting is not started again.
   */
  activate(appId: string, signal: AbortSignal): Promise<void>;
}

/** A mechanism that starts apps. */
export interface AppStarter {
  /** Like `Activator.activate`. `unknown`: this mechanism does not know the app and has done nothing. */
  start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown">;
}
