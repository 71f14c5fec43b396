/** Ports on which programs usually serve HTTP. A published port counts as the HTTP port only if it is one of them. */
const usualWebPorts: ReadonlySet<number> = new Set([
  80, 81, 1337, 1880, 2368, 3000, 3001, 3002, 3003, 3010, 3030, 4000, 4200, 4321, 5000, 5001, 5055,
  5080, 5173, 5555, 5601, 5678, 7860, 8000, 8001, 8002, 8008, 8010, 8025, 8055, 8065, 8069, 8080,
  8081, 8082, 8083, 8084, 8085, 8086, 8087, 8088, 8089, 8090, 8091, 8096, 8123, 8180, 8181, 8200,
  8282, 8384, 8501, 8787, 8888, 8889, 8989, 9090, 9091, 9998, 15_672, 32_400,
]);

/** Ports of databases, queues, mail, shells, debuggers, games and voice: they never serve a web page. */
const otherPorts: ReadonlySet<number> = new Set([
  21, 22, 25, 53, 110, 111, 123, 139, 143, 161, 389, 445, 465, 514, 548, 587, 636, 853, 873, 993,
  995, 1025, 1194, 1433, 1514, 1521, 1883, 1935, 2049, 2181, 2222, 2375, 2376, 2456, 2525, 3306,
  3389, 3478, 4222, 4369, 5005, 5044, 5060, 5061, 5222, 5269, 5349, 5353, 5432, 5433, 5671, 5672,
  6222, 6379, 6380, 6667, 6697, 7687, 8554, 8883, 9042, 9092, 9229, 9300, 9987, 10_011, 11_211,
  19_132, 22_000, 25_565, 25_575, 25_672, 26_257, 27_015, 27_017, 28_015, 30_033, 33_060, 50_051,
  51_820, 64_738,
]);

const httpsPorts: ReadonlySet<number> = new Set([443, 8443, 9443]);

/** The web ports of well-known images, by the last part of their names. */
const imagePorts: Readonly<Record<string, number>> = {
  "actual-server": 5006,
  adminer: 8080,
  audiobookshelf: 80,
  bazarr: 6767,
  caddy: 80,
  "calibre-web": 8083,
  "changedetection.io": 5000,
  "community-edition": 8000,
  directus: 8055,
  drupal: 80,
  forgejo: 3000,
  freshrss: 80,
  ghost: 2368,
  ghostfolio: 3333,
  gitea: 3000,
  gotenberg: 3000,
  grafana: 3000,
  guacamole: 8080,
  "home-assistant": 8123,
  httpd: 80,
  "immich-server": 2283,
  jellyfin: 8096,
  jellyseerr: 5055,
  jenkins: 8080,
  joomla: 80,
  keycloak: 8080,
  kibana: 5601,
  lidarr: 8686,
  linkding: 9090,
  mailhog: 8025,
  mailpit: 8025,
  matomo: 80,
  mattermost: 8065,
  mealie: 9000,
  mediawiki: 80,
  metabase: 3000,
  miniflux: 8080,
  "mongo-express": 8081,
  n8n: 5678,
  navidrome: 4533,
  nextcloud: 80,
  nginx: 80,
  nocodb: 8080,
  "node-red": 1880,
  "open-webui": 8080,
  openrefine: 3333,
  overseerr: 5055,
  "paperless-ngx": 8000,
  pgadmin4: 80,
  photoprism: 2342,
  phpmyadmin: 80,
  "pms-docker": 32_400,
  "portainer-ce": 9000,
  prometheus: 9090,
  prowlarr: 9696,
  radarr: 7878,
  "redis-commander": 8081,
  redmine: 3000,
  registry: 5000,
  rabbitmq: 15_672,
  sonarqube: 9000,
  sonarr: 8989,
  "stirling-pdf": 8080,
  "swagger-ui": 8080,
  syncthing: 8384,
  tautulli: 8181,
  transmission: 9091,
  umami: 3000,
  "uptime-kuma": 3001,
  vaultwarden: 80,
  vikunja: 3456,
  wallabag: 80,
  whoami: 80,
  wiki: 3000,
  wordpress: 80,
};

