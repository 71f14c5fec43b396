import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { API_VERSION } from "../../../src/resources/kinds.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

const post = (url: string, payload: object) => api.request({ method: "POST", url, payload });
const patch = (name: string, payload: object) =>
  api.request({ method: "PATCH", url: `/api/apps/${name}`, payload });
const manifest = (name: string, spec: object) => ({
  apiVersion: API_VERSION,
  kind: "App",
  metadata: { name },
  spec,
});
const apply = (...manifests: object[]) => post("/api/apply", { manifests });

describe("a folder of the server", () => {
  const source = { local: "/etc" };

  it("cannot be named by a caller of the API", async () => {
    putApp(api.store, "web");
    for (const response of [
      await post("/api/apps", { name: "a", port: 80, source }),
      await patch("web", { image: null, source }),
      await apply(manifest("a", { port: 80, source })),
      await apply(manifest("web", { port: 80, source })),
    ]) {
      expect(response.statusCode).toBe(400);
      expect(readErrorBody(response)).toBe(
        "source.local: a folder of the server can only be named by a file in its specs folder. Upload the folder: berth deploy DIR.",
      );
    }
    expect(api.store.get("App", "a")).toBeUndefined();
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:1");
  });

  it("that a spec file sets as `source.local` may be repeated or removed by an API request, but not replaced by another folder", async () => {
    putApp(api.store, "web", { port: 80, source: { local: "/srv/web" } }, "file:web.yaml");
    expect((await patch("web", { replicas: 2, source: { local: "/srv/web" } })).statusCode).toBe(
      202,
    );
    expect((await patch("web", { source: { local: "/srv/other" } })).statusCode).toBe(400);
    const image = { image: "bb:1", source: null };
    expect(
      (await api.request({ method: "PATCH", url: "/api/apps/web?force=true", payload: image }))
        .statusCode,
    ).toBe(202);
  });
});

describe("a domain that is taken", () => {
  beforeEach(() => {
    putApp(api.store, "first", { image: "bb:1", port: 80, domain: "shop.example.org" });
    putApp(api.store, "second", { image: "bb:1", port: 80 });
  });

  it("is refused in every request, and the error names the app that has it", async () => {
    const domain = "shop.example.org";
    for (const response of [
      await post("/api/apps", { name: "new", image: "bb:1", port: 80, domain }),
      await patch("second", { domain }),
      await patch("second", { ingress: { domains: [domain] } }),
      await patch("second", { ingress: { redirects: [{ from: domain }] } }),
      await patch("second", { domain: "first.example.test", ingress: { domains: [domain] } }),
      await apply(manifest("new", { image: "bb:1", port: 80, domain })),
      await post("/api/apps/second/deploy?dry_run=true", { image: "bb:2" }).then(() =>
        api.request({
          method: "PATCH",
          url: "/api/apps/second?dry_run=true",
          payload: { domain },
        }),
      ),
    ]) {
      expect(response.statusCode).toBe(409);
      expect(readErrorBody(response)).toContain(
        'shop.example.org belongs to the app "first" already',
      );
    }
    expect(api.store.get("App", "second")?.spec.domain).toBeUndefined();
  });

  it("is refused if it is the domain of the API, but an app that already has it accepts other changes", async () => {
    const domain = "berth.example.org";
    await using other = await openTestApi({ apiDomain: domain });
    putApp(other.store, "had", { image: "bb:1", port: 80, domain });
    const create = (spec: object) =>
      other.request({
        method: "POST",
        url: "/api/apps",
        payload: { name: "new", image: "bb:1", port: 80, ...spec },
      });
    for (const spec of [
      { domain },
      { domain, ingress: { pathPrefix: "/x" } },
      { ingress: { domains: [domain] } },
      { ingress: { redirects: [{ from: domain }] } },
    ]) {
      const response = await create(spec);
      expect(response.statusCode).toBe(409);
      expect(readErrorBody(response)).toBe(
        "berth.example.org is the address of Berth's own API (the setting api_domain). Choose another domain for the app.",
      );
    }
    const change = { method: "PATCH", url: "/api/apps/had", payload: { replicas: 2 } } as const;
    expect((await other.request(change)).statusCode).toBe(202);
  });

  it("is refused even if it is only the default domain of another app", async () => {
    const response = await patch("first", { domain: "second.example.test" });
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain('"second"');
    const freed = await patch("first", { domain: null });
    expect(freed.statusCode).toBe(202);
    expect((await patch("second", { domain: "shop.example.org" })).statusCode).toBe(202);
  });

  it("can be shared by path, can move to another app in one apply, and does not block other changes", async () => {
    const shared = { domain: "shop.example.org", ingress: { pathPrefix: "/api" } };
    expect((await patch("second", shared)).statusCode).toBe(202);
    expect((await patch("second", { ingress: { pathPrefix: null } })).statusCode).toBe(409);

    const swapped = await apply(
      manifest("first", { image: "bb:1", port: 80, domain: "other.example.org" }),
      manifest("third", { image: "bb:1", port: 80, domain: "shop.example.org" }),
    );
    expect(swapped.statusCode).toBe(200);
    const both = await apply(
      manifest("x", { image: "bb:1", port: 80, domain: "x.example.org" }),
      manifest("y", { image: "bb:1", port: 80, domain: "x.example.org" }),
    );
    expect(both.statusCode).toBe(409);
    expect(api.store.get("App", "x")).toBeUndefined();

    putApp(api.store, "file", { image: "bb:1", port: 80, domain: "other.example.org" }, "file:f.y");
    expect((await patch("file", { ingress: { https: "off" } })).statusCode).toBe(202);
  });
});

