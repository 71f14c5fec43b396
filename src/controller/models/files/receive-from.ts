import { BerthError } from "../../../base/errors.ts";
import type { Asked } from "./ask.ts";
import type { RetryLimits } from "./backoff.ts";
import { diskFailure, unreachable } from "./failures.ts";
import { type ReceiveTools, receive, TooManyBytes } from "./receive.ts";
import type { Claim } from "./segments.ts";
import { ofNetwork, Setback } from "./setback.ts";

/**
 * Brings the body of an answer to its place. Throws Setback where the connection broke, TooManyBytes, the BerthError
 * of the disk, or the signal's reason.
 */
export async function receiveFrom(
  { response, host }: Asked,
  claim: Claim,
  end: number,
  tools: ReceiveTools & { readonly limits: RetryLimits },
  signal: AbortSignal,
): Promise<void> {
  try {
    await receive(response, claim, end, tools);
  } catch (error) {
    signal.throwIfAborted();
    if (tools.guard.hasStalled)
      throw new Setback(unreachable(`${host} sent nothing for ${tools.limits.stallMs / 1000} s`));
    const failure = diskFailure(error);
    throw failure instanceof BerthError || error instanceof TooManyBytes
      ? failure
      : ofNetwork(host, error);
  }
}
