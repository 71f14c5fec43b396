import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { openTestApi, putApp, type TestApi } from "../support/api-harness.ts";
import { installPythonTools } from "../support/python-tools.ts";

const run = promisify(execFile);
const seed = Number(process.env["BERTH_SEED"] ?? 1);
let api: TestApi;
let url: string;
let programs: string;
let dir: string;
beforeAll(async () => {
  programs = await installPythonTools();
  dir = await mkdtemp(join(tmpdir(), "berth-openapi-"));
  api = await openTestApi({ clock: systemClock });
  endStreams(api);
  url = await api.listen();
  putApp(api.store, "web");
  const { body } = await api.server.inject({ url: "/api/openapi.json" });
  await writeFile(join(dir, "openapi.json"), body);
  await writeFile(join(dir, "without-waits.json"), removeWaits(body));
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** The time after which the server ends an event stream, in milliseconds. */
const STREAM_MS = 300;

/**
 * Ends each stream of events soon, as a server that restarts does, because schemathesis reads responses to their end.
 */
function endStreams({ server }: TestApi): void {
  server.server.prependListener("request", (_request, response: ServerResponse) => {
    const timer = setTimeout(() => {
      if (String(response.getHeader("content-type")).startsWith("text/event-stream"))
        response.end();
    }, STREAM_MS);
    response.once("close", () => clearTimeout(timer));
  });
}

/**
 * Removes the parameter `wait`. No reconciler runs in this test, so a request with `wait` would last until its time
 * limit.
 */
function removeWaits(document: string): string {
  return JSON.stringify(
    JSON.parse(document, (key, value: unknown) =>
      key === "parameters" && Array.isArray(value)
        ? value.filter((parameter: { name?: string }) => parameter.name !== "wait")
        : value,
    ),
  );
}

const python = (script: string) =>
  run(join(programs, "python"), ["-c", script, url, api.token("admin")], { cwd: dir });

test("a client that openapi-python-client generates creates, configures, uploads, deploys and deletes an app", async () => {
  const options = ["--path", "openapi.json", "--output-path", "berth_client", "--meta", "none"];
  const generated = await run(join(programs, "openapi-python-client"), ["generate", ...options], {
    cwd: dir,
  });
  expect(generated.stdout).not.toContain("will not be generated");
  const { stdout } = await python(`
import importlib, io, pkgutil, sys
import berth_client
for module in pkgutil.walk_packages(berth_client.__path__, "berth_client."):
    importlib.import_module(module.name)
from berth_client import AuthenticatedClient
from berth_client.api.apps import post_apps, put_archives, post_apps_by_name_deploy, delete_apps_by_name
from berth_client.api.secrets import post_secrets
from berth_client.models import CreateAppRequest, DeployRequest
from berth_client.models import PostSecretsBody
from berth_client.types import File
client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
app = CreateAppRequest.from_dict({"name": "made", "image": "bb:1", "port": 80, "env": {"GREETING": "hi"}})
assert app.to_dict()["env"] == {"GREETING": "hi"}
print(post_apps.sync_detailed(client=client, body=app).status_code.value)
secret = PostSecretsBody.from_dict({"name": "made-token", "data": {"token": "x"}})
print(post_secrets.sync_detailed(client=client, body=secret).status_code.value)
print(put_archives.sync_detailed(client=client, body=File(payload=io.BytesIO(b"tar"))).status_code.value)
deploy = DeployRequest.from_dict({"image": "bb:2"})
print(post_apps_by_name_deploy.sync_detailed(name="made", client=client, body=deploy).status_code.value)
print(delete_apps_by_name.sync_detailed(name="made", client=client).status_code.value)
`);
  expect(stdout.trim().split("\n")).toEqual(["201", "201", "200", "202", "202"]);
});

test("Python's requests gets the response to an upload that is refused, and uses the connection again", async () => {
  const { stdout } = await python(`
import requests, sys
session = requests.Session()
session.headers["Authorization"] = "Bearer " + sys.argv[2]
files = {"config": (None, '{"name":"x","port":0}'), "source": ("s.tgz", b"x" * 30_000_000)}
print(session.post(sys.argv[1] + "/api/deploy", files=files, timeout=30).status_code)
print(session.get(sys.argv[1] + "/api/health", timeout=30).status_code)
`);
  expect(stdout.trim().split("\n")).toEqual(["400", "200"]);
});

test(`schemathesis finds no 500 and no response that departs from its schema (seed ${seed})`, async () => {
  const checks =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
  const options = [
    "--seed",
    String(seed),
    "--max-time",
    "40",
    "--no-shrink",
    "--no-color",
    "-n",
    "20",
  ];
  // Schemathesis also calls the route that revokes tokens. That route refuses to revoke a token of the kind `local`, so
  // the test uses such a token.
  const { token } = api.store.tokens.create({
    name: "local",
    scope: "admin",
    kind: "local",
    lifetimeMs: null,
  });
  const { stdout } = await run(
    join(programs, "schemathesis"),
    [
      "run",
      "without-waits.json",
      "--url",
      url,
      "-H",
      `Authorization: Bearer ${token}`,
      "-c",
      checks,
      ...options,
    ],
    { cwd: dir, maxBuffer: 2 ** 26 },
  ).catch((error: unknown) => {
    throw new Error(String(Object.assign(Object(error)).stdout).slice(0, 6000));
  });
  expect(stdout).toMatch(/[1-9]\d* generated, [1-9]\d* passed/);
  // Schemathesis has tested every operation of the document.
  expect(stdout).toMatch(/Selected: (\d+)\/\1\n\s+Tested: \1\n/);
});
