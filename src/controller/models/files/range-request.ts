import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import type { RetryLimits } from "./download-backoff.ts";
import {
  sourceDeniedError,
  sourceNotFoundError,
  sourceUnreachableError,
} from "./download-errors.ts";
import type { DownloadSource, SourceResponse } from "./download-source.ts";
import { classifyRangeResponse, type ExpectedRange, type RangeResponse } from "./range-response.ts";
import type { RequestGuard } from "./request-guard.ts";
import { badRangeError, RetryableError, toNetworkError } from "./retryable-error.ts";

/** A response that fits the request; its body is not read yet. */
export type AcceptedResponse = Extract<RangeResponse, { type: "part" | "whole" }> & {
  readonly response: IncomingMessage;
  readonly host: string;
};

/**
 * Requests a range of a file, or the whole file. Throws RetryableError if another request may succeed, and BerthError
 * if no request can.
 */
export async function requestRange(request: {
  readonly source: DownloadSource;
  readonly name: string;
  readonly expected: ExpectedRange;
  readonly guard: RequestGuard;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly limits: RetryLimits;
}): Promise<AcceptedResponse> {
  const { source, expected, guard, signal, clock } = request;
  const { range, validator } = expected;
  const headers: Record<string, string> = {};
  if (range) {
    headers["range"] = `bytes=${range.start}-${range.end - 1}`;
    if (validator !== null) headers["if-range"] = validator;
  }
  let sourceResponse: SourceResponse;
  try {
    sourceResponse = await source.request(headers, guard.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (guard.hasStalled)
      throw new RetryableError(
        "failed",
        sourceUnreachableError(
          `${source.host} did not answer for ${request.limits.stallMs / 1000} s`,
        ),
      );
    throw error instanceof BerthError ? error : toNetworkError(source.host, error);
  }
  const { response, host } = sourceResponse;
  const result = classifyRangeResponse(
    response.statusCode ?? 0,
    response.headers,
    expected,
    clock.now(),
  );
  if (result.type === "part" || result.type === "whole") return { ...result, response, host };
  response.destroy();
  switch (result.type) {
    case "changed":
      throw new RetryableError(
        "changed",
        sourceUnreachableError(`${request.name} has changed at ${host}`),
        { sizeBytes: result.sizeBytes },
      );
    case "page":
      throw new RetryableError(
        "failed",
        sourceUnreachableError(
          `${host} sends a web page in place of ${request.name}`,
          undefined,
          "open the source in a browser: the network or the host may require a sign-in first",
        ),
      );
    case "bad-range":
      throw badRangeError(host, result.why);
    case "status":
      throw toStatusError(request.name, source, sourceResponse, result.status, result.retryAfterMs);
    default:
      return result satisfies never;
  }
}

function toStatusError(
  name: string,
  source: DownloadSource,
  { host, rememberedRedirect }: SourceResponse,
  status: number,
  retryAfterMs: number | undefined,
): Error {
  const isBusy = status === 429 || status === 503;
  const failure = sourceUnreachableError(`${host} answers with HTTP ${status}`);
  if (isBusy || status === 408 || status === 425 || status >= 500)
    return new RetryableError(isBusy ? "overloaded" : "failed", failure, { retryAfterMs });
  if (rememberedRedirect) {
    // Signed URLs expire, so the next request begins at the original URL, which redirects to a new one.
    source.forgetRedirect(rememberedRedirect);
    return new RetryableError("failed", failure);
  }
  const isElsewhere = host !== source.host;
  const final =
    status === 401 || status === 403
      ? sourceDeniedError(name, host, status, source.hasToken && !isElsewhere)
      : status === 404 || status === 410
        ? sourceNotFoundError(name, host, status)
        : failure;
  // If a redirect led to another server, any refusal is retried, because that server may not have the file yet.
  return isElsewhere || final === failure ? new RetryableError("failed", final) : final;
}
