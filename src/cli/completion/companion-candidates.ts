import { parseParkedCalls, parseToolRows } from "../../client/bus/agent-wire.ts";
import { parseRemoteReport } from "../../client/bus/remote-wire.ts";
import type { Cli } from "../cli.ts";
import { connectCompanion } from "../companion/connect-companion.ts";
import { sanitizeLine } from "../companion/untrusted-text.ts";
import type { CandidateSource, CompletionCandidate } from "./complete-command-line.ts";

const COMPANION = "dev.assistant.Agent1";

/** The kinds of candidates that the companion provides. */
export type CompanionSource = Extract<
  CandidateSource,
  { type: "tool-apps" | "tools" | "parked-calls" | "providers" }
>;

/**
 * Lists candidates from a companion that already runs: pressing Tab must not start one. Rejects if there is no session
 * bus.
 */
export async function listCompanionCandidates(
  cli: Cli,
  source: CompanionSource,
  signal: AbortSignal,
): Promise<CompletionCandidate[]> {
  const { bus, agent, remote } = await connectCompanion(cli, signal);
  await using _ = bus;
  const [isRunning] = await bus.call(
    {
      destination: "org.freedesktop.DBus",
      path: "/org/freedesktop/DBus",
      interface: "org.freedesktop.DBus",
      member: "NameHasOwner",
      signature: "s",
      args: [COMPANION],
    },
    { signal, timeoutMs: 1000 },
  );
  if (isRunning !== true) return [];
  if (source.type === "parked-calls")
    return parseParkedCalls(await agent.listParked(signal)).map(({ callId, spec }) => ({
      value: String(callId),
      description: sanitizeLine(`${spec.appName}: ${spec.title}`),
    }));
  if (source.type === "providers")
    return parseRemoteReport(await remote.state(signal)).providers.map(({ id, displayName }) => ({
      value: sanitizeLine(id),
      description: sanitizeLine(displayName),
    }));
  const tools = parseToolRows(await agent.listTools(signal)).filter(
    ({ isDisabled }) => !isDisabled,
  );
  if (source.type === "tools")
    return tools
      .filter(({ appId }) => appId === source.appId)
      .map(({ name, tier, description }) => ({
        value: sanitizeLine(name),
        description: sanitizeLine(`${tier}: ${description}`),
      }));
  const counts = new Map<string, number>();
  for (const { appId } of tools) counts.set(appId, (counts.get(appId) ?? 0) + 1);
  return [...counts].map(([appId, count]) => ({
    value: sanitizeLine(appId),
    description: `${count} ${count === 1 ? "tool" : "tools"}`,
  }));
}
