import type { AgentService, ConfirmationSpec } from "../../agent/port.ts";

/**
 * What the agent tells of calls of one tool from before one is asked for: its number is only known afterwards,
 * and by then everybody may have been asked, and somebody have answered.
 */
export class CallWatcher implements Disposable {
  readonly #tool: { readonly appId: string; readonly tool: string };
  readonly #specs = new Map<number, ConfirmationSpec>();
  readonly #resolved = new Set<number>();
  readonly #waiting = new Map<number, () => void>();
  readonly #unsubscribe: () => void;

  constructor(agent: AgentService, tool: { readonly appId: string; readonly tool: string }) {
    this.#tool = tool;
    this.#unsubscribe = agent.subscribe({
      confirmationRequested: (callId, spec) => this.#onRequested(callId, spec),
      callResolved: (callId) => {
        if (!this.#specs.has(callId)) return;
        this.#resolved.add(callId);
        this.#waiting.get(callId)?.();
      },
    });
  }

  /** As everybody was asked; undefined: nobody has been. */
  spec(callId: number): ConfirmationSpec | undefined {
    return this.#specs.get(callId);
  }

  isResolved(callId: number): boolean {
    return this.#resolved.has(callId);
  }

  /** Calls back once, when somebody has answered or the time is up. */
  onResolved(callId: number, callback: () => void): void {
    this.#waiting.set(callId, callback);
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
  }

  #onRequested(callId: number, spec: ConfirmationSpec): void {
    if (spec.app_id === this.#tool.appId && spec.tool === this.#tool.tool)
      this.#specs.set(callId, spec);
  }
}
