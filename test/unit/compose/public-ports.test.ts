import { expect, test } from "vitest";
import { collectSpecs, importTexts } from "./compose-fixtures.ts";

function importServices(services: string) {
  const result = importTexts({ "compose.yaml": `services:\n${services}` });
  return {
    specs: collectSpecs(result),
    findings: result.findings,
    urls: Object.fromEntries(
      result.apps.map(({ service, publicPlaces }) => [
        service,
        publicPlaces.map(({ url, port }) => url ?? port),
      ]),
    ),
  };
}

test.each([
  [
    "the Stratum port of a mining pool",
    '  ckpool: { build: ., ports: ["3333:3333", "4000:4000"] }',
    ["3333/tcp", "4000/tcp"],
  ],
  [
    "a port that only its image's name gives to Stratum",
    '  pool: { image: "example/docker-ckpool:1", ports: ["8080:8080"] }',
    ["8080/tcp"],
  ],
  [
    "each of the gRPC and metrics ports of a Trillian server",
    `  trillian-log-server:
    build: { context: ../.. , dockerfile: log_server/Dockerfile }
    command: ["--rpc_endpoint=0.0.0.0:8090", "--http_endpoint=0.0.0.0:8091"]
    ports: ["8090:8090", "8091:8091"]`,
    ["8090/tcp", "8091/tcp"],
  ],
  [
    "a port that an option of the command gives to gRPC",
    '  app: { image: "a:1", command: "serve --grpc-address :8080", ports: ["8080:8080"] }',
    ["8080/tcp"],
  ],
  [
    "a port that a variable gives to Stratum",
    '  app: { image: "a:1", environment: [STRATUM_PORT=8081], ports: ["8081:8081"] }',
    ["8081/tcp"],
  ],
  [
    "a port that the health check asks over gRPC",
    '  app: { image: "a:1", healthcheck: { test: [CMD, grpc_health_probe, "-addr=:8082"] }, ports: ["8082:8082"] }',
    ["8082/tcp"],
  ],
])("%s stays a port of the machine, and gets no domain", (_name, services, ports) => {
  const { specs, urls } = importServices(`${services}\n`);
  expect(Object.values(urls)).toEqual([ports]);
  expect(Object.values(specs)[0]).not.toHaveProperty("port");
});

test("the API and the gateway of an IPFS node stay ports of the machine, and get no domain", () => {
  const { specs, urls } = importServices(
    '  ipfs: { image: "ipfs/kubo:v0.30", ports: ["5001:5001", "8080:8080"] }\n',
  );
  expect(urls).toEqual({ ipfs: ["5001/tcp", "8080/tcp"] });
  expect(specs["ipfs"]).toMatchObject({ port: 8080, domain: "none" });
});

test("an exposed port that the service gives to gRPC is not its HTTP port", () => {
  const { specs } = importServices(
    '  app: { image: "a:1", environment: { GRPC_PORT: 8080 }, expose: ["8080"] }\n',
  );
  expect(specs["app"]).not.toHaveProperty("port");
});

test("the web interface of a mining pool gets a domain, and a pool itself only if its label names a domain", () => {
  const { urls } = importServices(`  ckpool-ui: { image: "a:1", ports: ["8080:80"] }
  ckpool:
    image: ckpool:1
    labels: { caddy: pool.example.org, caddy.reverse_proxy: "{{upstreams 7000}}" }
`);
  expect(urls).toEqual({
    "ckpool-ui": ["http://project-ckpool-ui.<base domain>"],
    ckpool: ["https://pool.example.org"],
  });
});

const vpn = `  vpn:
    image: qmcgaw/gluetun:v3
    ports: ["8080:8080", "9696:9696", "6881:6881"]
    labels:
      - traefik.enable=true
      - traefik.http.routers.torrents.rule=Host(\`torrents.example.org\`)
      - traefik.http.routers.torrents.service=torrents
      - traefik.http.routers.torrents.middlewares=users
      - traefik.http.services.torrents.loadbalancer.server.port=8080
      - traefik.http.routers.prowlarr.rule=Host(\`index.example.org\`)
      - traefik.http.routers.prowlarr.middlewares=users
      - traefik.http.services.prowlarr.loadbalancer.server.port=9696
      - traefik.http.routers.other.rule=Host(\`other.example.org\`)
      - traefik.http.routers.other.service=other
      - traefik.http.services.other.loadbalancer.server.port=7777
      - traefik.http.middlewares.users.basicauth.users=a:b
  qbittorrent:
    image: lscr.io/linuxserver/qbittorrent:5
    network_mode: service:vpn
    environment: { WEBUI_PORT: 8080 }
  prowlarr:
    image: lscr.io/linuxserver/prowlarr:1
    network_mode: service:vpn
`;

