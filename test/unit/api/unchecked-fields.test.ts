import type { LightMyRequestResponse } from "fastify";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Manifest } from "../../../src/resources/kinds.ts";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";

const webTemplate: Manifest<"Template"> = {
  apiVersion: "berth.dev/v1",
  kind: "Template",
  metadata: { name: "built-in" },
  spec: { title: "W", description: "Serves.", category: "web", app: { image: "bb:1" } },
};

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ templates: [webTemplate] });
});
afterEach(() => api[Symbol.asyncDispose]());

function send(
  scope: "write" | "admin",
  method: "POST" | "PATCH" | "PUT" | "DELETE",
  url: string,
  payload?: object,
): Promise<LightMyRequestResponse> {
  const headers = { authorization: `Bearer ${api.token(scope)}` };
  return api.server.inject({ method, url, headers, ...(payload ? { payload } : {}) });
}

async function succeed(...request: Parameters<typeof send>): Promise<void> {
  const response = await send(...request);
  if (response.statusCode >= 300) throw new Error(response.body);
}

const mount = { volumes: [{ hostPath: "/srv", path: "/host" }] };

const manifest = (kind: string, name: string, spec: object) => ({
  manifests: [{ apiVersion: "berth.dev/v1", kind, metadata: { name }, spec }],
});

/** Applies a spec file, with the scope admin if the file is trusted. */
function applyFile(scope: "write" | "admin", spec: object, name = "web") {
  const manager = "file:web.yaml";
  return api.store.apply({
    kind: "App",
    name,
    manager,
    actor: { name: manager, scope },
    mode: "replace",
    spec,
    declares: true,
  });
}

const planted = {
  image: "evil:1",
  command: ["sh", "-c", "cat /host/*"],
  env: { NODE_OPTIONS: "--require /x", FINE: "1" },
  healthCheck: { command: ["sh", "-c", "x"] },
};

describe("an app with fields that a token of scope write has set", () => {
  beforeEach(() => succeed("write", "POST", "/api/apps", { name: "web", ...planted }));

  it("gets no mount from an administrator's request that omits these fields", async () => {
    const response = await send("admin", "PATCH", "/api/apps/web?force=true", mount);
    expect(response.statusCode).toBe(409);
    expect(response.headers["x-error-code"]).toBe("conflict");
    const message = readErrorBody(response);
    for (const field of ["spec.command", "spec.env.NODE_OPTIONS", "spec.healthCheck.command"])
      expect(message).toContain(`${field} (set by token:test-write)`);
    expect(message).toContain("with their present values to keep them");
    expect(api.store.get("App", "web")?.spec.volumes).toBeUndefined();
    expect((await send("admin", "PATCH", "/api/apps/web?dry_run=true", mount)).statusCode).toBe(
      409,
    );
  });

  it("gets no mount from an administrator's spec file that omits some of these fields", () => {
    const { image, command } = planted;
    expect(() => applyFile("admin", { image, command, ...mount })).toThrow("spec.env.NODE_OPTIONS");
    expect(api.store.get("App", "web")?.metadata.managers["file:web.yaml"]).toBeUndefined();
  });

  it("gets a mount from an administrator's request that also sets all of these fields, to present or other values", async () => {
    const { healthCheck, ...others } = planted;
    const spec = { ...others, command: ["serve"], healthCheck, ...mount };
    await succeed("admin", "PATCH", "/api/apps/web", spec);
    expect(api.store.get("App", "web")?.spec.volumes).toHaveLength(1);
  });

  it("gets a mount after an administrator has removed these fields or set them to their present values", async () => {
    const { image, env } = planted;
    const removal = { command: null, healthCheck: null };
    await succeed("admin", "PATCH", "/api/apps/web", { image, env, ...removal });
    await succeed("admin", "PATCH", "/api/apps/web", mount);
    expect(api.store.get("App", "web")?.spec.volumes).toHaveLength(1);
  });

  it("must be checked again if the token changes a field after the check", async () => {
    await succeed("admin", "PATCH", "/api/apps/web", planted);
    await succeed("write", "PATCH", "/api/apps/web", { user: "0" });
    await succeed("write", "PATCH", "/api/apps/web", { env: { FINE: "1" }, replicas: 2 });
    const response = await send("admin", "PATCH", "/api/apps/web", mount);
    expect(readErrorBody(response)).toContain("spec.user (set by token:test-write)");
    expect(readErrorBody(response)).not.toContain("FINE");
    expect(readErrorBody(response)).not.toContain("replicas");
  });

  it("must be checked again after an administrator rolled back to a version that the token has written", async () => {
    const app = api.store.get("App", "web");
    const { number } = api.store.revisions.ensure({
      app: "web",
      generation: 1,
      specHash: "a",
      spec: { ...app?.spec },
      image: "evil:1",
      imageId: null,
    });
    api.store.revisions.mark("web", number, "stable", null);
    const removal = { command: null, env: null, healthCheck: null, image: "fine:1" };
    await succeed("admin", "PATCH", "/api/apps/web", removal);
    await succeed("admin", "POST", "/api/apps/web/rollback", { revision: number });
    const response = await send("admin", "PATCH", "/api/apps/web", mount);
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("spec.command (set by token:test-write)");
  });
});

