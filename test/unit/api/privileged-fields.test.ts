import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LightMyRequestResponse } from "fastify";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import { emptyReconcileState } from "../../../src/resources/app-status.ts";
import type { Manifest } from "../../../src/resources/kinds.ts";
import { appStatus, openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";

/** A temporary folder with the subfolder `allowed`, which `host_path_allow` lists, and `other`, which it does not. */
let machine: string;
let allowed: string;
let api: TestApi;

beforeEach(async () => {
  machine = realpathSync(mkdtempSync(join(tmpdir(), "berth-machine-")));
  allowed = join(machine, "allowed");
  mkdirSync(join(allowed, "sub"), { recursive: true });
  mkdirSync(join(machine, "other"));
  api = await openTestApi({
    hostPaths: { allowed: [allowed], reserved: [] },
    templates: [folderTemplate],
  });
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
  rmSync(machine, { recursive: true });
});

const folderTemplate: Manifest<"Template"> = {
  apiVersion: "berth.dev/v1",
  kind: "Template",
  metadata: { name: "folder" },
  spec: {
    title: "Folder",
    description: "Serves a folder.",
    category: "web",
    parameters: [{ name: "folder", required: true }],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the template
    app: { image: "bb:1", volumes: [{ hostPath: "${folder}", path: "/srv" }] },
  },
};

function send(
  scope: "write" | "admin",
  method: "POST" | "PATCH" | "PUT" | "DELETE",
  url: string,
  payload?: object,
): Promise<LightMyRequestResponse> {
  const headers = { authorization: `Bearer ${api.token(scope)}` };
  return api.server.inject({ method, url, headers, ...(payload ? { payload } : {}) });
}

const mount = (hostPath: string) => ({ volumes: [{ hostPath, path: "/host" }] });

/** Creates an app that mounts a folder which only the scope admin may mount. */
async function createReachingApp(spec: AppSpec = {}): Promise<void> {
  const payload = { name: "reach", image: "bb:1", port: 80, ...mount("/etc"), ...spec };
  expect((await send("admin", "POST", "/api/apps", payload)).statusCode).toBe(201);
}

/** Lists how a response differs from a 403 `forbidden` error whose message contains all of `texts`. */
function findDifferences(
  response: LightMyRequestResponse,
  ...texts: readonly string[]
): readonly string[] {
  if (response.statusCode !== 403) return [`${response.statusCode} ${response.body}`];
  const message = readErrorBody(response);
  return [
    ...(response.headers["x-error-code"] === "forbidden" ? [] : ["another code"]),
    ...texts.filter((text) => !message.includes(text)).map((text) => `${text} in: ${message}`),
  ];
}

const manifest = (kind: string, name: string, spec: object) => ({
  manifests: [{ apiVersion: "berth.dev/v1", kind, metadata: { name }, spec }],
});

const app = (name: string, spec: object) => manifest("App", name, spec).manifests[0];

describe("a token of scope write cannot add a folder of the machine", () => {
  const named = ["hostPath", "/etc", "admin", "host_path_allow", "named volume"];

  it("when it creates an app", async () => {
    const payload = { name: "web", image: "bb:1", ...mount("/etc") };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps", payload),
        "spec.volumes[0]",
        ...named,
      ),
    ).toEqual([]);
    expect(
      findDifferences(await send("write", "POST", "/api/apps?dry_run=true", payload), ...named),
    ).toEqual([]);
    expect(api.store.get("App", "web")).toBeUndefined();
    expect((await send("admin", "POST", "/api/apps", payload)).statusCode).toBe(201);
  });

  it("when it patches an app, even with force", async () => {
    await send("write", "POST", "/api/apps", { name: "web", image: "bb:1" });
    expect(
      findDifferences(
        await send("write", "PATCH", "/api/apps/web?force=true", mount("/etc")),
        ...named,
      ),
    ).toEqual([]);
  });

  it("when it applies manifests; none of the manifests is then written", async () => {
    const payload = {
      manifests: [app("one", { image: "bb:1" }), app("two", { image: "bb:1", ...mount("/etc") })],
    };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apply", { ...payload, force: true }),
        ...named,
      ),
    ).toEqual([]);
    expect(api.store.list("App")).toEqual([]);
  });

  it("when it creates an app from a template", async () => {
    const payload = { template_id: "folder", name: "web", parameters: { folder: "/etc" } };
    expect(
      findDifferences(await send("write", "POST", "/api/apps/from-template", payload), ...named),
    ).toEqual([]);
    expect((await send("admin", "POST", "/api/apps/from-template", payload)).statusCode).toBe(201);
  });

  it("when it deploys an archive", async () => {
    const form = new FormData();
    form.append("config", JSON.stringify({ name: "web", port: 80, ...mount("/etc") }));
    form.append("source", new Blob(["archive"]), "source.tgz");
    const body = new Response(form);
    const response = await api.server.inject({
      method: "POST",
      url: "/api/deploy",
      headers: {
        authorization: `Bearer ${api.token("write")}`,
        "content-type": body.headers.get("content-type") ?? "",
      },
      payload: Buffer.from(await body.arrayBuffer()),
    });
    expect(findDifferences(response, ...named)).toEqual([]);
  });

  it("when it rolls back to a revision that mounted such a folder", async () => {
    await createReachingApp();
    const { spec } = api.store.get("App", "reach") ?? {};
    const old = api.store.revisions.ensure({
      app: "reach",
      generation: 1,
      specHash: "a",
      spec: { ...spec },
      image: "bb:1",
      imageId: null,
    });
    api.store.revisions.mark("reach", old.number, "stable", null);
    expect((await send("admin", "PATCH", "/api/apps/reach", { volumes: null })).statusCode).toBe(
      202,
    );
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps/reach/rollback", { revision: old.number }),
        ...named,
      ),
    ).toEqual([]);
    expect(
      (await send("admin", "POST", "/api/apps/reach/rollback", { revision: old.number }))
        .statusCode,
    ).toBe(202);
  });

  it("in a template, which a user with the scope admin might use", async () => {
    const spec = { ...folderTemplate.spec };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apply", manifest("Template", "trap", spec)),
        "spec.app.volumes[0].hostPath",
        "admin",
      ),
    ).toEqual([]);
    const companion = {
      ...spec,
      app: { image: "bb:1" },
      companions: [{ suffix: "db", app: spec.app }],
    };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apply", manifest("Template", "trap", companion)),
        "spec.companions[0].app.volumes[0]",
      ),
    ).toEqual([]);
    expect(
      (await send("admin", "POST", "/api/apply", manifest("Template", "folder", spec))).statusCode,
    ).toBe(200);
    const changed = { ...spec, app: { image: "evil:1" } };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apply", manifest("Template", "folder", changed)),
        "admin",
      ),
    ).toEqual([]);
  });

  it("nor name a file of the machine as the source of a model", async () => {
    const model = manifest("Model", "m", { source: "/etc/shadow" });
    expect(
      findDifferences(await send("write", "POST", "/api/apply", model), "spec.source", "admin"),
    ).toEqual([]);
  });
});