/** Full names of images whose last part alone does not identify them. */
const fullNames: Readonly<Record<string, number | undefined>> = {
  "goauthentik/server": 9000,
  "vaultwarden/server": 80,
};

/**
 * Databases, queues, collectors and VPNs, by the last part of their images' names. The numbers of their ports, or the
 * URLs of their health checks, look like those of a web app.
 */
const imagesWithoutWeb: ReadonlySet<string> = new Set([
  "arangodb",
  "chroma",
  "clickhouse",
  "clickhouse-server",
  "cockroach",
  "couchdb",
  "cp-schema-registry",
  "dgraph",
  "dynamodb-local",
  "elasticsearch",
  "emqx",
  "gluetun",
  "go-ipfs",
  "influxdb",
  "kubo",
  "logstash",
  "loki",
  "milvus",
  "neo4j",
  "opensearch",
  "opentelemetry-collector",
  "opentelemetry-collector-contrib",
  "pulsar",
  "qdrant",
  "redpanda",
  "rethinkdb",
  "rtpengine",
  "solr",
  "surrealdb",
  "unifi-network-application",
  "weaviate",
  "zookeeper",
]);

/**
 * Matches the names of services and images that run a mining pool, the node of a chain or a log for certificates. Their
 * ports speak Stratum, JSON-RPC or gRPC, on numbers that are also usual for HTTP.
 */
const programsWithoutWeb =
  /(?:^|[^a-z0-9])(?:ckpool|p2pool|stratum|bitcoind|litecoind|dogecoind|monerod|geth|lnd|trillian|log-server|log-signer)(?:[^a-z0-9]|$)/;
/** Matches the names of programs that show the data of another program in web pages. */
const webPrograms =
  /(?:^|[^a-z0-9])(?:ui|gui|web|dashboard|frontend|explorer|stats)(?:[^a-z0-9]|$)/;

/** True for a program whose ports get a domain only if a label routes to them or the user makes the service public. */
export function isProgramWithoutWeb(image: string | undefined, service: string): boolean {
  if (imagesWithoutWeb.has(parseImageName(image).last)) return true;
  const repository = (image ?? "").replace(/@.*$/, "").replace(/:[^/]*$/, "");
  return [repository, service]
    .map((name) => name.toLowerCase().replaceAll("_", "-"))
    .some((name) => programsWithoutWeb.test(name) && !webPrograms.test(name));
}

/** Images that only give their network to other containers: VPNs, and the containers that hold a network open. */
const networkImages: ReadonlySet<string> = new Set([
  "gluetun",
  "nordlynx",
  "nordvpn",
  "openvpn-client",
  "openvpn-client-docker",
  "pause",
  "protonwire",
  "tailscale",
  "warp",
  "warp-docker",
  "wireguard",
]);

/** True for an image whose container serves no requests itself, and only gives its network to other containers. */
export function isNetworkImage(image: string | undefined): boolean {
  return networkImages.has(parseImageName(image).last);
}

export function isUsualWebPort(port: number): boolean {
  return usualWebPorts.has(port);
}

/**
 * Returns true if the port may serve HTTP: its number is valid, and it is not known as a port for HTTPS or another
 * protocol.
 */
export function canBeWebPort(port: number): boolean {
  return port >= 1 && port <= 65_535 && !otherPorts.has(port) && !httpsPorts.has(port);
}

/**
 * Returns the port on which a well-known image serves HTTP; undefined for any other image, and for variants with
 * PHP-FPM, which need a web server in front of them.
 */
export function getImageWebPort(image: string | undefined): number | undefined {
  const { owner, last, tag } = parseImageName(image);
  if (/(?:^|-)fpm(?:-|$)/.test(tag)) return undefined;
  const owned = `${owner}/${last}`;
  if (Object.hasOwn(fullNames, owned)) return fullNames[owned];
  return Object.hasOwn(imagePorts, last) ? imagePorts[last] : undefined;
}

function parseImageName(image = ""): { owner: string; last: string; tag: string } {
  const parts = image.replace(/@.*$/, "").split("/");
  const [last = "", tag = ""] = (parts.pop() ?? "").toLowerCase().split(":");
  return { owner: parts.pop() ?? "", last, tag };
}
