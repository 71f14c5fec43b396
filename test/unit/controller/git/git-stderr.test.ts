import { expect, test } from "vitest";
import {
  classifyStderr,
  isDiskFull,
  isMissingRef,
} from "../../../../src/controller/git/git-stderr.ts";

const SHOWN = "git@example.org:app.git";

// Real output of git, ssh and large git services; test/git/ checks it against the real programs where they are
// installed.
test.each([
  ["ERROR: Repository not found.\nfatal: Could not read from remote repository.", "git_not_found"],
  [
    "remote: The project you were looking for could not be found or you don't have permission",
    "git_not_found",
  ],
  ["fatal: '/srv/x.git' does not appear to be a git repository", "git_not_found"],
  ["fatal: repository 'https://example.org/x.git/' not found", "git_not_found"],
  ["git@example.org: Permission denied (publickey).", "git_denied"],
  ["Host key verification failed.", "git_denied"],
  ['Load key "key": error in libcrypto', "git_denied"],
  ["fatal: Authentication failed for 'https://example.org/x.git/'", "git_denied"],
  [
    "fatal: could not read Username for 'https://example.org': terminal prompts disabled",
    "git_denied",
  ],
  ["ssh: Could not resolve hostname example.org: Name or service not known", "git_unreachable"],
  ["ssh: connect to host example.org port 22: Connection refused", "git_unreachable"],
  ["ssh: connect to host example.org port 22: Connection timed out", "git_unreachable"],
  ["fatal: early EOF\nfatal: fetch-pack: invalid index-pack output", "git_unreachable"],
  ["something that nobody has seen before in /root/secret", "git_unreachable"],
])("git's output is mapped to an error code, and shown without paths: %s", (stderr, code) => {
  const error = classifyStderr(SHOWN, stderr);
  expect(error.code).toBe(code);
  expect(error.message).toContain(SHOWN);
  expect(error.message).not.toMatch(/\/srv|\/root/);
  expect(error.hint).toBeTruthy();
});

test("failures of this machine are distinguished from failures of the server and of the repository", () => {
  expect(isMissingRef("fatal: couldn't find remote ref refs/heads/x")).toBe(true);
  expect(isMissingRef("fatal: remote error: upload-pack: not our ref 1111")).toBe(true);
  expect(isMissingRef("error: Server does not allow request for unadvertised object 11")).toBe(
    true,
  );
  expect(isMissingRef("Permission denied (publickey)")).toBe(false);
  expect(isDiskFull("fatal: write error: No space left on device")).toBe(true);
  expect(isDiskFull("fatal: early EOF")).toBe(false);
});
