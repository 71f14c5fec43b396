import type { AgentService, ConfirmationSpec } from "../../agent/port.ts";

/**
 * Records the agent's events for calls of one tool. It is created before the call is requested, because the call's id
 * is known only after the request, when another frontend may already have answered the call.
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

  /**
   * Returns the ConfirmationSpec that the agent service reported for a call; undefined if the call does not wait for
   * confirmation.
   */
  spec(callId: number): ConfirmationSpec | undefined {
    return this.#specs.get(callId);
  }

  isResolved(callId: number): boolean {
    return this.#resolved.has(callId);
  }

  /** Calls back once, when the call has been answered or has expired. */
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