/** A mount of the parent of the folder that `inner` mounts. An app with this mount could replace that folder. */
const outer = () => mount(allowed);
const inner = () => mount(join(allowed, "sub"));

describe("a request that writes several apps", () => {
  it("writes none of them if one is refused because of another one of them", async () => {
    const manifests = [
      app("first", { image: "bb:1", ...outer() }),
      app("second", { image: "bb:1", ...inner() }),
    ];
    expect(
      findDifferences(await send("write", "POST", "/api/apply", { manifests }), "can write to"),
    ).toEqual([]);
    expect(api.store.list("App")).toEqual([]);
  });

  it("writes no app of a template if one is refused because of another app of the template", async () => {
    const spec = {
      title: "Two",
      description: "Two apps.",
      category: "web",
      app: { image: "bb:1", ...inner() },
      companions: [{ suffix: "db", app: { image: "bb:1", ...outer() } }],
    };
    await send("admin", "POST", "/api/apply", manifest("Template", "two", spec));
    const payload = { template_id: "two", name: "web" };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps/from-template", payload),
        "can write to",
      ),
    ).toEqual([]);
    expect(api.store.list("App")).toEqual([]);
  });
});

describe("a Model that a token of scope write declares", () => {
  it.each([
    "http://127.0.0.1:7778/v1/models",
    "http://localhost:5432/m.gguf",
    "https://localhost./m.gguf",
    "http://[::1]/m.gguf",
    "http://0.0.0.0:22/m.gguf",
    "http://[::ffff:127.0.0.1]/m.gguf",
    "http://[::127.0.0.1]/m.gguf",
    "http://localhost../m.gguf",
    "http://2130706433/m.gguf",
  ])(
    "does not request %s, because the response would show what listens on the machine",
    async (source) => {
      const model = manifest("Model", "m", { source });
      for (const url of ["/api/apply", "/api/apply?dry_run=true"])
        expect(findDifferences(await send("write", "POST", url, model), "spec.source")).toEqual([]);
      expect((await send("admin", "POST", "/api/apply", model)).statusCode).toBe(200);
    },
  );
});

