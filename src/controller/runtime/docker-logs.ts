import { isAbortError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { demultiplex, type FramePiece } from "./docker-demux.ts";
import { toEngineError } from "./docker-errors.ts";
import { readBuffers, withIdleTimeout } from "./docker-idle-timeout.ts";
import { getErrorCode } from "./docker-json.ts";
import { LOG_IDLE_LIMIT_MS, STREAM_OPEN_LIMIT_MS } from "./docker-limits.ts";
import type { LogLine, LogOptions } from "./port.ts";

/** Implements `WorkloadRuntime.logs`. Reads only as fast as the reader, except for the buffer of the socket. */
export async function* readLogs(
  connection: DockerConnection,
  id: string,
  options: LogOptions,
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  if (signal.aborted) return;
  const action = `read the log of the container ${id.slice(0, 12)}`;
  try {
    const stream = await connection.stream(action, STREAM_OPEN_LIMIT_MS, signal, {
      method: "GET",
      path: `/containers/${encodeURIComponent(id)}/logs`,
      query: {
        stdout: "true",
        stderr: "true",
        timestamps: "true",
        follow: String(options.follow),
        tail: Number.isFinite(options.tail) ? String(Math.max(0, Math.trunc(options.tail))) : "all",
        ...(options.sinceMs === undefined ? {} : { since: (options.sinceMs / 1000).toFixed(3) }),
      },
    });
    // A followed log can be silent for days, so it gets no idle timeout.
    const idleTimeout = options.follow
      ? undefined
      : withIdleTimeout(connection.clock, stream, { silenceMs: LOG_IDLE_LIMIT_MS });
    try {
      yield* assembleLogLines(demultiplex(idleTimeout?.chunks ?? readBuffers(stream)));
    } finally {
      idleTimeout?.stop();
      stream.destroy();
    }
  } catch (error) {
    if (
      signal.aborted &&
      (isAbortError(error) || error === signal.reason || isConnectionCut(error))
    )
      return;
    throw toEngineError(error, action);
  }
}

function isConnectionCut(error: unknown): boolean {
  const code = getErrorCode(error);
  return code === "ECONNRESET" || code === "ERR_STREAM_PREMATURE_CLOSE";
}

/** The maximum length of a line. Longer lines are split, so that readers need little memory. */
const LINE_BYTES_MAX = 64 * 1024;
/** The longest timestamp: `2026-11-20T19:46:34.123456789Z`, with space for an offset. */
const TIME_BYTES_MAX = 40;

/**
 * Assembles lines from frames. Each frame starts with a timestamp. The engine splits a line of more than 16 KiB into
 * several frames, and only the last of them ends with a newline.
 */
export async function* assembleLogLines(
  pieces: AsyncIterable<FramePiece>,
): AsyncGenerator<LogLine> {
  const open = { stdout: new LogLineAssembler("stdout"), stderr: new LogLineAssembler("stderr") };
  for await (const piece of pieces) yield* open[piece.stream].take(piece);
  yield* open.stdout.flush();
  yield* open.stderr.flush();
}

class LogLineAssembler {
  readonly #stream: "stdout" | "stderr";
  #time = "";
  /** The timestamp of the current frame while it is read; undefined when it is complete. */
  #stamp: Buffer | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;
  #begun = false;

  constructor(stream: "stdout" | "stderr") {
    this.#stream = stream;
  }

  *take(piece: FramePiece): Generator<LogLine> {
    if (piece.isStart) this.#stamp = Buffer.alloc(0);
    let data = piece.data;
    if (this.#stamp !== undefined) {
      const held: Buffer = Buffer.concat([this.#stamp, data]);
      const space = held.indexOf(32);
      if (space < 0 && held.length < TIME_BYTES_MAX && !piece.isEnd) {
        this.#stamp = held;
        return;
      }
      this.#stamp = undefined;
      const stamped = space > 0 && space <= TIME_BYTES_MAX;
      if (!this.#begun && stamped) this.#time = held.subarray(0, space).toString("latin1");
      data = stamped ? held.subarray(space + 1) : held;
      this.#begun = true;
    }
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10)) {
      yield* this.#add(data.subarray(0, end));
      yield* this.#emit();
      data = data.subarray(end + 1);
      this.#begun = data.length > 0;
    }
    if (data.length > 0) {
      this.#begun = true;
      yield* this.#add(data);
    }
  }

  *flush(): Generator<LogLine> {
    if (this.#bytes > 0) yield* this.#emit();
  }

  *#add(data: Buffer): Generator<LogLine> {
    let rest = data;
    while (this.#bytes + rest.length > LINE_BYTES_MAX) {
      const room = LINE_BYTES_MAX - this.#bytes;
      const whole = Buffer.concat([...this.#parts, rest.subarray(0, room)]);
      const cut = findCharacterEnd(whole);
      this.#parts = [whole.subarray(0, cut)];
      yield* this.#emit();
      // The bytes of an incomplete character belong to the next piece.
      this.#parts = cut < whole.length ? [whole.subarray(cut)] : [];
      this.#bytes = whole.length - cut;
      rest = rest.subarray(room);
    }
    if (rest.length > 0) {
      // The bytes are copied, so that a short line does not keep a whole chunk in memory.
      this.#parts.push(Buffer.from(rest));
      this.#bytes += rest.length;
    }
  }

  *#emit(): Generator<LogLine> {
    const message = Buffer.concat(this.#parts).toString("utf8").replace(/\r$/, "");
    this.#parts = [];
    this.#bytes = 0;
    yield { time: this.#time, stream: this.#stream, message };
  }
}

/** Returns the offset at which the last complete UTF-8 character in `bytes` ends. */
function findCharacterEnd(bytes: Buffer): number {
  for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes.length;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return length > back ? bytes.length - back : bytes.length;
    }
  }
  return bytes.length;
}