test("labels and ports of a VPN container go to the service that serves them through its network", () => {
  const { specs, findings } = importServices(vpn);
  expect(specs["qbittorrent"]).toMatchObject({ port: 8080, domain: "torrents.example.org" });
  expect(specs["prowlarr"]).toMatchObject({ port: 9696, domain: "index.example.org" });
  expect(specs["vpn"]).not.toHaveProperty("port");
  expect(specs["vpn"]).not.toHaveProperty("domain");
  expect(specs["vpn"]?.ports).toEqual([{ host: 6881, container: 6881 }]);
  // The middleware limits access to both routes, so each app reports it.
  for (const service of ["qbittorrent", "prowlarr"]) {
    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "unsafe",
        service,
        message: expect.stringContaining("users of the middleware users are omitted"),
      }),
    );
    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "changed",
        service,
        message: `the labels of vpn route requests to ${service}, which shares the network of vpn: the app of ${service} gets this route`,
      }),
    );
  }
});

test("a route of a VPN container to a port that no service is known to serve causes a finding, and nothing becomes public", () => {
  const { findings, urls } = importServices(vpn);
  expect(JSON.stringify(urls)).not.toContain("other.example.org");
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "lost",
      service: "vpn",
      line: 14,
      message:
        "the route to port 7777 is omitted: one of the services that share the network of vpn serves it, and the file does not name it: qbittorrent, prowlarr",
    }),
  );
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "lost",
      service: "vpn",
      message:
        "port 6881 leads to vpn, and not to a service that shared its network: qbittorrent, prowlarr",
    }),
  );
});

test("labels of a service that uses another container's network route to that service", () => {
  const { specs } = importServices(`  vpn: { image: "gluetun:3", container_name: tunnel }
  app:
    image: example/app:1
    network_mode: container:tunnel
    labels: ["traefik.http.routers.a.rule=Host(\`a.example.org\`)", "traefik.http.services.a.loadbalancer.server.port=7000"]
`);
  expect(specs["app"]).toMatchObject({ port: 7000, domain: "a.example.org" });
  expect(specs["vpn"]).not.toHaveProperty("port");
});

test("a web app whose network a sidecar shares keeps its route, and a finding names the sidecar", () => {
  const { specs, findings } = importServices(`  app:
    image: example/app:1
    labels: ["traefik.http.routers.a.rule=Host(\`a.example.org\`)", "traefik.http.services.a.loadbalancer.server.port=7000"]
  exporter: { image: "example/exporter:1", network_mode: "service:app" }
`);
  expect(specs["app"]).toMatchObject({ port: 7000, domain: "a.example.org" });
  expect(specs["exporter"]).not.toHaveProperty("port");
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "changed",
      service: "app",
      message:
        "the route to port 7000 now leads to app, and not to a service that shared its network: exporter",
    }),
  );
});

test("hosts of a router that leads to a second port of a container do not become domains of the first port", () => {
  const { specs, findings } = importServices(`  store:
    image: example/store:1
    labels:
      traefik.http.routers.api.rule: Host(\`api.example.org\`)
      traefik.http.routers.api.service: api
      traefik.http.services.api.loadbalancer.server.port: 9000
      traefik.http.routers.console.rule: Host(\`console.example.org\`)
      traefik.http.routers.console.service: console
      traefik.http.services.console.loadbalancer.server.port: 9001
`);
  expect(specs["store"]).toMatchObject({ port: 9000, domain: "api.example.org" });
  expect(JSON.stringify(specs)).not.toContain("console.example.org");
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "lost",
      line: 8,
      message:
        "the router console leads to port 9001, and the app has only the port 9000: the hosts of this router are omitted",
    }),
  );
});
