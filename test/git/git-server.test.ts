import { execFile } from "node:child_process";
import { mkdtemp, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { GitHttpServer } from "../support/git-http-server.ts";
import { SshGitServer } from "../support/git-ssh-server.ts";

// Tests of the test servers themselves, with the machine's own git.
const run = promisify(execFile);

test("the HTTP server serves branches, tags and files", async () => {
  await using server = await GitHttpServer.start();
  const { repositories } = server;
  await repositories.create("hello");
  const first = await repositories.commit("hello", {
    "a.txt": "one",
    "bin/run": { content: "#!/bin/sh\n", executable: true },
  });
  const second = await repositories.commit("hello", { "a.txt": "two", link: { link: "a.txt" } });
  await repositories.tag("hello", "v1", { commit: first, message: "the first" });
  const { stdout } = await run("git", ["ls-remote", server.url("hello")]);
  expect(stdout).toContain(`${second}\tHEAD`);
  expect(stdout).toContain(`${first}\trefs/tags/v1^{}`);
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-clone-"));
  try {
    await run("git", ["clone", "-q", server.url("hello"), dir]);
    expect(await readFile(path.join(dir, "a.txt"), "utf8")).toBe("two");
    expect(await readlink(path.join(dir, "link"))).toBe("a.txt");
    expect((await stat(path.join(dir, "bin/run"))).mode & 0o111).not.toBe(0);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test("the ssh server accepts the client key that it has generated, and no other key", async () => {
  await using server = await SshGitServer.start();
  await server.repositories.create("hello");
  const commit = await server.repositories.commit("hello", { "a.txt": "one" });
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-ssh-"));
  const list = async (privateKey: string) => {
    await writeFile(path.join(dir, "key"), privateKey, { mode: 0o600 });
    await writeFile(path.join(dir, "known_hosts"), server.knownHosts);
    const ssh = `ssh -F none -i ${dir}/key -o IdentitiesOnly=yes -o UserKnownHostsFile=${dir}/known_hosts -o BatchMode=yes`;
    const env = { PATH: process.env["PATH"], GIT_SSH_COMMAND: ssh };
    return (await run("git", ["ls-remote", server.url("hello")], { env })).stdout;
  };
  try {
    expect(await list(server.privateKey)).toContain(commit);
    await expect(list(server.strangerKey)).rejects.toThrow("Permission denied");
  } finally {
    await rm(dir, { recursive: true });
  }
});