describe("a port of Berth itself", () => {
  const api7776 = { port: 7776, address: "127.0.0.1", owner: "Berth's API (the setting listen)" };
  const ingress80 = {
    port: 80,
    address: undefined,
    owner: "Berth's ingress (the setting http_port)",
  };
  let own: TestApi;
  beforeEach(async () => {
    own = await openTestApi({ reservedPorts: [api7776, ingress80] });
  });
  afterEach(() => own[Symbol.asyncDispose]());
  const create = (...ports: object[]) =>
    own.request({
      method: "POST",
      url: "/api/apps?dry_run=true",
      payload: { name: "new", image: "bb:1", ports },
    });

  it("cannot be published by an app; the error names the part of Berth, its setting and the field", async () => {
    const port = { host: 7776, container: 80 };
    const manifests = [
      manifest("free", { image: "bb:1" }),
      manifest("new", { image: "bb:1", ports: [port] }),
    ];
    for (const response of [
      await create(port),
      await create({ host: 9000, container: 80 }, port),
      await create({ ...port, address: "0.0.0.0" }),
      await create({ ...port, address: "127.0.0.1", protocol: "tcp" }),
      await own.request({ method: "POST", url: "/api/apply", payload: { manifests } }),
    ]) {
      expect(response.statusCode).toBe(409);
      expect(readErrorBody(response)).toMatch(
        /^port 7776 of the machine belongs to Berth's API \(the setting listen\)\. Choose another port for spec\.ports\[[01]\]\.host\.$/,
      );
    }
    expect(own.store.list("App")).toEqual([]);
    const http = await create({ host: 80, container: 80, address: "192.0.2.7" });
    expect(readErrorBody(http)).toContain("http_port");
  });

  it("may be published for another protocol or on another address than that of Berth", async () => {
    for (const port of [
      { host: 7776, container: 80, protocol: "udp" },
      { host: 7776, container: 80, address: "192.0.2.7" },
      { host: 7777, container: 7776 },
    ])
      expect((await create(port)).statusCode).toBe(200);
  });

  it("does not block other changes of an app that already has it", async () => {
    putApp(own.store, "had", { image: "bb:1", ports: [{ host: 80, container: 80 }] });
    const send = (payload: object) =>
      own.request({ method: "PATCH", url: "/api/apps/had", payload });
    expect((await send({ image: "bb:2" })).statusCode).toBe(202);
    const more = [
      { host: 80, container: 80 },
      { host: 7776, container: 81 },
    ];
    expect((await send({ ports: more })).statusCode).toBe(409);
  });
});

const imported = (name: string, project: string, image: string) => ({
  ...manifest(name, { image }),
  metadata: { name, annotations: { "berth.dev/origin": `import:${project}` } },
});

const force = (...manifests: object[]) => post("/api/apply?force=true", { manifests });

describe("an app that an import or a template made", () => {
  it("is replaced by another import only with force, and only by a request that contains no other app", async () => {
    expect(
      (await apply(imported("db", "blog", "mysql:8"), imported("web", "blog", "w:1"))).statusCode,
    ).toBe(200);
    const others = [imported("db", "shop", "postgres:17"), imported("web", "shop", "w:2")];
    for (const response of [await apply(...others), await force(...others)]) {
      expect(response.statusCode).toBe(409);
      expect(readErrorBody(response)).toContain(
        "App db was made by the import of the project blog",
      );
    }
    expect(api.store.get("App", "web")?.spec.image).toBe("w:1");
    expect((await force(imported("db", "shop", "postgres:17"))).statusCode).toBe(200);
    expect(api.store.get("App", "db")?.spec.image).toBe("postgres:17");
  });

  it("is not replaced by the import of another file whose project has the same name", async () => {
    await apply(imported("wiki-db", "wiki@0123456789ab", "mysql:8"));
    const other = imported("wiki-db", "wiki@ba9876543210", "postgres:17");
    const response = await apply(other);
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain(
      "App wiki-db was made by the import of another file, whose project is called wiki too",
    );
    expect(response.body).toContain("--stack NAME");
    expect(api.store.get("App", "wiki-db")?.spec.image).toBe("mysql:8");
    expect((await apply(imported("wiki-db", "wiki@0123456789ab", "mysql:9"))).statusCode).toBe(200);
  });

  it("cannot be created again; the error names the import or template, and force replaces the app", async () => {
    await apply(imported("db", "blog", "mysql:8"));
    const refused = await post("/api/apps", { name: "db", image: "other:1" });
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain(
      "App db exists already: it was made by the import of the project blog",
    );
    const forced = await post("/api/apps?force=true", { name: "db", image: "other:1" });
    expect(forced.statusCode).toBe(202);
    expect(api.store.get("App", "db")?.spec).toEqual({ image: "other:1" });
    expect(api.store.get("App", "db")?.metadata.annotations).toEqual({});
  });
});
