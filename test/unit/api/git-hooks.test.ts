import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";

const SECRET = "open sesame";
const url = "https://git.example.org/team/shop.git";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
  putSecret("hook", { value: SECRET, other: "x" });
  putApp(api.store, "shop", {
    port: 80,
    source: { git: { url, ref: "main", hookSecret: "hook" } },
  });
  api.builds.pushedApps = ["shop"];
});
afterEach(() => api[Symbol.asyncDispose]());

const putSecret = (name: string, data: Record<string, string>) =>
  api.store.apply({
    kind: "Secret",
    name,
    manager: "api",
    actor: { name: "user:admin" },
    mode: "replace",
    spec: { data },
  });

const sign = (body: string, secret = SECRET) =>
  createHmac("sha256", secret).update(body).digest("hex");

const hook = (body: string, headers: Record<string, string>, name = "shop") =>
  api.server.inject({
    method: "POST",
    url: `/api/hooks/git/${name}`,
    headers: { "content-type": "application/json", ...headers },
    payload: body,
  });

const signed = (body: string, event: string) => ({
  "x-github-event": event,
  "x-hub-signature-256": `sha256=${sign(body)}`,
});

const push = JSON.stringify({
  ref: "refs/heads/main",
  after: "c0ffee",
  repository: {
    clone_url: "https://git.example.org/team/shop.git",
    ssh_url: "git@git.example.org:team/shop.git",
    html_url: "https://git.example.org/team/shop",
  },
});
const gitlab = JSON.stringify({
  object_kind: "push",
  ref: "refs/heads/main",
  project: { git_http_url: url, git_ssh_url: "git@git.example.org:team/shop.git" },
});

describe("a hook, the request in which a git server reports a push, is accepted", () => {
  it.each<[string, string, Record<string, string>]>([
    [
      "of GitHub",
      push,
      { "x-github-event": "push", "x-hub-signature-256": `sha256=${sign(push)}` },
    ],
    ["of Gitea", push, { "x-gitea-event": "push", "x-gitea-signature": sign(push) }],
    ["of Forgejo", push, { "x-forgejo-event": "push", "x-forgejo-signature": sign(push) }],
    ["of GitLab", gitlab, { "x-gitlab-event": "Push Hook", "x-gitlab-token": SECRET }],
  ])("in the format %s", async (_what, body, headers) => {
    const response = await hook(body, headers);
    expect(response.statusCode).toBe(202);
    expect(response.json()).toEqual({ apps: ["shop"] });
    expect(api.builds.pushes).toHaveLength(1);
    expect(api.builds.pushes[0]?.ref).toBe("refs/heads/main");
    expect(api.builds.pushes[0]?.urls).toEqual(
      expect.arrayContaining([url, "git@git.example.org:team/shop.git"]),
    );
    // A repeated delivery of the same push only makes Berth check the source again.
    expect((await hook(body, headers)).statusCode).toBe(202);
  });

  it("if its body is form-encoded", async () => {
    const body = new URLSearchParams({ payload: push }).toString();
    const response = await hook(body, {
      "content-type": "application/x-www-form-urlencoded",
      "x-github-event": "push",
      "x-hub-signature-256": `sha256=${sign(body)}`,
    });
    expect(response.json()).toEqual({ apps: ["shop"] });
  });

  it("if the Secret that `hookSecret` names has a single key, whatever the name of the key", async () => {
    putSecret("single", { token: "one" });
    const git = { url, hookSecret: "single" };
    putApp(api.store, "one", { port: 80, source: { git } });
    const headers = { "x-gitea-signature": sign(push, "one") };
    expect((await hook(push, headers, "one")).statusCode).toBe(202);
  });
});