describe("a token of scope write cannot take over an app that mounts a folder of the machine", () => {
  beforeEach(() => createReachingApp({ env: { PASSWORD: { secret: "reach-password" } } }));

  it.each<[string, object]>([
    ["image", { image: "evil:1" }],
    ["command", { command: ["sh"] }],
    ["entrypoint", { entrypoint: ["sh"] }],
    ["env", { env: { NODE_OPTIONS: "--require /x" } }],
    ["user", { user: "0" }],
    ["workingDir", { workingDir: "/host" }],
    ["volumes", { volumes: null }],
    ["healthCheck", { healthCheck: { command: ["sh", "-c", "x"] } }],
    ["domain", { domain: "evil.example.test" }],
    ["ports", { ports: [{ host: 9000, container: 80 }] }],
    ["port", { port: 81 }],
    ["ingress", { ingress: { https: "off" } }],
    ["pullSecret", { pullSecret: "mine" }],
    ["models", { models: ["m"] }],
  ])("by changing %s", async (field, patch) => {
    expect(
      findDifferences(
        await send("write", "PATCH", "/api/apps/reach?force=true", patch),
        `spec.${field}`,
        'app "reach" mounts /etc',
        "admin",
      ),
    ).toEqual([]);
    expect((await send("admin", "PATCH", "/api/apps/reach", patch)).statusCode).toBe(202);
  });

  it("by deploying an image, a repository or an archive", async () => {
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps/reach/deploy", { image: "evil:1" }),
        "spec.image",
      ),
    ).toEqual([]);
    const git = { url: "https://git.example.test/evil" };
    expect(
      findDifferences(await send("write", "POST", "/api/apps/reach/deploy", { git }), "admin"),
    ).toEqual([]);
  });

  it("by applying a manifest under another manager with force", async () => {
    const payload = {
      ...manifest("App", "reach", { image: "evil:1" }),
      manager: "cli",
      force: true,
    };
    expect(
      findDifferences(await send("write", "POST", "/api/apply", payload), "spec.image"),
    ).toEqual([]);
  });

  it("by setting Berth's own annotations", async () => {
    const same = app("reach", { image: "bb:1", port: 80 });
    const annotations = { "berth.dev/source-revision": "a".repeat(40) };
    const metadata = { ...same?.metadata, annotations };
    const payload = { manifests: [{ ...same, metadata }], manager: "cli", force: true };
    expect(
      findDifferences(await send("write", "POST", "/api/apply", payload), "source-revision"),
    ).toEqual([]);
  });

  it.each<[string, object]>([
    ["a path of its default host", { domain: "reach.example.test", ingress: { pathPrefix: "/a" } }],
    ["a path of its other host", { ingress: { domains: ["x.example.org"], pathPrefix: "/a" } }],
    ["a host below its wildcard", { domain: "login.w.example.org" }],
  ])("by claiming %s", async (_name, spec) => {
    const domains = ["x.example.org", "*.w.example.org"];
    await send("admin", "PATCH", "/api/apps/reach", { ingress: { domains } });
    const payload = { name: "other", image: "bb:1", port: 80, ...spec };
    expect(
      findDifferences(await send("write", "POST", "/api/apps", payload), 'a host of app "reach"'),
    ).toEqual([]);
    expect((await send("admin", "POST", "/api/apps", payload)).statusCode).toBe(201);
    expect((await send("write", "PATCH", "/api/apps/other", { image: "bb:2" })).statusCode).toBe(
      202,
    );
  });

  it("by writing a Secret that it uses", async () => {
    const data = { value: "known" };
    const named = ['app "reach"', "mounts /etc", "admin"];
    expect(
      findDifferences(
        await send("write", "POST", "/api/secrets", { name: "reach-password", data }),
        ...named,
      ),
    ).toEqual([]);
    expect(
      (await send("admin", "POST", "/api/secrets", { name: "reach-password", data })).statusCode,
    ).toBe(201);
    expect(
      findDifferences(
        await send("write", "PUT", "/api/secrets/reach-password", { data: { value: "x" } }),
        ...named,
      ),
    ).toEqual([]);
    expect(
      findDifferences(
        await send("write", "PATCH", "/api/secrets/reach-password", { data: { other: "x" } }),
        ...named,
      ),
    ).toEqual([]);
    expect(
      findDifferences(
        await send(
          "write",
          "POST",
          "/api/apply",
          manifest("Secret", "reach-password", { data: { value: "x" } }),
        ),
        ...named,
      ),
    ).toEqual([]);
    for (const url of [
      "/api/secrets/reach-password?force=true",
      "/api/resources/secrets/reach-password?force=true",
    ])
      expect(findDifferences(await send("write", "DELETE", url), ...named)).toEqual([]);
    expect((await send("write", "POST", "/api/secrets", { name: "mine", data })).statusCode).toBe(
      201,
    );
    expect((await send("write", "DELETE", "/api/secrets/mine")).statusCode).toBe(200);
    expect(
      (await send("admin", "DELETE", "/api/secrets/reach-password?force=true")).statusCode,
    ).toBe(200);
  });

  it("by using a Secret of that app in an app or a request of its own", async () => {
    await send("admin", "POST", "/api/secrets", { name: "reach-password", data: { value: "s" } });
    const env = { STOLEN: { secret: "reach-password" } };
    const named = ['secret "reach-password"', "use it"];
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps", { name: "thief", image: "bb:1", env }),
        ...named,
      ),
    ).toEqual([]);
    const git = { url: "https://evil.example.test/x", credential: "reach-password" };
    expect(
      findDifferences(
        await send("write", "POST", "/api/apps", { name: "thief", source: { git } }),
        ...named,
      ),
    ).toEqual([]);
    const model = manifest("Model", "m", {
      source: "https://evil.example.test/m.gguf",
      credential: "reach-password",
    });
    expect(findDifferences(await send("write", "POST", "/api/apply", model), ...named)).toEqual([]);
  });

  it("while a version with the folder still serves requests, or a revert would restore such a version", async () => {
    const { spec, metadata } = api.store.get("App", "reach") ?? {};
    if (!spec || !metadata) throw new Error("there is no app");
    const { number } = api.store.revisions.ensure({
      app: "reach",
      generation: 1,
      specHash: "a",
      spec,
      image: "bb:1",
      imageId: null,
    });
    await send("admin", "PATCH", "/api/apps/reach", { volumes: null });
    const memory = { ...emptyReconcileState, servedRevisions: [{ version: "a", number }] };
    api.store.setStatus("App", "reach", metadata.uid, appStatus(2, { memory }));
    expect(
      findDifferences(
        await send("write", "PATCH", "/api/apps/reach", { image: "evil:1" }),
        "spec.image",
      ),
    ).toEqual([]);
    api.store.setStatus("App", "reach", metadata.uid, appStatus(2));
    expect((await send("write", "PATCH", "/api/apps/reach", { image: "fine:1" })).statusCode).toBe(
      202,
    );
  });

  it("by deleting it, which would open its name, its volumes and its Secrets to others", async () => {
    for (const url of [
      "/api/apps/reach",
      "/api/resources/apps/reach",
      "/api/apps/reach?dry_run=true",
    ])
      expect(
        findDifferences(await send("write", "DELETE", url), "only the scope admin may delete it"),
      ).toEqual([]);
    expect((await send("admin", "DELETE", "/api/apps/reach")).statusCode).toBe(202);
  });

  it("but it may start, stop, restart, scale and redeploy it", async () => {
    for (const verb of ["stop", "start", "restart", "retry"])
      expect((await send("write", "POST", `/api/apps/reach/${verb}`)).statusCode).toBeLessThan(203);
    const limits = { replicas: 2, resources: { memory: "64Mi" } };
    expect((await send("write", "PATCH", "/api/apps/reach", limits)).statusCode).toBe(202);
    const same = { image: "bb:1", env: { PASSWORD: { secret: "reach-password" } } };
    expect((await send("write", "PATCH", "/api/apps/reach", same)).statusCode).toBe(202);
  });
});

