import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { demultiplex } from "./docker-demux.ts";
import {
  errorFromEngineText,
  getEngineMessage,
  getHttpStatus,
  toEngineError,
} from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { numberAt, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

const OUTPUT_BYTES_MAX = 4 * 1024;

/**
 * Implements `WorkloadRuntime.exec`. A command that exceeds its time limit continues inside the container, because
 * the engine cannot end it.
 */
export async function execute(
  connection: DockerConnection,
  id: string,
  command: readonly string[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<{ exitCode: number; output: string }> {
  const action = `run ${command[0] ?? "nothing"} in the container ${id.slice(0, 12)}`;
  const execId = await createExec(connection, action, id, command, signal);
  let late = false;
  const bound = new AbortController();
  const onAbort = () => bound.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const cancel = connection.clock.setTimer(timeoutMs, () => {
    late = true;
    bound.abort();
  });
  let output: Buffer = Buffer.alloc(0);
  try {
    const stream = await connection.stream(action, timeoutMs, bound.signal, {
      method: "POST",
      path: `/exec/${encodeURIComponent(execId)}/start`,
      body: { Detach: false, Tty: false },
    });
    try {
      for await (const piece of demultiplex(readBuffers(stream))) {
        output = Buffer.concat([output, piece.data]);
        if (output.length > OUTPUT_BYTES_MAX) output = output.subarray(-OUTPUT_BYTES_MAX);
      }
    } finally {
      stream.destroy();
    }
    bound.signal.throwIfAborted();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (late)
      throw new BerthError("timeout", `cannot ${action}: it did not end within ${timeoutMs} ms`);
    const failure = toEngineError(error, action);
    const missing = parseNotExecutable(failure.message);
    if (missing === undefined) throw failure;
    return { exitCode: missing, output: failure.message };
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
  const exitCode = await readExitCode(connection, action, execId, signal);
  return { exitCode, output: output.toString("utf8") };
}

function createExec(
  connection: DockerConnection,
  action: string,
  id: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  return connection.call(action, READ_LIMIT_MS, signal, async (_, bound) => {
    try {
      const made = await connection.request(
        {
          method: "POST",
          path: `/containers/${encodeURIComponent(id)}/exec`,
          body: { AttachStdout: true, AttachStderr: true, Cmd: command },
        },
        bound,
      );
      return textAt(made, "Id") ?? "";
    } catch (error) {
      if (
        getHttpStatus(error) === 409 &&
        /not running|is paused|is restarting/i.test(getEngineMessage(error))
      )
        throw new BerthError("engine_error", `cannot ${action}: the container is not running`, {
          cause: error,
        });
      throw error;
    }
  });
}

function readExitCode(
  connection: DockerConnection,
  action: string,
  execId: string,
  signal: AbortSignal,
): Promise<number> {
  return connection.call(action, READ_LIMIT_MS, signal, async (_, bound) => {
    const state = await connection.request(
      { method: "GET", path: `/exec/${encodeURIComponent(execId)}/json` },
      bound,
    );
    const exitCode = numberAt(state, "ExitCode");
    if (exitCode !== undefined) return exitCode;
    // The stream was cut off: the result of the command is unknown.
    throw errorFromEngineText("the connection was lost before the command ended", action);
  });
}

/** Returns the exit code that a shell uses for a command that cannot be executed; undefined for other failures. */
function parseNotExecutable(message: string): number | undefined {
  if (/executable file not found|no such file or directory/i.test(message)) return 127;
  return /permission denied/i.test(message) ? 126 : undefined;
}
