/**
 * The frontend's window, as far as the companion can control it. There is at most one frontend, which may start and
 * exit at any time. The methods reject with AssistantErrors: `not_found` if there is no frontend; `timeout` or
 * `bad_response` if the frontend does not work correctly.
 */
export interface OverlayUi {
  /**
   * Returns the frontend's connection; undefined if there is no frontend, or if the frontend is not trusted, for
   * example because it runs in a sandbox. Never rejects.
   */
  connection(signal: AbortSignal): Promise<string | undefined>;
  summon(prompt: string, options: SummonOptions, signal: AbortSignal): Promise<void>;
  hide(signal: AbortSignal): Promise<void>;
  isVisible(signal: AbortSignal): Promise<boolean>;
}

export interface SummonOptions {
  /** The query that waits for the user; undefined if the window is shown because the user wants to ask a question. */
  readonly queryId?: number | undefined;
}
