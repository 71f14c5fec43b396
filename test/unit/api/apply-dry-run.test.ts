import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { API_VERSION, type Manifest } from "../../../src/resources/kinds.ts";
import type { TokenScope } from "../../../src/store/store.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";

/** A folder that tokens of scope write may mount, with the subfolder `sub`. */
let folder: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "berth-dry-run-")));
  mkdirSync(join(folder, "sub"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const openApi = () => openTestApi({ hostPaths: { allowed: [folder], reserved: [] } });

let api: TestApi;
beforeEach(async () => {
  api = await openApi();
  onTestFinished(() => api[Symbol.asyncDispose]());
});

interface ApplyRequest {
  readonly manifests: readonly object[];
  readonly scope?: TokenScope;
  readonly force?: boolean;
}

const manifest = (kind: string, name: string, spec: object, annotations = {}) => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, annotations },
  spec,
});
const app = (name: string, spec: object, annotations = {}) =>
  manifest("App", name, { image: "bb:1", port: 80, ...spec }, annotations);
const mount = (hostPath: string) => ({ volumes: [{ hostPath, path: "/host" }] });

const send = (
  { manifests, scope = "admin", force = false }: ApplyRequest,
  isDryRun: boolean,
  to = api,
) =>
  to.server.inject({
    method: "POST",
    url: "/api/apply",
    headers: { authorization: `Bearer ${to.token(scope)}` },
    payload: { manifests, force, dry_run: isDryRun },
  });

/** Returns the decision about a request: the error, or the action and the changes for each manifest. */
async function decide(request: ApplyRequest, isDryRun: boolean, to = api) {
  const response = await send(request, isDryRun, to);
  if (response.statusCode !== 200)
    return {
      status: response.statusCode,
      code: response.headers["x-error-code"],
      error: readErrorBody(response),
    };
  const { results }: { results: Record<string, unknown>[] } = response.json();
  return results.map(({ kind, name, action, generation, changes }) => ({
    kind,
    name,
    action,
    generation,
    changes,
  }));
}

/** Sends a request as a dry run and then without. Returns the decision, which must be the same both times. */
async function decideTwice(request: ApplyRequest, to = api) {
  const before = to.store.lastSequence;
  const planned = await decide(request, true, to);
  expect(to.store.lastSequence).toBe(before);
  const decided = await decide(request, false, to);
  expect(planned).toEqual(decided);
  return decided;
}

describe("a dry run of several manifests", () => {
  it("is refused if two of its apps have the same domain", async () => {
    const domain = "x.example.org";
    const manifests = [app("a", { domain }), app("b", { domain })];
    expect(await decideTwice({ manifests })).toMatchObject({ status: 409 });
    expect(api.store.list("App")).toEqual([]);
  });

  it("is refused if its apps depend on each other in a cycle", async () => {
    const manifests = [
      app("a", { dependsOn: ["b"] }),
      app("b", { dependsOn: ["c"] }),
      app("c", { dependsOn: ["a"] }),
    ];
    expect(await decideTwice({ manifests })).toMatchObject({ status: 409 });
  });

  it("is accepted if a domain moves from one app to another, in either order", async () => {
    const domain = "x.example.org";
    for (const names of [
      ["a", "b"],
      ["b", "a"],
    ]) {
      putApp(api.store, "a", { image: "bb:1", port: 80, domain });
      putApp(api.store, "b", { image: "bb:1", port: 80 });
      const manifests = names.map((name) => app(name, name === "b" ? { domain } : {}));
      expect(await decideTwice({ manifests })).toHaveLength(2);
      for (const name of names) putApp(api.store, name, { image: "bb:1" });
    }
  });

  it("is refused if an app may not mount a folder because another of its apps could replace the folder", async () => {
    const manifests = [app("outer", mount(folder)), app("inner", mount(join(folder, "sub")))];
    const refused = await decideTwice({ manifests, scope: "write" });
    expect(refused).toMatchObject({ status: 403, error: expect.stringContaining("can write to") });
    expect(api.store.list("App")).toEqual([]);
  });

  it("is accepted if an administrator confirms a Secret for an app that mounts a folder of the machine", async () => {
    const secret = manifest("Secret", "key", { data: { value: "1" } });
    expect(await decideTwice({ manifests: [secret], scope: "write" })).toHaveLength(1);
    const spec = { ...mount("/srv"), env: { KEY: { secret: "key" } } };
    expect(await decideTwice({ manifests: [app("web", spec)] })).toMatchObject({ status: 409 });
    expect(await decideTwice({ manifests: [secret, app("web", spec)] })).toMatchObject([
      { kind: "Secret", action: "unchanged" },
      { name: "web", action: "created" },
    ]);
  });

  it("plans each app with the values that its Secrets will have after the request", async () => {
    api.store.apply({
      kind: "Secret",
      name: "key",
      manager: "cli",
      actor: { name: "user:admin", scope: "admin" },
      mode: "replace",
      spec: { data: { kept: "1" } },
    });
    const secret = manifest("Secret", "key", { data: { added: "2" } });
    const response = await send({ manifests: [app("web", {}), secret] }, true);
    expect(response.statusCode).toBe(200);
    const planned = api.control.alongside.find(({ resource }) => resource.kind === "Secret");
    expect(planned?.values).toEqual({ kept: "1", added: "2" });
    expect(api.store.secrets.reveal("key")).toEqual({ kept: "1" });
  });

  it("has no effect on later reads, events or the audit log", async () => {
    putApp(api.store, "a", { image: "bb:1" });
    const read = () => ({
      apps: api.store.list("App"),
      secrets: api.store.list("Secret"),
      audit: api.store.audit.list({ limit: 100 }),
      sequence: api.store.lastSequence,
    });
    const before = read();
    const changes: string[] = [];
    onTestFinished(api.store.watch(({ name }) => changes.push(name)));
    const manifests = [app("a", { image: "bb:2" }), app("b", {}), secretOf("s")];
    expect((await send({ manifests }, true)).statusCode).toBe(200);
    expect(read()).toEqual(before);
    expect(changes).toEqual([]);
    expect((await send({ manifests }, false)).statusCode).toBe(200);
    expect(changes).toEqual(["a", "b", "s"]);
  });

  it("of a template is refused for the reason for which the template cannot create its apps", async () => {
    const two: Manifest<"Template"> = {
      apiVersion: API_VERSION,
      kind: "Template",
      metadata: { name: "two" },
      spec: {
        title: "Two",
        description: "Two apps.",
        category: "web",
        app: { image: "bb:1", ...mount(join(folder, "sub")) },
        companions: [{ suffix: "db", app: { image: "bb:1", ...mount(folder) } }],
      },
    };
    expect(await decideTwice({ manifests: [two] })).toHaveLength(1);
    for (const query of ["?dry_run=true", ""]) {
      const response = await api.server.inject({
        method: "POST",
        url: `/api/apps/from-template${query}`,
        headers: { authorization: `Bearer ${api.token("write")}` },
        payload: { template_id: "two", name: "web" },
      });
      expect(response.statusCode).toBe(403);
      expect(readErrorBody(response)).toContain("can write to");
    }
  });
});

