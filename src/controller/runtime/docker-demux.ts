import { BerthError } from "../../base/errors.ts";

export interface FramePiece {
  readonly stream: "stdout" | "stderr";
  /** True for the first piece of a frame, which starts with the engine's timestamp. */
  readonly isStart: boolean;
  /** True for the last piece of a frame. */
  readonly isEnd: boolean;
  readonly data: Buffer;
}

const HEADER_BYTES = 8;

/**
 * Splits the engine's multiplexed stream: frames of an 8 byte header (stream, 3 zeros, length) and a payload. Yields
 * the payloads in pieces as they arrive, so that the size of a chunk limits the memory, even if a frame claims a huge
 * length. Frames of stdin do not occur in responses and are dropped.
 */
export async function* demultiplex(chunks: AsyncIterable<Buffer>): AsyncGenerator<FramePiece> {
  let header = Buffer.alloc(0);
  let stream: "stdout" | "stderr" | undefined;
  let left = 0;
  let start = true;
  for await (let chunk of chunks) {
    while (chunk.length > 0) {
      if (left === 0) {
        const wanted = HEADER_BYTES - header.length;
        header = Buffer.concat([header, chunk.subarray(0, wanted)]);
        chunk = chunk.subarray(wanted);
        if (header.length < HEADER_BYTES) break;
        stream = parseStreamType(header);
        left = header.readUInt32BE(4);
        header = Buffer.alloc(0);
        start = true;
        continue;
      }
      const data = chunk.subarray(0, left);
      chunk = chunk.subarray(data.length);
      left -= data.length;
      if (stream) yield { stream, isStart: start, isEnd: left === 0, data };
      start = false;
    }
  }
}

function parseStreamType(header: Buffer): "stdout" | "stderr" | undefined {
  const type = header[0];
  if (header[1] !== 0 || header[2] !== 0 || header[3] !== 0 || type === undefined || type > 2)
    throw new BerthError("engine_error", "the engine's stream is not multiplexed", {
      hint: "Berth cannot read the output of a container with a terminal (tty)",
    });
  return type === 1 ? "stdout" : type === 2 ? "stderr" : undefined;
}
