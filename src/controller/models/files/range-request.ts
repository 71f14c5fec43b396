import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import {
  sourceDeniedError,
  sourceNotFoundError,
  sourceUnreachableError,
} from "./download-errors.ts";
import type { DownloadSource, SourceResponse } from "./download-source.ts";
import { classifyRangeResponse, type ExpectedRange, type RangeResponse } from "./range-response.ts";
import type { RequestGuard } from "./request-guard.ts";
import {
  BadRangeError,
  RetryableError,
  SourceChangedError,
  toNetworkError,
} from "./retryable-error.ts";

/** An answer that fits what was asked for, its body still to be read. */
export type AcceptedResponse = Extract<RangeResponse, { type: "part" | "whole" }> & {
  readonly response: IncomingMessage;
  readonly host: string;
};

/**
 * One request for bytes. Throws Setback where another try may do, SourceChanged, and a BerthError where none will.
 */
export async function requestRange(request: {
  readonly source: DownloadSource;
  readonly name: string;
  readonly expected: ExpectedRange;
  readonly guard: RequestGuard;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly stallMs: number;
}): Promise<AcceptedResponse> {
  const { source, expected, guard, signal, clock } = request;
  const { range, validator } = expected;
  const headers: Record<string, string> = {};
  if (range) {
    headers["range"] = `bytes=${range.start}-${range.end - 1}`;
    if (validator !== null) headers["if-range"] = validator;
  }
  let answer: SourceResponse;
  try {
    answer = await source.request(headers, guard.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (guard.hasStalled)
      throw new RetryableError(
        sourceUnreachableError(`${source.host} did not answer for ${request.stallMs / 1000} s`),
      );
    throw error instanceof BerthError ? error : toNetworkError(source.host, error);
  }
  const { response, host } = answer;
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
      throw new SourceChangedError(result.sizeBytes);
    case "page":
      throw new RetryableError(
        sourceUnreachableError(
          `${host} sends a web page in place of ${request.name}`,
          undefined,
          "look at it with a browser: the network, or the host, may want a sign-in first",
        ),
      );
    case "lying":
      throw new BadRangeError(host, result.why);
    case "status":
      throw toStatusError(request.name, source, answer, result.status, result.retryAfterMs);
    default:
      return result satisfies never;
  }
}

function toStatusError(
  name: string,
  source: DownloadSource,
  { host, rememberedRedirect: remembered }: SourceResponse,
  status: number,
  retryAfterMs: number | undefined,
): Error {
  const isBusy = status === 429 || status === 503;
  const failure = sourceUnreachableError(`${host} answers with HTTP ${status}`);
  if (isBusy || status === 408 || status === 425 || status >= 500)
    return new RetryableError(failure, isBusy ? { retryAfterMs } : undefined);
  if (remembered) {
    // Signed URLs expire; the original knows a new one.
    source.forgetRedirect(remembered);
    return new RetryableError(failure);
  }
  const isElsewhere = host !== source.host;
  const final =
    status === 401 || status === 403
      ? sourceDeniedError(name, host, status, source.hasToken && !isElsewhere)
      : status === 404 || status === 410
        ? sourceNotFoundError(name, host, status)
        : failure;
  // What a redirect led to a moment ago may not know of it yet.
  return isElsewhere || final === failure ? new RetryableError(final) : final;
}
