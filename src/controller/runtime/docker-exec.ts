import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { demultiplex } from "./docker-demux.ts";
import { engineError, fromEngineText, statusOf, textOf } from "./docker-errors.ts";
import { numberAt, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";
import { buffersOf } from "./docker-silence.ts";

const OUTPUT_BYTES_MAX = 4 * 1024;

/**
 * See ContainerRuntime.exec. A command that outlives its time goes on inside the container: the
 * engine has no way to end it.
 */
export async function execute(
  connection: DockerConnection,
  id: string,
  command: readonly string[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<{ exitCode: number; output: string }> {
  const asked = `run ${command[0] ?? "nothing"} in the container ${id.slice(0, 12)}`;
  const execId = await create(connection, asked, id, command, signal);
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
    const stream = await connection.stream(asked, timeoutMs, bound.signal, {
      method: "POST",
      path: `/exec/${encodeURIComponent(execId)}/start`,
      body: { Detach: false, Tty: false },
    });
    try {
      for await (const piece of demultiplex(buffersOf(stream))) {
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
      throw new BerthError("timeout", `cannot ${asked}: it did not end within ${timeoutMs} ms`);
    const failure = engineError(error, asked);
    const missing = notExecutable(failure.message);
    if (missing === undefined) throw failure;
    return { exitCode: missing, output: failure.message };
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
  const exitCode = await exitCodeOf(connection, asked, execId, signal);
  return { exitCode, output: output.toString("utf8") };
}

function create(
  connection: DockerConnection,
  asked: string,
  id: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  return connection.call(asked, READ_LIMIT_MS, signal, async (_, bound) => {
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
      if (statusOf(error) === 409 && /not running|is paused|is restarting/i.test(textOf(error)))
        throw new BerthError("engine_error", `cannot ${asked}: the container is not running`, {
          cause: error,
        });
      throw error;
    }
  });
}

function exitCodeOf(
  connection: DockerConnection,
  asked: string,
  execId: string,
  signal: AbortSignal,
): Promise<number> {
  return connection.call(asked, READ_LIMIT_MS, signal, async (_, bound) => {
    const state = await connection.request(
      { method: "GET", path: `/exec/${encodeURIComponent(execId)}/json` },
      bound,
    );
    const exitCode = numberAt(state, "ExitCode");
    if (exitCode !== undefined) return exitCode;
    // The stream was cut, not ended: what became of the command is unknown.
    throw fromEngineText("the command's end was not seen", asked);
  });
}

/** The exit code that a shell gives for a command that cannot be run; undefined for other failures. */
function notExecutable(message: string): number | undefined {
  if (/executable file not found|no such file or directory/i.test(message)) return 127;
  return /permission denied/i.test(message) ? 126 : undefined;
}
