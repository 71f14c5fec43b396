import { EventEmitter, once } from "node:events";
import type { Cleanup } from "../../base/cleanup.ts";
import { BerthError, getErrorCode } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";

/** A daemon that is ready. */
export interface RunningDaemon<Ready> {
  readonly ready: Ready;
  /** Resolves when the daemon has shut down. */
  readonly closed: Promise<void>;
  /** Shuts the daemon down; requests that are being streamed receive an error event. May be called more than once. */
  close(): Promise<void>;
}

export function createRunningDaemon<Ready>(
  ready: Ready,
  cleanup: Cleanup,
  logger: Logger,
): RunningDaemon<Ready> {
  const ended = new EventEmitter();
  const untilEnded = async () => void (await once(ended, "end"));
  let closing: Promise<void> | undefined;
  return {
    ready,
    closed: untilEnded(),
    close: () => {
      closing ??= cleanup[Symbol.asyncDispose]()
        // An error means that a part of the daemon failed to shut down; all other parts have been shut down
        // nevertheless. The error is only logged, because no caller remains that could receive it.
        .catch((error: unknown) =>
          logger.error({ err: error }, "a part of the daemon failed to shut down"),
        )
        .finally(() => ended.emit("end"));
      return closing;
    },
  };
}

/**
 * Starts the HTTP server on the loopback interface only, and resolves to its URL. Rejects with `conflict` if the port
 * is in use.
 */
export async function listenOnLoopback(
  http: { listen(address: { host: string; port: number }): Promise<string> },
  port: number,
): Promise<string> {
  try {
    return await http.listen({ host: "127.0.0.1", port });
  } catch (error) {
    if (getErrorCode(error) === "EADDRINUSE")
      throw new BerthError("conflict", `port ${port} of 127.0.0.1 is taken by another program`, {
        hint: "is the assistant running already? Otherwise choose another port with --port, 0 for any",
        cause: error,
      });
    throw error;
  }
}
