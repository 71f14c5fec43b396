import type { BerthError } from "../../base/errors.ts";
import { gitDenied, gitUnreachable, repositoryNotFound } from "./git-errors.ts";

/** Returns true if the server has the repository, but not the requested ref or commit. */
export function isMissingRef(stderr: string): boolean {
  return /couldn't find remote ref|not our ref|unadvertised object|no matching remote head|does not allow request for/i.test(
    stderr,
  );
}

export function isDiskFull(stderr: string): boolean {
  return /No space left on device|Disk quota exceeded/i.test(stderr);
}

/**
 * Classifies an error by the error output of the machine's git, of ssh and of the server: the exit code cannot tell
 * errors apart, because git exits with 128 for every one. `displayUrl` is the URL for messages.
 */
export function classifyStderr(displayUrl: string, stderr: string): BerthError {
  const key = "check the deploy key in the Secret, and that it is registered with the server";
  if (
    /HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key is known/i.test(stderr)
  )
    return gitDenied(
      displayUrl,
      "the server shows another host key than the known one",
      "if the server's key was changed on purpose, put the new line of known_hosts into the Secret as knownHosts",
    );
  if (
    /incorrect passphrase|passphrase supplied|Load key .*(invalid format|error in libcrypto)/i.test(
      stderr,
    )
  )
    return gitDenied(
      displayUrl,
      "the deploy key cannot be read, or has a passphrase",
      "use a key without a passphrase, and paste all of it, with its first and its last line",
    );
  if (
    /Permission denied|Too many authentication failures|no supported authentication/i.test(stderr)
  )
    return gitDenied(displayUrl, "the server does not accept the deploy key", key);
  if (
    /Authentication failed|could not read (Username|Password)|returned error: 40[13]/i.test(stderr)
  )
    return gitDenied(
      displayUrl,
      "the server does not accept the token",
      "check that the token is valid and may read the repository",
    );
  if (
    /does not appear to be a git repository|repository .*not found|project .*(not found|could not be found)|returned error: 404|No such file or directory|does not exist/i.test(
      stderr,
    )
  )
    return repositoryNotFound(displayUrl);
  return gitUnreachable(displayUrl, describeReason(stderr));
}

/**
 * Describes a known reason in Berth's own words, because a server's output may contain anything, including paths of
 * this machine.
 */
function describeReason(stderr: string): string {
  const known: readonly (readonly [RegExp, string])[] = [
    [/Could not resolve (hostname|host)/i, "the server's name is not known"],
    [/Connection refused/i, "the connection was refused"],
    [/Network is unreachable|No route to host/i, "there is no route to the server"],
    [/timed? ?out|Timeout/i, "the server did not answer in time"],
    [/certificate|SSL|TLS/i, "this machine's git does not trust the server's certificate"],
    [
      /no matching (host key|key exchange|cipher)/i,
      "the server offers only encryption that ssh refuses here",
    ],
    [
      /early EOF|hung up|disconnect|reset by peer|Connection closed|RPC failed|invalid index-pack|bad record/i,
      "the connection broke",
    ],
    [
      /ssh: not found|cannot run ssh|ssh: No such file/i,
      "ssh is not installed on this machine (Debian: openssh-client)",
    ],
    [/out of memory|attempting to allocate/i, "a file of the repository is larger than git allows"],
    [/redirect/i, "the server redirects to another URL"],
  ];
  return (
    known.find(([pattern]) => pattern.test(stderr))?.[1] ?? "git could not read from the server"
  );
}
