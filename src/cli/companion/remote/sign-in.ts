import { BerthError } from "../../../base/errors.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { companionEnded } from "../../../client/bus/connection-errors.ts";
import type { LoginCompletedEvent, RemoteClient } from "../../../client/bus/remote-client.ts";
import type { Cli } from "../../cli.ts";
import { exitCodes, formatError, timeoutError } from "../../cli-errors.ts";
import { callExitCodes } from "../show-result.ts";
import { sanitizeLine } from "../untrusted-text.ts";

/** The companion gives a person five minutes, and then says so itself. */
const SIGN_IN_MS_MAX = 6 * 60_000;

/**
 * Begins a sign-in, shows the person the URL, and waits for how it ends. Rejects as RemoteClient does, with `timeout`
 * where the companion never says, and with `assistant_unreachable` where it goes away meanwhile.
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
  // Before it has begun, an end is that of the sign-in before: nobody has had the URL of this one yet.
  const stop = await remote.onLoginCompleted((end) => {
    if (hasBegun && end.providerId === id) settle?.(end);
  });
  const stopGone = await remote.onDisconnected(() => over.abort());
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
        `\`berth remote login ${id}\` begins anew`,
      );
    throw error;
  } finally {
    stop();
    stopGone();
  }
}

/** Says how a sign-in ended, and sets what the command line ends with. */
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
  const again = `\`berth remote login ${id}\` begins anew`;
  const failed = exitCodes.failed;
  switch (detail) {
    case "denied_by_user":
      return { message: "it was not allowed in the browser", exitCode: callExitCodes.denied };
    case "cancelled":
      return { message: "somebody has cancelled it", exitCode: callExitCodes.denied };
    case "superseded":
      return { message: "another sign-in there was begun after it", exitCode: failed };
    case "timeout":
      return {
        message: "nobody signed in within five minutes",
        hint: again,
        exitCode: exitCodes.timedOut,
      };
    case "state_mismatch":
      return {
        message: "what the browser brought back does not belong to this sign-in; nothing was kept",
        hint: `use the link of this sign-in only; ${again}`,
        exitCode: failed,
      };
    case "issuer_mismatch":
      return {
        message: "somebody else than the provider has answered; nothing was kept",
        hint: `look at the address in the browser before you sign in; ${again}`,
        exitCode: failed,
      };
    case "exchange_failed":
      return { message: "the provider gave no credential for it", hint: again, exitCode: failed };
    case "storage_failed":
      return {
        message: "the credential could not be kept",
        hint: "`berth remote` tells whether keys are locked; check that the disk is not full",
        exitCode: failed,
      };
    default:
      return { message: `it ended with "${sanitizeLine(detail)}"`, hint: again, exitCode: failed };
  }
}
