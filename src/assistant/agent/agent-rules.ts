/** The user's settings for the agent bus from the companion's configuration, read again for each call. */
export interface AgentRules {
  /** If true, every call is `denied` with `paused`. */
  readonly isPaused: boolean;
  /** App ids; their calls are `denied` with `app_disabled`. */
  readonly disabledApps: ReadonlySet<string>;
  /** `app_id/tool`; calls are `denied` with `tool_disabled`. */
  readonly disabledTools: ReadonlySet<string>;
  /** strict: the process that requested a call may not confirm it, on any of its connections. */
  readonly confirm: "any" | "strict";
}
