import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BerthProcess } from "../support/berth-process.ts";
import { GitHttpServer } from "../support/git-http-server.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { TrafficLoad, visit } from "../support/traffic.ts";

/** Starts a Berth with the ingress, a real engine and the test images. */
async function open(): Promise<BerthProcess> {
  const berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  return berth;
}

const dockerfile = (body: string, ...more: string[]) =>
  [`FROM ${NODE_WEB}`, `ENV BODY=${body}`, ...more, "EXPOSE 8080", ""].join("\n");

test("a folder is built and served; an update and a rollback fail no request", async () => {
  await using berth = await open();
  const at = { port: berth.ingressPort, host: "shop.localhost", path: "/" };
  await berth.write("../shop/Dockerfile", dockerfile("one"));
  const first = await berth.cli(["deploy", "shop"]);
  expect({ ...first, stderr: "" }).toMatchObject({ code: 0 });
  expect(first.stdout).toMatch(
    new RegExp(`^app/shop is running at http://shop\\.localhost:${berth.ingressPort}/?\\n$`),
  );
  expect(first.stderr).toMatch(/^#1 .*FROM berth\.test\/node-web:1/m);
  expect(first.stderr).toContain("#1 succeeded");
  expect((await visit(at)).body).toBe("one");

  await using load = new TrafficLoad(at, { visitors: 4, restMs: 20 });
  await berth.write("../shop/Dockerfile", dockerfile("two"));
  expect((await berth.cli(["deploy", "shop", "-q"])).code).toBe(0);
  expect((await visit(at)).body).toBe("two");
  await berth.until("it has been Ready for long enough", async () => {
    const { revisions } = await berth.client.apps.revisions("shop");
    return revisions[0]?.state === "stable";
  });

  await berth.write("../shop/Dockerfile", dockerfile("three", "COPY nothing-of-this-name /"));
  const failed = await berth.cli(["deploy", "shop"]);
  expect(failed.code).toBe(1);
  expect(failed.stderr).toContain("COPY nothing-of-this-name");
  expect(failed.stderr).toContain("`berth builds shop 3 --log`");
  expect((await berth.cli(["builds", "shop", "3", "--log"])).stdout).toContain(
    "nothing-of-this-name",
  );
  expect((await visit(at)).body).toBe("two");

  // The version that serves can be the target of a rollback, although the desired version has failed.
  expect(await berth.cli(["rollback", "shop", "--wait"])).toMatchObject({ code: 0, stderr: "" });
  expect((await visit(at)).body).toBe("two");
  expect((await berth.cli(["rollback", "shop", "--to", "1", "--wait"])).code).toBe(0);
  expect((await visit(at)).body).toBe("one");
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(load.requests).toBeGreaterThan(50);

  const { builds } = await berth.client.builds.list("shop");
  expect(builds.map(({ state }) => state)).toEqual(["failed", "succeeded", "succeeded"]);
});

test("a repository is built and served, updated by its hook, and pinned by a rollback", async () => {
  await using berth = await open();
  await using server = await GitHttpServer.start();
  const { repositories } = server;
  await repositories.create("team/site");
  const commit = (body: string) =>
    repositories.commit("team/site", { "app/Dockerfile": dockerfile(body) });
  const first = await commit("one");
  const url = server.url("team/site");
  const at = { port: berth.ingressPort, host: "site.localhost", path: "/" };

  const repository = ["--git", url, "--ref", "main", "--path", "app"];
  const made = await berth.cli(["deploy", "site", ...repository, "--port", "8080"]);
  expect({ ...made, stderr: "" }).toMatchObject({ code: 0 });
  expect((await visit(at)).body).toBe("one");

  await berth.client.secrets.create({ name: "hook", data: { value: "open sesame" } });
  const git = { url, ref: "main", path: "app", hookSecret: "hook" };
  await berth.client.apps.patch("site", { source: { git } }, { wait: true });
  const second = await commit("two");
  const body = JSON.stringify({ ref: "refs/heads/main", repository: { clone_url: url } });
  const push = (secret: string) =>
    fetch(`${berth.ready.api}/api/hooks/git/site`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-github-event": "push",
        "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
      },
      body,
    });
  expect((await push("guess")).status).toBe(401);
  const told = await push("open sesame");
  expect([told.status, await told.json()]).toEqual([202, { apps: ["site"] }]);
  await berth.until("the push is served", async () => (await visit(at)).body === "two");
  await berth.waitForAppReady("site");

  const { revisions } = await berth.client.apps.revisions("site");
  expect(revisions.map(({ source_revision }) => source_revision)).toEqual(
    expect.arrayContaining([first, second]),
  );
  const back = revisions.find(({ source_revision }) => source_revision === first);
  await berth.client.apps.rollback("site", back?.number, { wait: true });
  expect((await visit(at)).body).toBe("one");
  // A push does not update an app that is pinned to a commit.
  expect(await (await push("open sesame")).json()).toEqual({ apps: [] });
  expect((await berth.cli(["deploy", "site"])).code).toBe(0);
  expect((await visit(at)).body).toBe("two");
  expect(berth.output).not.toContain("open sesame");
});

test("an upload form is deployed as an app even if its archive comes before its config", async () => {
  await using berth = await open();
  await berth.write("../src/Dockerfile", dockerfile("posted"));
  const tgz = execFileSync("tar", ["-czf", "-", "-C", join(berth.root, "src"), "."]);
  const token = await readFile(join(berth.dataDir, "run/token"), "utf8");
  const form = new FormData();
  form.set("source", new Blob([tgz]), "source.tar.gz");
  form.set("config", JSON.stringify({ name: "posted", port: 8080, domain: "posted.example.org" }));
  const response = await fetch(`${berth.ready.api}/api/deploy?wait=true`, {
    method: "POST",
    headers: { authorization: `Bearer ${token.trim()}` },
    body: form,
  });
  expect([response.status, await response.json()]).toMatchObject([
    201,
    { name: "posted", ready: true, domain: "posted.example.org" },
  ]);
  const at = { port: berth.ingressPort, host: "posted.example.org", path: "/" };
  expect((await visit(at)).body).toBe("posted");
});
