import { BerthError } from "../../../base/errors.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { companionEnded } from "../../../client/bus/connection-errors.ts";
import type { LoginCompletedEvent, RemoteClient } from "../../../client/bus/remote-client.ts";
import type { Cli } from "../../cli.ts";
import { exitCodes, formatError, timeoutError } from "../../cli-errors.ts";
import { callExitCodes } from "../show-result.ts";
import { sanitizeLine } from "../untrusted-text.ts";

/**
 * The longest wait for the result of a sign-in. It is longer than the five minutes after which the companion itself
 * reports a timeout.
 */
const SIGN_IN_MS_MAX = 6 * 60_000;

/**
 * Begins a sign-in, shows the URL, and waits for the result. Rejects with the errors of RemoteClient, with `timeout` if
 * the companion sends no result, and with `assistant_unreachable` if the companion exits meanwhile.
 */
export async function signIn(
  remote: RemoteClient,
  id: string,
  show: (url: string) => void,
  signal: AbortSignal,
): Promise<LoginCompletedEvent> {
  const over = new AbortController();
  using bound = createTimeLimit(signal, SIGN_IN_MS_MAX);
  let hasBegun = false;
  let settle: ((end: LoginCompletedEvent) => void) | undefined;
  const ended = new Promise<LoginCompletedEvent>((resolve) => {
    settle = resolve;
  });
  // A result that arrives before BeginLogin has returned belongs to an earlier sign-in, so it is ignored.
  const stop = await remote.onLoginCompleted((end) => {
    if (hasBegun && end.providerId === id) settle?.(end);
  });
  const unsubscribe = await remote.onDisconnected(() => over.abort());
  try {
    const url = await remote.beginLogin(id, signal);
    hasBegun = true;
    show(url);
    return await raceWithAbort(ended, bound.signal, over.signal);
  } catch (error) {
    if (over.signal.aborted) throw companionEnded();
    if (!signal.aborted && bound.signal.aborted)
      throw timeoutError(
        "the sign-in did not end in time",
        `\`berth remote login ${id}\` starts again`,
      );
    throw error;
  } finally {
    stop();
    unsubscribe();
  }
}

/** Prints the result of a sign-in and sets the exit code. */
export async function reportSignIn(
  cli: Cli,
  { providerId, isOk, detail }: LoginCompletedEvent,
): Promise<void> {
  const id = sanitizeLine(providerId);
  if (isOk) return cli.print(`signed in at ${id}`);
  const { message: words, hint, exitCode } = describeSignInFailure(id, detail);
  cli.exitCode = exitCode;
  const error = new BerthError("provider_denied", `not signed in at ${id}: ${words}`, { hint });
  cli.io.writeError(formatError(error, cli.errorColours, false));
}

interface SignInFailure {
  readonly message: string;
  readonly hint?: string;
  readonly exitCode: number;
}

function describeSignInFailure(id: string, detail: string): SignInFailure {
  const again = `\`berth remote login ${id}\` starts again`;
  const failed = exitCodes.failed;
  switch (detail) {
    case "denied_by_user":
      return { message: "access was denied in the browser", exitCode: callExitCodes.denied };
    case "cancelled":
      return { message: "the sign-in was cancelled", exitCode: callExitCodes.denied };
    case "superseded":
      return { message: "a newer sign-in at this provider was started", exitCode: failed };
    case "timeout":
      return {
        message: "you did not sign in within five minutes",
        hint: again,
        exitCode: exitCodes.timedOut,
      };
    case "state_mismatch":
      return {
        message: "the answer of the browser does not belong to this sign-in; nothing was stored",
        hint: `open only the link that this sign-in shows; ${again}`,
        exitCode: failed,
      };
    case "issuer_mismatch":
      return {
        message: "the answer is not from the provider; nothing was stored",
        hint: `check the address in the browser before you sign in; ${again}`,
        exitCode: failed,
      };
    case "exchange_failed":
      return { message: "the provider returned no credential", hint: again, exitCode: failed };
    case "storage_failed":
      return {
        message: "the credential could not be stored",
        hint: "`berth remote` shows whether keys are locked; check that the disk is not full",
        exitCode: failed,
      };
    default:
      return {
        message: `the sign-in failed with "${sanitizeLine(detail)}"`,
        hint: again,
        exitCode: failed,
      };
  }
}
