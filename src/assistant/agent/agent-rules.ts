/** What the user has set for the agent bus, in the companion's configuration; read anew for each call. */
export interface AgentRules {
  /** No call is taken; `denied` with `paused`. */
  readonly isPaused: boolean;
  /** App ids: `denied` with `app_disabled`. */
  readonly disabledApps: ReadonlySet<string>;
  /** `app_id/tool`: `denied` with `tool_disabled`. */
  readonly disabledTools: ReadonlySet<string>;
  /** strict: the process that asked for a call may not confirm it, by whatever connection. */
  readonly confirm: "any" | "strict";
}
