import { untilAborted } from "../../../base/aborting.ts";
import { BerthError } from "../../../base/errors.ts";
import { timeLimit } from "../../../base/time-limit.ts";
import { companionEnded } from "../../../client/bus/no-bus.ts";
import type { LoginEnd, RemoteClient } from "../../../client/bus/remote-client.ts";
import type { Cli } from "../../cli.ts";
import { exitCodes, explain, timedOut } from "../../failure.ts";
import { callExitCodes } from "../show-result.ts";
import { shownLine } from "../untrusted-text.ts";

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
): Promise<LoginEnd> {
  const over = new AbortController();
  using bound = timeLimit(signal, SIGN_IN_MS_MAX);
  let hasBegun = false;
  let settle: ((end: LoginEnd) => void) | undefined;
  const ended = new Promise<LoginEnd>((resolve) => {
    settle = resolve;
  });
  // Before it has begun, an end is that of the sign-in before: nobody has had the URL of this one yet.
  const stop = await remote.onLoginCompleted((end) => {
    if (hasBegun && end.providerId === id) settle?.(end);
  });
  const stopGone = await remote.onGone(() => over.abort());
  try {
    const url = await remote.beginLogin(id, signal);
    hasBegun = true;
    show(url);
    return await untilAborted(ended, bound.signal, over.signal);
  } catch (error) {
    if (over.signal.aborted) throw companionEnded();
    if (!signal.aborted && bound.signal.aborted)
      throw timedOut("the sign-in did not end in time", `\`berth remote login ${id}\` begins anew`);
    throw error;
  } finally {
    stop();
    stopGone();
  }
}

/** Says how a sign-in ended, and sets what the command line ends with. */
export async function tellSignIn(cli: Cli, { providerId, isOk, detail }: LoginEnd): Promise<void> {
  const id = shownLine(providerId);
  if (isOk) return cli.print(`signed in at ${id}`);
  const { words, hint, exitCode } = failureOf(id, detail);
  cli.exitCode = exitCode;
  const error = new BerthError("provider_denied", `not signed in at ${id}: ${words}`, { hint });
  cli.io.writeError(explain(error, cli.errorColours, false));
}

interface Failure {
  readonly words: string;
  readonly hint?: string;
  readonly exitCode: number;
}

function failureOf(id: string, detail: string): Failure {
  const again = `\`berth remote login ${id}\` begins anew`;
  const failed = exitCodes.failed;
  switch (detail) {
    case "denied_by_user":
      return { words: "it was not allowed in the browser", exitCode: callExitCodes.denied };
    case "cancelled":
      return { words: "somebody has cancelled it", exitCode: callExitCodes.denied };
    case "superseded":
      return { words: "another sign-in there was begun after it", exitCode: failed };
    case "timeout":
      return {
        words: "nobody signed in within five minutes",
        hint: again,
        exitCode: exitCodes.timedOut,
      };
    case "state_mismatch":
      return {
        words: "what the browser brought back does not belong to this sign-in; nothing was kept",
        hint: `use the link of this sign-in only; ${again}`,
        exitCode: failed,
      };
    case "issuer_mismatch":
      return {
        words: "somebody else than the provider has answered; nothing was kept",
        hint: `look at the address in the browser before you sign in; ${again}`,
        exitCode: failed,
      };
    case "exchange_failed":
      return { words: "the provider gave no credential for it", hint: again, exitCode: failed };
    case "storage_failed":
      return {
        words: "the credential could not be kept",
        hint: "`berth remote` tells whether keys are locked; check that the disk is not full",
        exitCode: failed,
      };
    default:
      return { words: `it ended with "${shownLine(detail)}"`, hint: again, exitCode: failed };
  }
}
