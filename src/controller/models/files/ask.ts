import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import { denied, notThere, unreachable } from "./failures.ts";
import type { RequestGuard } from "./request-guard.ts";
import { Lie, ofNetwork, Setback, SourceChanged } from "./setback.ts";
import type { Source, SourceAnswer } from "./source.ts";
import { type Expectation, type Verdict, verdictOn } from "./verdict.ts";

/** An answer that fits what was asked for, its body still to be read. */
export type Asked = Extract<Verdict, { type: "part" | "whole" }> & {
  readonly response: IncomingMessage;
  readonly host: string;
};

/**
 * One request for bytes. Throws Setback where another try may do, SourceChanged, and a BerthError where none will.
 */
export async function ask(request: {
  readonly source: Source;
  readonly name: string;
  readonly expected: Expectation;
  readonly guard: RequestGuard;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly stallMs: number;
}): Promise<Asked> {
  const { source, expected, guard, signal, clock } = request;
  const { range, validator } = expected;
  const headers: Record<string, string> = {};
  if (range) {
    headers["range"] = `bytes=${range.start}-${range.end - 1}`;
    if (validator !== null) headers["if-range"] = validator;
  }
  let answer: SourceAnswer;
  try {
    answer = await source.request(headers, guard.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (guard.hasStalled)
      throw new Setback(
        unreachable(`${source.host} did not answer for ${request.stallMs / 1000} s`),
      );
    throw error instanceof BerthError ? error : ofNetwork(source.host, error);
  }
  const { response, host } = answer;
  const verdict = verdictOn(response.statusCode ?? 0, response.headers, expected, clock.now());
  if (verdict.type === "part" || verdict.type === "whole") return { ...verdict, response, host };
  response.destroy();
  switch (verdict.type) {
    case "changed":
      throw new SourceChanged(verdict.sizeBytes);
    case "page":
      throw new Setback(
        unreachable(
          `${host} sends a web page in place of ${request.name}`,
          undefined,
          "look at it with a browser: the network, or the host, may want a sign-in first",
        ),
      );
    case "lying":
      throw new Lie(host, verdict.why);
    case "status":
      throw ofStatus(request.name, source, answer, verdict.status, verdict.retryAfterMs);
    default:
      return verdict satisfies never;
  }
}

function ofStatus(
  name: string,
  source: Source,
  { host, remembered }: SourceAnswer,
  status: number,
  retryAfterMs: number | undefined,
): Error {
  const isBusy = status === 429 || status === 503;
  const failure = unreachable(`${host} answers with HTTP ${status}`);
  if (isBusy || status === 408 || status === 425 || status >= 500)
    return new Setback(failure, isBusy ? { retryAfterMs } : undefined);
  if (remembered) {
    // Signed URLs expire; the original knows a new one.
    source.forget(remembered);
    return new Setback(failure);
  }
  const isElsewhere = host !== source.host;
  const final =
    status === 401 || status === 403
      ? denied(name, host, status, source.hasToken && !isElsewhere)
      : status === 404 || status === 410
        ? notThere(name, host, status)
        : failure;
  // What a redirect led to a moment ago may not know of it yet.
  return isElsewhere || final === failure ? new Setback(final) : final;
}
