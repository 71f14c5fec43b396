import type { Clock } from "../../../base/clock.ts";
import { ToolAppError } from "../tool-apps.ts";
import type { McpLimits } from "./mcp-limits.ts";

interface LateAnswersOptions {
  readonly clock: Clock;
  readonly limits: Pick<McpLimits, "lateAnswerMs" | "lateAnswersMax">;
  /** Called each time the wait for an answer has ended. */
  readonly onEnded: () => void;
}

/** Waits for the answers to calls that exceeded their time limit, for a limited time and number of calls. */
export class LateAnswers {
  readonly #options: LateAnswersOptions;
  /** The functions that cancel the awaited calls, oldest first. */
  readonly #cancels = new Set<() => void>();

  constructor(options: LateAnswersOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#cancels.size;
  }

  /**
   * Resolves to the result of `answer`, or to its error if that is a `tool_error`, which is an answer of the app
   * itself. Resolves to undefined if the app does not answer in time. `cancel` must make `answer` reject. Never
   * rejects.
   */
  async wait<T>(answer: Promise<T>, cancel: () => void): Promise<T | ToolAppError | undefined> {
    const { clock, limits, onEnded } = this.#options;
    const [oldest] = this.#cancels;
    if (this.#cancels.size >= limits.lateAnswersMax) oldest?.();
    this.#cancels.add(cancel);
    const stopTimer = clock.setTimer(limits.lateAnswerMs, cancel);
    try {
      return await answer;
    } catch (error) {
      return error instanceof ToolAppError && error.code === "tool_error" ? error : undefined;
    } finally {
      stopTimer();
      this.#cancels.delete(cancel);
      onEnded();
    }
  }
}
