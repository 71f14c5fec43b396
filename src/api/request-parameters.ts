import type { FastifyReply, FastifyRequest } from "fastify";
import { BerthError } from "../base/errors.ts";
import { parseDuration } from "../base/units.ts";
import type { Actor, TokenScope } from "../store/store.ts";

/** Returns a signal that is aborted when the caller disconnects or the server closes. */
export function createRequestSignal(reply: FastifyReply, closing: AbortSignal): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  return AbortSignal.any([gone.signal, closing]);
}

/** Returns the caller as the actor for the audit log, with the scope that decides which fields the caller may write. */
export function getActor(request: FastifyRequest): Actor & { readonly scope: TokenScope } {
  const { caller, id } = request;
  return { name: caller?.name ?? "anonymous", requestId: id, scope: caller?.scope ?? "read" };
}

const WAIT_DEFAULT_MS = 60_000;
/** The longest wait. It is shorter than the five minutes after which HTTP clients usually time out. */
const WAIT_MAX_MS = 240_000;

/** Returns the milliseconds of `?timeout=`. Throws BerthError `invalid_request`. */
export function parseWaitTimeoutMs(text: string | undefined): number {
  if (text === undefined) return WAIT_DEFAULT_MS;
  const timeoutMs = parseDuration(text);
  if (timeoutMs > WAIT_MAX_MS) {
    throw new BerthError("invalid_request", `timeout: ${text} is longer than 4m`, {
      hint: "to wait longer, repeat GET with wait=true",
    });
  }
  return timeoutMs;
}
