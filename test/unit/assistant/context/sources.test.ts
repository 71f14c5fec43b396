import { describe, expect, it } from "vitest";
import { IgnoreFile } from "../../../../src/assistant/context/index/sources/ignore-file.ts";
import {
  containsSecret,
  isSecretName,
} from "../../../../src/assistant/context/index/sources/secret-detection.ts";

describe("IgnoreFile", () => {
  // The expected results are those of `git check-ignore`.
  it.each([
    ["*.log", "a.log", false, true],
    ["*.log", "deep/down/a.log", false, true],
    ["*.log", "a.log.txt", false, undefined],
    ["/top.txt", "top.txt", false, true],
    ["/top.txt", "sub/top.txt", false, undefined],
    ["doc/*.txt", "doc/a.txt", false, true],
    ["doc/*.txt", "doc/sub/a.txt", false, undefined],
    ["doc/**/*.txt", "doc/sub/a.txt", false, true],
    ["build/", "build", true, true],
    ["build/", "build", false, undefined],
    ["build/", "x/build", true, true],
    ["[!a]x", "bx", false, true],
    ["[!a]x", "ax", false, undefined],
    ["*.log\n!keep.log", "keep.log", false, false],
    ["# comment\n\\#file", "#file", false, true],
    ["\\!bang", "!bang", false, true],
    ["trailing   ", "trailing", false, true],
    ["[", "[", false, undefined],
    ["a?c", "abc", false, true],
  ])(
    "with the patterns %j, isIgnored() of %s (a folder: %s) returns %s",
    (text, path, isFolder, verdict) => {
      expect(new IgnoreFile("", text).isIgnored(path, isFolder)).toBe(verdict);
    },
  );

  it("applies to its own folder, even if the folder's name has special characters", () => {
    const file = new IgnoreFile("a[1]/b", "/x\n*.tmp");
    expect(file.isIgnored("a[1]/b/x", false)).toBe(true);
    expect(file.isIgnored("x", false)).toBeUndefined();
    expect(file.isIgnored("a[1]/b/c/d.tmp", false)).toBe(true);
    expect(file.isIgnored("a1/b/x", false)).toBeUndefined();
  });
});

describe("files with secrets", () => {
  it.each(
    (
      ".env .env.local prod.env server.PEM id_rsa id_ed25519.pub tls.key .netrc credentials.json secrets.yaml " +
      "passwords.txt server.key.old server.pem~ id_rsa.bak passwords-2.txt my-passwords.txt api_token.txt " +
      "env.production secrets.prod.yaml prod.tfvars terraform.tfstate.backup client_secret_12.json kubeconfig " +
      "aws_credentials recovery-codes.txt .ssh .gnupg keys.kdbx wallet.dat logins.json key4.db .git-credentials cookies.sqlite"
    ).split(" "),
  )("include %s", (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each(
    (
      "environment.md keyboard.txt monkey.md idea.txt secretary.md password-policy.md tokenizer.ts " +
      "how-to-keep-secrets.md tokens-explained.txt env.md keys.md"
    ).split(" "),
  )("do not include %s", (name) => {
    expect(isSecretName(name)).toBe(false);
  });

  it("are detected by the format of private keys", () => {
    for (const kind of ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
      expect(containsSecret(`x\n-----BEGIN ${kind}PRIVATE KEY-----\n`)).toBe(true);
    expect(containsSecret("-----BEGIN PGP PRIVATE KEY BLOCK-----")).toBe(true);
    expect(containsSecret("PuTTY-User-Key-File-3: ssh-ed25519")).toBe(true);
    expect(containsSecret("-----BEGIN PUBLIC KEY-----")).toBe(false);
    expect(containsSecret("how to make a PRIVATE KEY")).toBe(false);
    for (const before of ["", "a", "ab"]) {
      const text = `${before}-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz`;
      expect(containsSecret(Buffer.from(text).toString("base64"))).toBe(before === "");
    }
  });

  it("are detected by the token prefixes of services", () => {
    const letters = "abcdefghijABCDEFGHIJ0123456789abcdefghijKLMNOPQR";
    for (const token of [
      `ghp_${letters.slice(0, 36)}`,
      "AKIAIOSFODNN7EXAMPLE",
      `glpat-${letters.slice(0, 20)}`,
      `hf_${letters.slice(0, 34)}`,
      `sk_live_${letters.slice(0, 24)}`,
      `sk-ant-${letters.slice(0, 40)}`,
      `xoxb-1234567890-${letters.slice(0, 24)}`,
    ])
      expect([token, containsSecret(`the token is ${token}.`)]).toEqual([token, true]);
    expect(containsSecret("ghp_ is how they begin, AKIA is another, and sk-ant- a third")).toBe(
      false,
    );
  });
});