describe("requests to the hook of an app that do not make Berth check a source", () => {
  it("a ping returns 200 and an empty list of apps", async () => {
    const response = await hook('{"zen":"x"}', signed('{"zen":"x"}', "ping"));
    expect(response.statusCode).toBe(200);
    expect(response.json()).toEqual({ apps: [] });
  });

  it("the event `issues`, and a push that deletes a branch, return 202 and an empty list of apps", async () => {
    const gone = JSON.stringify({ ref: "refs/heads/main", deleted: true });
    for (const [body, event] of [
      ["{}", "issues"],
      [gone, "push"],
    ] as const) {
      const response = await hook(body, signed(body, event));
      expect([response.statusCode, response.json()]).toEqual([202, { apps: [] }]);
    }
    expect(api.builds.pushes).toEqual([]);
  });

  it("a push to a branch that no app follows returns 202 and an empty list of apps", async () => {
    api.builds.pushedApps = [];
    const response = await hook(push, signed(push, "push"));
    expect([response.statusCode, response.json()]).toEqual([202, { apps: [] }]);
  });

  it("a signed body that is not a push returns 400", async () => {
    for (const body of ["", "{", "[]", "7"]) {
      const response = await hook(body, signed(body, "push"));
      expect([body, response.statusCode]).toEqual([body, 400]);
      await api.clock.advance(60_000);
    }
  });
});

describe("a caller who does not know the secret", () => {
  it.each<[string, Record<string, string>]>([
    ["no signature", {}],
    ["another secret", { "x-hub-signature-256": `sha256=${sign(push, "guess")}` }],
    ["the signature of another body", { "x-gitea-signature": sign(`${push} `) }],
    ["half of a signature", { "x-gitea-signature": sign(push).slice(0, 32) }],
    ["an empty signature", { "x-gitea-signature": "" }],
    ["the prefix alone", { "x-hub-signature-256": "sha256=" }],
    ["SHA-1", { "x-hub-signature": "sha1=x" }],
    ["another token", { "x-gitlab-token": "guess" }],
    ["the signature as a token", { "x-gitlab-token": sign(push) }],
    ["a bearer token", { authorization: `Bearer ${SECRET}` }],
  ])("gets 401 for a request with %s", async (_what, headers) => {
    const response = await hook(push, headers);
    expect(response.statusCode).toBe(401);
    expect(response.body).not.toContain(SECRET);
    expect(api.builds.pushes).toEqual([]);
  });

  it("gets the same response for a missing app, an app without a source, a source without a hook, and a missing Secret", async () => {
    putApp(api.store, "image");
    putApp(api.store, "plain", { port: 80, source: { git: { url } } });
    putApp(api.store, "lost", { port: 80, source: { git: { url, hookSecret: "gone" } } });
    const answers: string[] = [];
    for (const name of ["nope", "image", "plain", "lost"]) {
      const response = await hook(push, { "x-gitea-signature": sign(push) }, name);
      answers.push(`${response.statusCode} ${readErrorBody(response)}`);
    }
    expect(new Set(answers)).toEqual(new Set(["404 there is no hook of this name"]));
    expect(answers).toHaveLength(4);
    expect(JSON.stringify(api.entries)).not.toContain(SECRET);
  });

  it("has five attempts a minute", async () => {
    const guess = () => hook(push, { "x-gitea-signature": sign(push, "guess") });
    for (let index = 0; index < 5; index += 1) expect((await guess()).statusCode).toBe(401);
    const refused = await hook(push, { "x-gitea-signature": sign(push) });
    expect(refused.statusCode).toBe(429);
    expect(refused.headers["retry-after"]).toBe("60");
    expect(readErrorBody(refused)).toContain("wrong signature");
    await api.clock.advance(60_000);
    expect((await hook(push, { "x-gitea-signature": sign(push) })).statusCode).toBe(202);
  });

  it("cannot send more than 5 MiB", async () => {
    const body = JSON.stringify({ x: "y".repeat(5 * 1024 * 1024) });
    const response = await hook(body, { "x-gitea-signature": sign(body) });
    expect(response.statusCode).toBe(413);
    expect(readErrorBody(response)).toContain("at most 5 MiB");
  });
});
