import { describe, expect, test } from "vitest";
import {
  isSameRepository,
  parseGitUrl,
  redactUrl,
} from "../../../../src/controller/git/git-url.ts";
import { catchBerthError } from "../../../support/catch-berth-error.ts";

describe("parseGitUrl", () => {
  test.each([
    ["https://example.org/team/app.git", "http", "https://example.org/team/app.git"],
    ["https://EXAMPLE.org:8443/app/", "http", "https://example.org:8443/app"],
    ["http://127.0.0.1:3000/app", "http", "http://127.0.0.1:3000/app"],
    ["ssh://git@example.org:2222/team/app.git", "ssh", "ssh://git@example.org:2222/team/app.git"],
    ["ssh://git@[::1]:2222/app", "ssh", "ssh://git@[::1]:2222/app"],
    ["git@example.org:team/app.git", "ssh", "git@example.org:team/app.git"],
    ["git@[::1]:app", "ssh", "git@[::1]:app"],
  ])("parses %s", (text, transport, address) => {
    expect(parseGitUrl(text)).toEqual({ transport, address, displayUrl: address });
  });

  test("removes user and password from the address", () => {
    const url = parseGitUrl("https://ann:p%40ss@example.org/app.git?x=1#y");
    expect(url.login).toEqual({ username: "ann", password: "p@ss" });
    expect(JSON.stringify([url.address, url.displayUrl])).not.toMatch(/ann|p%40ss|p@ss/);
    expect(parseGitUrl("ssh://git:secret@example.org/app").address).toBe(
      "ssh://git@example.org/app",
    );
  });

  test.each([
    "",
    "/srv/git/app.git",
    "file:///srv/git/app.git",
    "git://example.org/app.git",
    "ext::sh -c touch% /tmp/x",
    "--upload-pack=touch",
    "-oProxyCommand=touch@host:path",
    "git@-oProxyCommand=touch:path",
    "git@example.org:-path",
    "ssh://-oProxyCommand=touch/path",
    "ssh://-oProxyCommand=touch@host/path",
    "ssh://git@host",
    "https://example.org/a b",
    "https://example.org/a\nb",
    "example.org:path",
    "https://",
  ])("refuses %j", (text) => {
    const error = catchBerthError(() => parseGitUrl(text));
    expect(error.code).toBe("git_not_found");
    expect(error.hint).toContain("ssh://");
  });

  test("does not show the password in the message of a refusal", () => {
    expect(
      catchBerthError(() => parseGitUrl("ftp://ann:secret@example.org/x")).message,
    ).not.toContain("secret");
    expect(redactUrl("https://ann:secret@example.org/x?token=secret")).toBe(
      "https://example.org/x",
    );
  });
});

describe("isSameRepository", () => {
  const url = "https://example.org/team/app";
  test.each([
    "https://example.org/team/app.git",
    "https://example.org/team/app/",
    "https://example.org/team/app.git/",
    "http://example.org/team/app",
    "https://Example.ORG:443/team/app",
    "https://ann:secret@example.org/team/app.git",
    "ssh://git@example.org/team/app.git",
    "ssh://git@example.org:22/team/app",
    "git://example.org/team/app.git",
    "git@example.org:team/app.git",
    "git@EXAMPLE.org:/team/app",
    "https://example.org//team/app",
  ])("finds that %s names the same repository", (other) => {
    expect(isSameRepository(url, other)).toBe(true);
    expect(isSameRepository(other, url)).toBe(true);
  });

  test.each([
    "https://example.org/team/app2",
    "https://example.org/team/App",
    "https://example.org:8443/team/app",
    "https://other.example.org/team/app",
    "git@example.org:other/app.git",
    "file:///team/app",
    "not a url",
    "",
  ])("finds that %s names a different repository", (other) => {
    expect(isSameRepository(url, other)).toBe(false);
    expect(isSameRepository(other, other === "" ? "x" : url)).toBe(false);
  });

  test("two texts that are not URLs are not the same repository", () => {
    expect(isSameRepository("not a url", "not a url")).toBe(false);
  });
});
