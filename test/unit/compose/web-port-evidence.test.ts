import { expect, test } from "vitest";
import { collectSpecs, importTexts } from "./compose-fixtures.ts";

/** Imports services, and returns the port, the domain and the published ports of each. */
function importServices(services: string, env = "") {
  const result = importTexts({ "compose.yaml": `services:\n${services}\n`, ".env": env });
  return {
    ...result,
    specs: collectSpecs(result),
    ports: Object.fromEntries(
      result.apps.map(({ service, manifest: { spec } }) => [
        service,
        [spec.port, spec.domain ?? "default", ...(spec.ports ?? []).map(({ host }) => host)],
      ]),
    ),
  };
}

test("a port that the engine would choose on the machine is the port of the app, and private", () => {
  const { ports, findings, likelyPublic } = importServices(`
  web: { image: "example/web:1", ports: ["3000"] }
  game: { image: "example/game:1", ports: ["27015/udp", "7777"] }
  many: { image: "example/many:1", ports: ["7001", "7002"] }`);
  expect(ports).toEqual({
    web: [3000, "none"],
    game: [7777, "none"],
    many: [undefined, "default"],
  });
  expect(likelyPublic).toBe("web");
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "changed",
      service: "web",
      message:
        "3000 is the port of the app, because of its number, which is usual for HTTP: without a fixed port of the machine it is private",
      hint: "--public web gives the app a domain",
    }),
  );
});

test("a published port without evidence for HTTP stays a port of the machine", () => {
  const { ports } = importServices('  game: { image: "example/game:1", ports: ["7777:7777"] }');
  expect(ports).toEqual({ game: [undefined, "default", 7777] });
});

test("the known port of an image is the port of a private app that declares none", () => {
  const { ports } = importServices(`
  kuma: { image: "louislam/uptime-kuma:2" }
  cached: { image: "registry.example.org/mirror/n8n:2" }
  site: { image: "docker.io/nginx:1" }
  own: { image: "example/nginx:1" }
  files: { image: "wordpress:6-fpm" }
  moved: { image: "grafana/grafana:12", expose: ["4321"] }`);
  expect(ports).toEqual({
    kuma: [3001, "none"],
    cached: [5678, "none"],
    site: [80, "none"],
    own: [undefined, "default"],
    files: [undefined, "default"],
    moved: [4321, "none"],
  });
});

test("only the service that runs the image's own command has the image's port", () => {
  const { ports } = importServices(`
  n8n: { image: "n8nio/n8n:2" }
  worker: { image: "n8nio/n8n:2", command: worker }
  first: { image: "metabase/metabase:1" }
  second: { image: "metabase/metabase:2" }`);
  expect(ports).toMatchObject({
    n8n: [5678, "none"],
    worker: [undefined, "default"],
    first: [undefined, "default"],
    second: [undefined, "default"],
  });
});

test.each([
  ["HTTP_PORT: 8169", 8169],
  ["CHAT_PORT: 6167", 6167],
  ["HTTP_LISTEN: ':23232'", 23_232],
  ["BIND: 0.0.0.0:8923", 8923],
  ["DB_PORT: 7000", undefined],
  ["APP_PORT: 7000", undefined],
  ["GRPC_PORT: 7000", undefined],
])("the variable %s of a service gives the port %s", (variable, port) => {
  const { specs } = importServices(
    `  chat: { image: "example/chat-server:1", environment: { ${variable} } }`,
  );
  expect(specs["chat"]?.port).toBe(port);
});

test("a variable that several services share is no evidence, but PORT is for those that are no workers", () => {
  const { ports } = importServices(`
  web: { image: "example/web:1", environment: { PORT: 3000, HTTP_PORT: 9020 } }
  worker: { image: "example/web:1", environment: { PORT: 3000, HTTP_PORT: 9020 }, command: work }`);
  expect(ports).toEqual({ web: [3000, "none"], worker: [undefined, "default"] });
});

test.each([
  ['"curl -f http://chat:8581/"', 8581],
  ['["CMD", "wait-for-it", "0.0.0.0:8080"]', 8080],
  ['["CMD", "nc", "-z", "localhost", "3000"]', 3000],
  ['["CMD", "nc", "-z", "localhost", "7001"]', undefined],
])("the health check %s gives the port %s", (check, port) => {
  const { specs } = importServices(
    `  chat: { image: "example/chat:1", healthcheck: { test: ${check} } }`,
  );
  expect(specs["chat"]?.port).toBe(port);
});

test("a URL with which another service calls a service gives its port, under each of its names", () => {
  const { ports } = importServices(`
  api: { image: "example/api:1" }
  store: { image: "example/store:1", container_name: files, expose: ["7100", "7200"] }
  two: { image: "example/two:1" }
  db: { image: "postgres:17" }
  web:
    image: example/web:1
    environment:
      API: http://api:7849/v1
      FILES: http://files:7200
      TWO: http://two:7001,http://two:7002
      DB: http://db:5432
      OTHER: https://api:8443`);
  expect(ports).toEqual({
    api: [7849, "none"],
    store: [7200, "none"],
    two: [undefined, "default"],
    db: [undefined, "default"],
    web: [undefined, "default"],
  });
});

test("a variable of Coolify's catalog makes a service public, and names its port", () => {
  const { apps, ports, findings } = importServices(`
  app:
    image: example/app:1
    environment: [SERVICE_URL_API_7000, SERVICE_FQDN_APP_8181, "URL=\${SERVICE_URL_APP}"]
  known: { image: "ghost:5", environment: { SERVICE_URL_BLOG: "/blog" } }
  inside: { image: "example/inside:1", environment: ["APP=\${SERVICE_URL_APP}"], expose: ["8080"] }`);
  expect(ports).toEqual({
    app: [8181, "default"],
    known: [2368, "default"],
    inside: [8080, "none"],
  });
  expect(apps[0]?.publicPlaces).toMatchObject([
    {
      url: "http://project-app.<base domain>",
      why: "the variable SERVICE_FQDN_APP_8181 routes it",
      web: { port: 8181, evidence: "the variable SERVICE_FQDN_APP_8181" },
    },
  ]);
  const lost = findings.flatMap(({ level, message }) => (level === "lost" ? [message] : []));
  expect(lost).toContain(
    "an app has only one port, and already has 8181: SERVICE_URL_API_7000 is omitted",
  );
  expect(lost).toContain("the path /blog is omitted: the app has a domain of its own");
});

test.each([
  ["worker", "web", '{ image: "x:1", expose: ["8080"] }', '{ image: "x:2", expose: ["8080"] }'],
  [
    "db",
    "app",
    '{ image: "qdrant/qdrant:1" }',
    '{ image: "x:1", expose: ["8080"], depends_on: [db] }',
  ],
  ["api", "project", '{ image: "x:1", expose: ["8080"] }', '{ image: "y:1", expose: ["8080"] }'],
  [
    "first",
    "second",
    '{ image: "x:1", environment: { PORT: 1 } }',
    '{ image: "y:1", expose: ["8080"] }',
  ],
])("of %s and %s, which are both private, the second is the likely one", (a, b, first, second) => {
  const { likelyPublic } = importServices(`  ${a}: ${first}\n  ${b}: ${second}`);
  expect(likelyPublic).toBe(b);
});
