import { type Clock, delay } from "../../base/clock.ts";
import { getErrorMessage } from "../../base/errors.ts";
import { APP, INSTANCE } from "../labels.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { toEngineError } from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { numberAt, textAt, textsAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import { STREAM_OPEN_LIMIT_MS } from "./docker-limits.ts";
import type { RuntimeEvent } from "./port.ts";

/** The first delay before a reconnection; it doubles each time. An engine restart takes one to a few seconds. */
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 5_000;
/** After a connection that lasted this long, the back-off of reconnects begins again with its first delay. */
const STABLE_AFTER_MS = 5_000;
/**
 * If the engine is on another machine, events are requested from this many milliseconds before the connection, because
 * the clocks of the two machines may differ. An event that arrives twice is harmless, but only the resync would notice
 * a missed one.
 */
const SINCE_MARGIN_MS = 5_000;
/**
 * The interval of keep-alive probes. If the engine is on another machine, the probes detect that the engine has
 * disappeared.
 */
const KEEP_ALIVE_MS = 30_000;

/**
 * The actions whose events Berth requests: all that can make the containers or networks of an App differ from its spec.
 * The frequent events of exec and of health checks are not requested.
 */
const watchedActions = [
  "start",
  "die",
  "destroy",
  "oom",
  "rename",
  "update",
  "pause",
  "unpause",
  "connect",
  "disconnect",
];

/**
 * Implements `WorkloadRuntime.events`. One stream carries the events of containers and networks. The engine's label
 * filter would drop the events of networks, because they have no container labels, so the labels are compared here.
 * `appOf` returns the App of a container that left a network, as known from earlier lists.
 */
export async function* watchEvents(
  connection: DockerConnection,
  instance: string,
  appOf: (id: string) => string | undefined,
  signal: AbortSignal,
): AsyncGenerator<RuntimeEvent> {
  const clock: Clock = connection.clock;
  let backoffMs = BACKOFF_MIN_MS;
  let since: string | undefined;
  let isDisconnectReported = false;
  while (!signal.aborted) {
    let openedAt: number | undefined;
    let failure = "the event stream ended";
    try {
      const stream = await connection.stream("watch events", STREAM_OPEN_LIMIT_MS, signal, {
        method: "GET",
        path: "/events",
        query: {
          filters: JSON.stringify({ type: ["container", "network"], event: watchedActions }),
          ...(since === undefined ? {} : { since }),
        },
      });
      stream.socket.setKeepAlive(true, KEEP_ALIVE_MS);
      openedAt = clock.now();
      since ??= toEngineTime(
        openedAt - (connection.address.location === "this-machine" ? 0 : SINCE_MARGIN_MS),
      );
      try {
        isDisconnectReported = false;
        yield { type: "connected" };
        for await (const message of parseJsonLines(readBuffers(stream))) {
          since = parseEventTime(message) ?? since;
          const event = parseEvent(message, instance, appOf);
          if (event) yield event;
        }
      } finally {
        stream.destroy();
      }
    } catch (error) {
      failure = getErrorMessage(toEngineError(error, "watch events"));
    }
    if (signal.aborted) return;
    if (openedAt !== undefined && clock.now() - openedAt >= STABLE_AFTER_MS)
      backoffMs = BACKOFF_MIN_MS;
    if (!isDisconnectReported) yield { type: "disconnected", message: failure };
    isDisconnectReported = true;
    try {
      await delay(clock, backoffMs, signal);
    } catch {
      return;
    }
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MAX_MS);
  }
}

function parseEvent(
  message: Readonly<Record<string, unknown>>,
  instance: string,
  appOf: (id: string) => string | undefined,
): RuntimeEvent | undefined {
  const attributes = textsAt(message, "Actor", "Attributes");
  // An action can have a detail after a colon, as in "exec_start: sh". The detail is left out.
  const action = (textAt(message, "Action") ?? "").split(":")[0] ?? "";
  if (message["Type"] === "network") {
    const id = attributes["container"];
    const app = id === undefined ? undefined : appOf(id);
    return id !== undefined && app !== undefined
      ? { type: "container", action, id, app }
      : undefined;
  }
  if (message["Type"] !== "container" || attributes[INSTANCE] !== instance) return undefined;
  return {
    type: "container",
    action,
    id: textAt(message, "Actor", "ID") ?? "",
    app: attributes[APP] ?? "",
  };
}

function parseEventTime(message: Readonly<Record<string, unknown>>): string | undefined {
  // timeNano exceeds the precision of a number. Milliseconds are precise enough for `since`.
  const nano = numberAt(message, "timeNano");
  return nano === undefined ? undefined : toEngineTime(nano / 1e6);
}

function toEngineTime(epochMs: number): string {
  return (epochMs / 1000).toFixed(3);
}
