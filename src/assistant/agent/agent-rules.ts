/** The user's settings for tool calls, from the companion's configuration file. They are read again for each call. */
export interface AgentRules {
  /** If true, every call is denied with the code `paused`. */
  readonly isPaused: boolean;
  /** Ids of disabled apps; calls of their tools are denied with the code `app_disabled`. */
  readonly disabledApps: ReadonlySet<string>;
  /** Disabled tools as `app_id/tool`; their calls are denied with the code `tool_disabled`. */
  readonly disabledTools: ReadonlySet<string>;
  /** If `strict`, the process that requested a call may not confirm it on any of its connections. */
  readonly confirm: "any" | "strict";
}

/** Returns true if the user has disabled the tool or its app. */
export function isToolDisabled(rules: AgentRules, appId: string, tool: string): boolean {
  return rules.disabledApps.has(appId) || rules.disabledTools.has(`${appId}/${tool}`);
}