it("an app of an administrator gets a mount after a rollback to the administrator's version", async () => {
  await succeed("admin", "POST", "/api/apps", { name: "web", image: "bb:1", command: ["a"] });
  const { number } = api.store.revisions.ensure({
    app: "web",
    generation: 1,
    specHash: "a",
    spec: { ...api.store.get("App", "web")?.spec },
    image: "bb:1",
    imageId: null,
  });
  api.store.revisions.mark("web", number, "stable", null);
  await succeed("admin", "PATCH", "/api/apps/web", { command: ["b"] });
  await succeed("admin", "POST", "/api/apps/web/rollback", { revision: number });
  await succeed("admin", "PATCH", "/api/apps/web", mount);
  expect(api.store.get("App", "web")?.spec.command).toEqual(["a"]);
});

it("an app gets no mount while an app that a token of scope write has created serves a path of the same host", async () => {
  await succeed("admin", "POST", "/api/apps", { name: "web", image: "bb:1", port: 80 });
  const trap = { name: "trap", image: "evil:1", port: 80, domain: "web.example.test" };
  await succeed("write", "POST", "/api/apps", { ...trap, ingress: { pathPrefix: "/login" } });
  const response = await send("admin", "PATCH", "/api/apps/web", mount);
  expect(response.statusCode).toBe(409);
  expect(readErrorBody(response)).toContain('spec.domain of app "trap" (set by token:test-write)');
  await succeed("admin", "DELETE", "/api/apps/trap");
  api.store.removeFinalizer("App", "trap", "berth.dev/containers");
  await succeed("admin", "PATCH", "/api/apps/web", mount);
});

describe("a spec file that other users of the machine can write", () => {
  it("prevents a mount on the app that it declares, and the error names the file", () => {
    applyFile("write", { image: "bb:1", env: { A: "1" } });
    expect(() =>
      api.store.apply({
        kind: "App",
        name: "web",
        manager: "api",
        actor: { name: "user:admin", scope: "admin" },
        mode: "merge",
        spec: mount,
      }),
    ).toThrow("spec.env.A (set by file:web.yaml)");
  });
});

describe("a Secret that a token of scope write has created", () => {
  const env = { OPTIONS: { secret: "options" } };
  beforeEach(() =>
    succeed("write", "POST", "/api/secrets", { name: "options", data: { value: "--require /x" } }),
  );

  it("is used by no app with a mount until an administrator has written it", async () => {
    const app = { name: "web", image: "bb:1", env, ...mount };
    const response = await send("admin", "POST", "/api/apps", app);
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain(
      'spec.data.value of secret "options" (set by token:test-write)',
    );
    await succeed("admin", "PUT", "/api/secrets/options", { data: { value: "mine" } });
    await succeed("admin", "POST", "/api/apps", app);
  });

  it("cannot be added to an app that has a mount, even by an administrator", async () => {
    await succeed("admin", "POST", "/api/apps", { name: "web", image: "bb:1", ...mount });
    expect((await send("admin", "PATCH", "/api/apps/web", { env })).statusCode).toBe(409);
  });
});

