import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { toEngineError } from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { textAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/**
 * Returns an error if the engine was shutting down, or a user killed the step; undefined if the step failed for another
 * reason. The engine reports all of these with the exit code of the step alone. An engine that is shutting down accepts
 * no new connections. If a service manager holds the engine's socket, a newly started engine answers, which has no
 * events of the step's container.
 */
export async function detectInterruption(
  connection: DockerConnection,
  container: string | undefined,
  signal: AbortSignal,
): Promise<BerthError | undefined> {
  const action = "find out why a step of the build ended";
  const ask = async (path: string, query?: Record<string, string>) => {
    // A new connection is needed, because open connections of an engine that is shutting down still work.
    const stream = await connection.stream(action, READ_LIMIT_MS, signal, {
      method: "GET",
      path,
      ...(query ? { query } : {}),
    });
    const cancel = connection.clock.setTimer(READ_LIMIT_MS, () => stream.destroy());
    try {
      const found: unknown[] = [];
      for await (const item of parseJsonLines(readBuffers(stream))) found.push(item);
      return found;
    } finally {
      cancel();
      stream.destroy();
    }
  };
  try {
    const [facts] = await ask("/info");
    const until = toEngineTime(textAt(facts, "SystemTime"));
    if (container === undefined || until === undefined) return undefined;
    const filters = JSON.stringify({ type: ["container"], container: [container] });
    const events = await ask("/events", { since: "0", until, filters });
    const actions = new Set(events.map((event) => textAt(event, "Action")));
    if (actions.has("oom") || (actions.has("die") && !actions.has("kill"))) return undefined;
    return new BerthError(
      "engine_error",
      "cannot build the image: the container of a step was killed from outside",
      { hint: "check if the engine was restarted" },
    );
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const failure = toEngineError(error, action);
    // The engine was reached, but answered with an error, which does not explain the failure of the step. The original
    // failure is then reported.
    if (failure.code !== "engine_unreachable") return undefined;
    return new BerthError(
      "engine_unreachable",
      "cannot build the image: the engine became unreachable during a step",
      { cause: failure, hint: "check if the engine is restarting" },
    );
  }
}

/** Converts an RFC 3339 time to seconds since 1970, as the engine's parameters `since` and `until` expect. */
function toEngineTime(time: string | undefined): string | undefined {
  const epochMs = Date.parse(time ?? "");
  return Number.isNaN(epochMs) ? undefined : (epochMs / 1000).toFixed(3);
}
