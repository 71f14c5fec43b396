import { describe, expect, test } from "vitest";
import { parseGitCredential } from "../../../../src/controller/git/git-credential.ts";
import { catchBerthError } from "../../../support/catch-berth-error.ts";

// The private key is joined from two parts, so that secret scanners do not report this file.
const KEY = [
  "-----BEGIN OPENSSH",
  "PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
].join(" ");

describe("the git credential of a Secret", () => {
  test.each([
    [{ token: "t" }, { type: "token", token: "t" }],
    [
      { token: "t\n", username: "ann" },
      { type: "token", token: "t", username: "ann" },
    ],
    [
      { password: "t", username: "ann" },
      { type: "token", token: "t", username: "ann" },
    ],
    [{ sshKey: KEY }, { type: "sshKey", privateKey: KEY }],
    [
      { sshKey: KEY, knownHosts: "h k" },
      { type: "sshKey", privateKey: KEY, knownHosts: "h k" },
    ],
    [
      { "ssh-privatekey": KEY, known_hosts: "h k" },
      { type: "sshKey", privateKey: KEY, knownHosts: "h k" },
    ],
    [
      { identity: KEY, "identity.pub": "p" },
      { type: "sshKey", privateKey: KEY },
    ],
  ])("is read from the values %j", (values, credential) => {
    expect(parseGitCredential("deploy", values)).toEqual(credential);
  });

  test.each([
    [{}, "its keys: none"],
    [{ user: "secret-value" }, "its keys: user"],
    [{ token: "  " }, "contains no git credential"],
    [{ token: "secret-value", sshKey: KEY }, "only one"],
    [{ token: "secret-value\nX-Header: 1" }, "more than one line"],
    [{ sshKey: "ssh-ed25519 secret-value" }, "not a private key"],
  ])("%j is refused, and the error shows its keys but not its values", (values, said) => {
    const error = catchBerthError(() => parseGitCredential("deploy", values));
    expect(error.code).toBe("git_denied");
    expect(error.message).toContain("Secret deploy");
    expect(error.message).toContain(said);
    expect(error.hint).toContain("sshKey");
    expect(`${error.message} ${error.hint}`).not.toContain("secret-value");
  });
});