describe("an app that shares a Secret with an app that has a mount", () => {
  const env = { PASSWORD: { secret: "shared" } };
  beforeEach(async () => {
    await succeed("admin", "POST", "/api/secrets", { name: "shared", data: { value: "s" } });
    await succeed("admin", "POST", "/api/apps", { name: "open", image: "bb:1", env });
    await succeed("admin", "POST", "/api/apps", { name: "db", image: "bb:1", env, ...mount });
  });

  it.each([{ command: ["printenv"] }, { image: "evil:1" }, { env: { X: "1" } }])(
    "cannot be changed by a token of scope write, which sends %o",
    async (patch) => {
      const response = await send("write", "PATCH", "/api/apps/open", patch);
      expect(response.statusCode).toBe(403);
      expect(readErrorBody(response)).toContain('secret "shared" belongs to app "db"');
    },
  );

  it("can be scaled by a token of scope write, and changed by it if the same change removes the Secret", async () => {
    await succeed("write", "PATCH", "/api/apps/open", { replicas: 2 });
    await succeed("write", "PATCH", "/api/apps/open", { env: null, image: "other:1" });
    expect(api.store.get("App", "open")?.spec).toEqual({ image: "other:1", replicas: 2 });
  });
});

const spec = (app: object) => ({ ...webTemplate.spec, app });

describe("a template that a token of scope write has created", () => {
  it("creates no app that uses a Secret of an app with a mount, even for an administrator", async () => {
    await succeed("admin", "POST", "/api/secrets", { name: "db", data: { value: "s" } });
    const db = { name: "db", image: "bb:1", env: { PASSWORD: { secret: "db" } }, ...mount };
    await succeed("admin", "POST", "/api/apps", db);
    const trap = spec({ image: "bb:1", command: ["printenv"], env: { X: { secret: "db" } } });
    await succeed("write", "POST", "/api/apply", manifest("Template", "trap", trap));
    const payload = { template_id: "trap", name: "thief" };
    const response = await send("admin", "POST", "/api/apps/from-template", payload);
    expect(response.statusCode).toBe(403);
    expect(readErrorBody(response)).toContain('write the template "trap"');
    expect(api.store.get("App", "thief")).toBeUndefined();
    await succeed("admin", "POST", "/api/apply", manifest("Template", "trap", trap));
    await succeed("admin", "POST", "/api/apps/from-template", payload);
  });

  it("prevents a mount on the app that an administrator creates from it, until the administrator sets the fields", async () => {
    const trap = spec({ image: "bb:1", command: ["evil"] });
    await succeed("write", "POST", "/api/apply", manifest("Template", "trap", trap));
    await succeed("admin", "POST", "/api/apps/from-template", { template_id: "trap", name: "web" });
    const response = await send("admin", "PATCH", "/api/apps/web", mount);
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("spec.command (set by token:test-write)");
    const confirmed = { image: "bb:1", command: ["evil"], ...mount };
    await succeed("admin", "PATCH", "/api/apps/web", confirmed);
  });

  it("does not replace a template of the catalog", async () => {
    const trap = manifest("Template", "built-in", spec({ image: "evil:1" }));
    const response = await send("write", "POST", "/api/apply", trap);
    expect(response.statusCode).toBe(403);
    expect(readErrorBody(response)).toContain('replacing the template "built-in"');
    await succeed("admin", "POST", "/api/apply", trap);
    const changed = manifest("Template", "built-in", spec({ image: "evil:2" }));
    expect((await send("write", "POST", "/api/apply", changed)).statusCode).toBe(403);
  });
});

describe("an app with a mount that a file declares", () => {
  beforeEach(() => {
    applyFile("admin", { image: "bb:1", ...mount });
  });

  it("is not deleted by a token of scope write, with force or through a prune", async () => {
    for (const url of ["/api/apps/web?force=true", "/api/resources/apps/web?force=true"]) {
      const response = await send("write", "DELETE", url);
      expect(response.statusCode).toBe(403);
      expect(readErrorBody(response)).toContain("so only the scope admin may delete it");
    }
    const pendingPrune = [{ kind: "App" as const, name: "web", file: "web.yaml" }];
    api.control.specsReport = { ...api.control.specsReport, pendingPrune };
    expect((await send("write", "POST", "/api/specs/prune", { confirm: true })).statusCode).toBe(
      403,
    );
    await succeed("admin", "POST", "/api/specs/prune", { confirm: true });
    await succeed("admin", "DELETE", "/api/apps/web?force=true");
  });
});
