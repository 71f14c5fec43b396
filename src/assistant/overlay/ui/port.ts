/**
 * The window that a person sees, as far as the companion may move it. At most one is there; it comes and goes as it
 * likes. Rejections are AssistantErrors: `not_found` where there is none, `timeout` and `bad_response` for one that
 * does not do its part.
 */
export interface OverlayUi {
  /** Its connection; undefined: there is none now, or one that may not be it, as in a sandbox. Never rejects. */
  connection(signal: AbortSignal): Promise<string | undefined>;
  summon(prompt: string, options: SummonOptions, signal: AbortSignal): Promise<void>;
  hide(signal: AbortSignal): Promise<void>;
  isVisible(signal: AbortSignal): Promise<boolean>;
}

export interface SummonOptions {
  /** A query that waits for the person; undefined: they want to ask something. */
  readonly queryId?: number | undefined;
}
