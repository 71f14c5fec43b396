/** Starts apps that are not there. Whether one has come is seen at its socket, not here. */
export interface Activator {
  /**
   * Asks for the app to be started. Rejects as soon as it is known that it will not come, with ToolAppError
   * `app_unavailable`; with the signal's reason when that aborts, which whoever waits for the socket does
   * when it is there. Resolves when nothing more is to be learnt here. An app that is starting is not
   * started again.
   */
  activate(appId: string, signal: AbortSignal): Promise<void>;
}

/** One way to start apps. */
export interface AppStarter {
  /** As `Activator.activate`; `unknown`: this way knows no such app, and has done nothing. */
  start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown">;
}