const secretOf = (name: string) => manifest("Secret", name, { data: { value: "1" } });

const domains = ["a.example.test", "x.example.org", "*.example.org", "none"];
const names = ["a", "b", "c"];
const secrets = ["s", "t"];

/**
 * Generates undefined most of the time, so that a generated request rarely contains several conflicts that hide each
 * other.
 */
const rarely = <T>(values: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: values });

const randomApp = fc
  .record({
    name: fc.constantFrom(...names),
    image: fc.constantFrom("bb:1", "bb:2"),
    domain: rarely(fc.constantFrom(...domains)),
    pathPrefix: rarely(fc.constantFrom("/p")),
    dependsOn: rarely(fc.uniqueArray(fc.constantFrom(...names), { maxLength: 2 })),
    secret: rarely(fc.constantFrom(...secrets)),
    hostPath: fc.constantFrom(undefined, "", "/sub", "/sub", "outside"),
    origin: rarely(fc.constantFrom("import:one", "import:two")),
  })
  .map(({ name, image, domain, pathPrefix, dependsOn, secret, hostPath, origin }) =>
    app(
      name,
      {
        image,
        ...(domain === undefined ? {} : { domain }),
        ...(pathPrefix === undefined ? {} : { ingress: { pathPrefix } }),
        ...(dependsOn === undefined ? {} : { dependsOn }),
        ...(secret === undefined ? {} : { env: { KEY: { secret } } }),
        ...(hostPath === undefined
          ? {}
          : {
              volumes: [
                { hostPath: hostPath === "outside" ? "/srv" : `${folder}${hostPath}`, path: "/h" },
              ],
            }),
      },
      origin === undefined ? {} : { "berth.dev/origin": origin },
    ),
  );
const randomSecret = fc
  .record({ name: fc.constantFrom(...secrets), value: fc.constantFrom("1", "2") })
  .map(({ name, value }) => manifest("Secret", name, { data: { value } }));
const randomRequest: fc.Arbitrary<ApplyRequest> = fc.record({
  manifests: fc.uniqueArray(fc.oneof({ weight: 4, arbitrary: randomApp }, randomSecret), {
    minLength: 1,
    maxLength: 4,
    selector: ({ kind, metadata }) => `${kind} ${metadata.name}`,
  }),
  scope: fc.constantFrom<TokenScope>("write", "admin"),
  force: fc.boolean(),
});

it("a dry run accepts any set of manifests exactly if the apply accepts it, with the same result or error", async () => {
  const outcomes = { accepted: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(fc.array(randomRequest, { minLength: 3, maxLength: 8 }), async (requests) => {
      await using fresh = await openApi();
      for (const request of requests) {
        const decided = await decideTwice(request, fresh);
        outcomes[Array.isArray(decided) ? "accepted" : "refused"] += 1;
      }
    }),
    { numRuns: 15 },
  );
  expect(outcomes.accepted).toBeGreaterThan(0);
  expect(outcomes.refused).toBeGreaterThan(0);
});