describe("the data directory", () => {
  it("cannot be mounted by any app, under any path", async () => {
    const { dataDir } = api;
    const link = join(machine, "link");
    symlinkSync(dataDir, link);
    symlinkSync("/", join(machine, "root"));
    for (const hostPath of [
      dataDir,
      `${dataDir}/`,
      join(dataDir, "run"),
      join(dataDir, ".."),
      "/",
      "//",
      link,
      join(link, "run"),
      join(machine, "root"),
      "/proc/self/root",
      join("/proc/self/root", dataDir),
    ]) {
      const payload = { name: "web", image: "bb:1", ...mount(hostPath) };
      expect(
        findDifferences(
          await send("admin", "POST", "/api/apps", payload),
          "data directory",
          "no app may mount",
        ),
      ).toEqual([]);
    }
    expect(
      (
        await send("admin", "POST", "/api/apps", {
          name: "web",
          image: "bb:1",
          ...mount(join(machine, "other")),
        })
      ).statusCode,
    ).toBe(201);
  });
});

const create = (hostPath: string, name = "web") =>
  send("write", "POST", "/api/apps", { name, image: "bb:1", ...mount(hostPath) });

describe("a path that leads through /proc", () => {
  it("cannot be mounted, even by an administrator", async () => {
    const link = join(machine, "cwd");
    symlinkSync("/proc/self/cwd", link);
    // Berth cannot resolve the link `dead`, because no process has the id 999999999.
    const dead = join(machine, "dead");
    symlinkSync("/proc/999999999/root", dead);
    for (const hostPath of [
      "/proc",
      "/proc/1/root/srv",
      "/proc/self/cwd",
      link,
      dead,
      "/dev/fd/0",
    ]) {
      const payload = { name: "web", image: "bb:1", ...mount(hostPath) };
      expect(
        findDifferences(await send("admin", "POST", "/api/apps", payload), "leads through /proc"),
      ).toEqual([]);
    }
    expect(api.store.findMountProblem(link)).toContain("leads through /proc");
  });
});

