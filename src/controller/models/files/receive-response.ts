import { BerthError } from "../../../base/errors.ts";
import type { RetryLimits } from "./download-backoff.ts";
import { sourceUnreachableError, toDiskError } from "./download-errors.ts";
import type { AcceptedResponse } from "./range-request.ts";
import { type ReceiveDependencies, receiveBody, TooManyBytesError } from "./receive-body.ts";
import { RetryableError, toNetworkError } from "./retryable-error.ts";
import type { Claim } from "./segments.ts";

/**
 * Brings the body of an answer to its place. Throws Setback where the connection broke, TooManyBytes, the BerthError
 * of the disk, or the signal's reason.
 */
export async function receiveResponse(
  { response, host }: AcceptedResponse,
  claim: Claim,
  end: number,
  tools: ReceiveDependencies & { readonly limits: RetryLimits },
  signal: AbortSignal,
): Promise<void> {
  try {
    await receiveBody(response, claim, end, tools);
  } catch (error) {
    signal.throwIfAborted();
    if (tools.guard.hasStalled)
      throw new RetryableError(
        sourceUnreachableError(`${host} sent nothing for ${tools.limits.stallMs / 1000} s`),
      );
    const failure = toDiskError(error);
    throw failure instanceof BerthError || error instanceof TooManyBytesError
      ? failure
      : toNetworkError(host, error);
  }
}
