import protobuf from "protobufjs/minimal.js";

/**
 * The parts of BuildKit's progress messages that Berth uses. Each message repeats the known state of the vertices that
 * changed. Berth reads only if a vertex has a start and an end time, and ignores their values.
 * https://github.com/moby/buildkit/blob/master/api/services/control/control.proto
 */
export interface BuildTrace {
  readonly vertices: readonly Vertex[];
  readonly logs: readonly {
    readonly vertex: string;
    readonly stream: number;
    readonly text: Uint8Array;
  }[];
  readonly statuses: readonly {
    readonly id: string;
    readonly current: number;
    readonly total: number;
  }[];
  readonly warnings: readonly string[];
}

export interface Vertex {
  readonly digest: string;
  readonly name: string;
  readonly isCached: boolean;
  readonly isStarted: boolean;
  readonly isCompleted: boolean;
  readonly error: string;
}

/** Parses a `moby.buildkit.trace`. Throws if the message is malformed. */
export function readTrace(message: Uint8Array): BuildTrace {
  const vertices: Vertex[] = [];
  const logs: { vertex: string; stream: number; text: Uint8Array }[] = [];
  const statuses: { id: string; current: number; total: number }[] = [];
  const warnings: string[] = [];
  forEachField(message, (field, reader) => {
    if (field === 1) vertices.push(readVertex(reader.bytes()));
    else if (field === 2) statuses.push(readStatus(reader.bytes()));
    else if (field === 3) logs.push(readLog(reader.bytes()));
    else if (field === 4) warnings.push(readWarning(reader.bytes()));
    else return false;
    return true;
  });
  return { vertices, logs, statuses, warnings };
}

function readVertex(bytes: Uint8Array): Vertex {
  let digest = "";
  let name = "";
  let cached = false;
  let started = false;
  let completed = false;
  let error = "";
  forEachField(bytes, (field, reader) => {
    if (field === 1) digest = reader.string();
    else if (field === 3) name = reader.string();
    else if (field === 4) cached = reader.bool();
    else if (field === 5) started = reader.bytes().length > 0;
    else if (field === 6) completed = reader.bytes().length > 0;
    else if (field === 7) error = reader.string();
    else return false;
    return true;
  });
  return { digest, name, isCached: cached, isStarted: started, isCompleted: completed, error };
}

function readStatus(bytes: Uint8Array): { id: string; current: number; total: number } {
  let id = "";
  let current = 0;
  let total = 0;
  forEachField(bytes, (field, reader) => {
    if (field === 1) id = reader.string();
    else if (field === 4) current = Number(reader.int64());
    else if (field === 5) total = Number(reader.int64());
    else return false;
    return true;
  });
  return { id, current, total };
}

function readLog(bytes: Uint8Array): { vertex: string; stream: number; text: Uint8Array } {
  let vertex = "";
  let stream = 0;
  let text: Uint8Array = new Uint8Array();
  forEachField(bytes, (field, reader) => {
    if (field === 1) vertex = reader.string();
    else if (field === 3) stream = Number(reader.int64());
    else if (field === 4) text = reader.bytes();
    else return false;
    return true;
  });
  return { vertex, stream, text };
}

function readWarning(bytes: Uint8Array): string {
  let short = "";
  forEachField(bytes, (field, reader) => {
    if (field !== 3) return false;
    short = Buffer.from(reader.bytes()).toString();
    return true;
  });
  return short;
}

/**
 * Calls `read` with each field of a protobuf message and the field's number. `read` returns false for an unknown field,
 * which is then skipped.
 */
export function forEachField(
  bytes: Uint8Array,
  read: (field: number, reader: protobuf.Reader) => boolean,
): void {
  const reader = protobuf.Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (!read(tag >>> 3, reader)) reader.skipType(tag & 7);
  }
}