const build = (local: string) =>
  api.store.apply({
    kind: "App",
    name: "web",
    manager: "file:web.yaml",
    actor: { name: "file:web.yaml", scope: "admin" },
    mode: "replace",
    spec: { source: { local } },
  });

describe("a folder of the machine from which a trusted file builds an app", () => {
  it("must neither contain the data directory nor be inside it", () => {
    symlinkSync(api.dataDir, join(machine, "link"));
    for (const local of [
      "/",
      api.dataDir,
      join(api.dataDir, "run"),
      join(machine, "link"),
      "/proc",
    ])
      expect(() => build(local)).toThrow("no app may build");
    expect(build(join(machine, "other")).created).toBe(true);
    rmSync(join(machine, "other"), { recursive: true });
    symlinkSync("/", join(machine, "other"));
    expect(api.store.findSourceProblem(join(machine, "other"))).toContain("contains the data");
  });
});

describe("host_path_allow", () => {
  it("lets a token of scope write mount the folder or a folder in it, and change and delete the app afterwards", async () => {
    expect((await create(allowed)).statusCode).toBe(201);
    expect((await send("write", "PATCH", "/api/apps/web", { image: "bb:2" })).statusCode).toBe(202);
    expect((await send("write", "DELETE", "/api/apps/web")).statusCode).toBe(202);
    for (const finalizer of ["berth.dev/containers"])
      api.store.removeFinalizer("App", "web", finalizer);
    expect((await create(join(allowed, "sub"))).statusCode).toBe(201);
  });

  it("does not allow a folder behind a link, a folder whose name begins the same, or a missing folder", async () => {
    symlinkSync(join(machine, "other"), join(allowed, "out"));
    mkdirSync(`${allowed}-not`);
    expect(findDifferences(await create(join(allowed, "out")), "leads out of")).toEqual([]);
    expect(findDifferences(await create(`${allowed}-not`), "needs the scope admin")).toEqual([]);
    expect(findDifferences(await create(join(allowed, "absent")), "does not exist")).toEqual([]);
  });

  it("refuses a path below a folder that an app can write to, because the app could replace the path by a link", async () => {
    expect((await create(allowed, "writer")).statusCode).toBe(201);
    expect(
      findDifferences(await create(join(allowed, "sub")), "which an app can write to"),
    ).toEqual([]);
  });

  it("is checked again at each start, also after the folder is no longer listed", async () => {
    const sub = join(allowed, "sub");
    expect(api.store.findMountProblem(sub)).toBeUndefined();
    rmSync(sub, { recursive: true });
    symlinkSync("/etc", sub);
    expect(api.store.findMountProblem(sub)).toContain("leads out of");
    expect(api.store.findMountProblem("/etc")).toBeUndefined();
    expect(api.store.findMountProblem("/")).toContain("contains the data directory");
  });
});
