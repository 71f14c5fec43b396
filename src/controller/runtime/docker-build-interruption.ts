import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { toEngineError } from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { textAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/**
 * An engine that is stopped kills the step that runs, and still reports its exit code as if the step
 * had failed by itself; a person who kills its container looks the same. Neither says anything of the
 * source. Returns the error that says so, and undefined where the step ended by itself.
 *
 * A stopping engine takes no connections any more. Behind the socket of a service manager the one
 * that is started next answers, and knows nothing of the step's container.
 */
export async function detectInterruption(
  connection: DockerConnection,
  container: string | undefined,
  signal: AbortSignal,
): Promise<BerthError | undefined> {
  const action = "see why a step of the build ended";
  const ask = async (path: string, query?: Record<string, string>) => {
    // A stream has a connection of its own: those that are open already work until the end.
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
      { hint: "see whether the engine was restarted" },
    );
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const failure = toEngineError(error, action);
    // An engine that is there, and does not know the question: what it said first counts.
    if (failure.code !== "engine_unreachable") return undefined;
    return new BerthError(
      "engine_unreachable",
      "cannot build the image: the engine went away during a step",
      { cause: failure, hint: "see whether the engine is restarting" },
    );
  }
}

/** RFC 3339 as the engine writes it, to the form in which it takes times. */
function toEngineTime(time: string | undefined): string | undefined {
  const epochMs = Date.parse(time ?? "");
  return Number.isNaN(epochMs) ? undefined : (epochMs / 1000).toFixed(3);
}
