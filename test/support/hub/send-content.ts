import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { Content } from "./content.ts";
import type { Misbehaviour } from "./faults.ts";

export interface Served {
  readonly content: Content;
  /** The entity tag with its quotation marks (and W/); undefined if none is sent. */
  readonly etag: string | undefined;
  readonly lastModified?: string | undefined;
  /** If false, the header Accept-Ranges is `none`, and range requests get the whole file. */
  readonly ranges: boolean;
  /** If false, the response is chunked and has no Content-Length. */
  readonly length: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/** Applies faults that replace a regular response; returns true if one was applied. */
export function applyMisbehaviour(
  faults: readonly Misbehaviour[],
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  for (const fault of faults) {
    switch (fault.type) {
      case "hang":
        return true;
      case "reset":
        request.socket.destroy();
        return true;
      case "page":
        response
          .writeHead(200, { "content-type": "text/html" })
          .end(fault.body ?? "<!doctype html><title>Welcome</title><p>Please sign in.");
        return true;
      case "loop":
        response.writeHead(302, { location: request.url }).end();
        return true;
      case "redirect":
        response.writeHead(fault.status ?? 302, { location: fault.to }).end();
        return true;
      case "status":
        response.writeHead(fault.status, fault.headers).end(fault.body ?? "");
        return true;
      case "expired":
        response
          .writeHead(403, { "content-type": "application/xml" })
          .end("<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>");
        return true;
      default:
    }
  }
  return false;
}

/**
 * Answers a GET or HEAD request for bytes as RFC 9110 requires, except for `faults`. `onBytes` is called for each piece
 * that is sent.
 */
export async function sendContent(
  served: Served,
  faults: readonly Misbehaviour[],
  request: IncomingMessage,
  response: ServerResponse,
  onBytes: (count: number) => void,
): Promise<void> {
  const changed = find(faults, "changed");
  const content = changed?.content ?? served.content;
  const etag = changed ? `"${content.sha256.slice(0, 32)}-changed"` : served.etag;
  const ranges = served.ranges && !find(faults, "no-ranges");
  const { sizeBytes } = content;
  const headers: Record<string, string> = {
    "content-type": "binary/octet-stream",
    "accept-ranges": ranges ? "bytes" : "none",
    ...served.headers,
    ...(etag === undefined ? {} : { etag }),
    ...(served.lastModified === undefined ? {} : { "last-modified": served.lastModified }),
  };
  const range = ranges ? wantedRange(request, etag, served.lastModified, sizeBytes) : undefined;
  if (range === "unsatisfiable") {
    response.writeHead(416, { ...headers, "content-range": `bytes */${sizeBytes}` }).end();
    return;
  }
  const { start, end } = range ?? { start: 0, end: sizeBytes };
  const lie = find(faults, "wrong-length")?.byBytes ?? 0;
  if (served.length) headers["content-length"] = String(Math.max(0, end - start + lie));
  if (range) headers["content-range"] = `bytes ${start}-${end - 1}/${sizeBytes}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === "HEAD") {
    response.end();
    return;
  }
  // The headers are sent at once, so that a client sees the start of a response even if the body stalls.
  response.flushHeaders();
  await sendBody({ content, start, end: Math.min(end, end + lie) }, faults, response, onBytes);
  if (lie > 0) response.destroy();
}

async function sendBody(
  part: { readonly content: Content; readonly start: number; readonly end: number },
  faults: readonly Misbehaviour[],
  response: ServerResponse,
  onBytes: (count: number) => void,
): Promise<void> {
  const cut = find(faults, "cut");
  const limit = cut?.afterBytes ?? find(faults, "stall")?.afterBytes ?? Number.POSITIVE_INFINITY;
  const speed = find(faults, "slow")?.bytesPerSecond;
  const end = Math.min(part.end, part.start + limit);
  const stepBytes = speed === undefined ? undefined : Math.max(1, Math.ceil(speed / 20));
  let at = part.start;
  for await (const chunk of part.content.read(part.start, end)) {
    for (const piece of pieces(flipBit(chunk, at, find(faults, "flip")?.atByte), stepBytes)) {
      if (response.destroyed || response.writableEnded) return;
      onBytes(piece.length);
      if (!response.write(piece)) await waitUntilDrained(response);
      if (speed !== undefined) await pause((piece.length / speed) * 1000);
    }
    at += chunk.length;
  }
  if (end === part.end) {
    response.end();
    return;
  }
  // The data must be sent before the connection ends, because otherwise fewer than `afterBytes` would arrive.
  if (cut) response.write("", () => response.destroy());
}

function find<T extends Misbehaviour["type"]>(
  faults: readonly Misbehaviour[],
  type: T,
): Extract<Misbehaviour, { type: T }> | undefined {
  return faults.find((fault): fault is Extract<Misbehaviour, { type: T }> => fault.type === type);
}

/**
 * Returns the requested range. Returns undefined, for the whole file, if the request has no range, several ranges,
 * another unit, or an If-Range that does not match.
 */
function wantedRange(
  request: IncomingMessage,
  etag: string | undefined,
  lastModified: string | undefined,
  sizeBytes: number,
): { readonly start: number; readonly end: number } | "unsatisfiable" | undefined {
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  const condition = request.headers["if-range"];
  // A weak entity tag in If-Range never matches, because the bytes of the versions may differ.
  const holds = condition === lastModified || (condition === etag && !etag?.startsWith("W/"));
  if (condition !== undefined && !holds) return undefined;
  const start = first === "" ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === "" || last === "" ? sizeBytes : Math.min(Number(last) + 1, sizeBytes);
  return start >= sizeBytes || start >= end ? "unsatisfiable" : { start, end };
}

function flipBit(chunk: Buffer, startsAt: number, atByte: number | undefined): Buffer {
  if (atByte === undefined || atByte < startsAt || atByte >= startsAt + chunk.length) return chunk;
  const copy = Buffer.from(chunk);
  copy.writeUInt8(copy.readUInt8(atByte - startsAt) ^ 1, atByte - startsAt);
  return copy;
}

function* pieces(chunk: Buffer, stepBytes: number | undefined): Generator<Buffer> {
  const step = stepBytes ?? chunk.length;
  for (let at = 0; at < chunk.length; at += step) yield chunk.subarray(at, at + step);
}

async function waitUntilDrained(response: ServerResponse): Promise<void> {
  if (response.closed) return;
  const over = new AbortController();
  try {
    await Promise.race([
      once(response, "drain", { signal: over.signal }),
      once(response, "close", { signal: over.signal }),
    ]);
  } finally {
    over.abort();
  }
}
