import { toolRows, waitingCalls } from "../../client/bus/agent-wire.ts";
import { remoteReport } from "../../client/bus/remote-wire.ts";
import type { Cli } from "../cli.ts";
import { connectCompanion } from "../companion/connect.ts";
import { shownLine } from "../companion/untrusted-text.ts";
import type { Candidate, Source } from "./candidates.ts";

const COMPANION = "dev.assistant.Agent1";

/** What the companion is asked for. */
export type CompanionSource = Extract<
  Source,
  { type: "tool-apps" | "tools" | "parked-calls" | "providers" }
>;

/** What a companion that runs knows: nobody's Tab starts one. Rejects where there is no bus. */
export async function companionCandidates(
  cli: Cli,
  source: CompanionSource,
  signal: AbortSignal,
): Promise<Candidate[]> {
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
    return waitingCalls(await agent.listParked(signal)).map(({ callId, spec }) => ({
      value: String(callId),
      description: shownLine(`${spec.appName}: ${spec.title}`),
    }));
  if (source.type === "providers")
    return remoteReport(await remote.state(signal)).providers.map(({ id, displayName }) => ({
      value: shownLine(id),
      description: shownLine(displayName),
    }));
  const tools = toolRows(await agent.listTools(signal));
  if (source.type === "tools")
    return tools
      .filter(({ appId }) => appId === source.appId)
      .map(({ name, tier, description }) => ({
        value: shownLine(name),
        description: shownLine(`${tier}: ${description}`),
      }));
  const counts = new Map<string, number>();
  for (const { appId } of tools) counts.set(appId, (counts.get(appId) ?? 0) + 1);
  return [...counts].map(([appId, count]) => ({
    value: shownLine(appId),
    description: `${count} ${count === 1 ? "tool" : "tools"}`,
  }));
}
