import { getRepository, parseImageName } from "./image-ports.ts";

/** Ports on which programs usually serve HTTP. A published port counts as the HTTP port only if it is one of them. */
const usualWebPorts: ReadonlySet<number> = new Set([
  80, 81, 1337, 1880, 2368, 3000, 3001, 3002, 3003, 3010, 3030, 4000, 4200, 4321, 5000, 5001, 5055,
  5080, 5173, 5555, 5601, 5678, 7860, 8000, 8001, 8002, 8008, 8010, 8025, 8055, 8065, 8069, 8080,
  8081, 8082, 8083, 8084, 8085, 8086, 8087, 8088, 8089, 8090, 8091, 8096, 8123, 8180, 8181, 8200,
  8282, 8384, 8501, 8787, 8888, 8889, 8989, 9090, 9091, 9998, 15_672, 32_400,
]);

/** Ports of databases, queues, mail, shells, debuggers, games and voice: they never serve a web page. */
const otherPorts: ReadonlySet<number> = new Set([
  21, 22, 25, 53, 67, 68, 110, 111, 123, 139, 143, 161, 389, 445, 465, 514, 548, 587, 636, 853, 873,
  993, 995, 1025, 1194, 1433, 1514, 1521, 1883, 1935, 2049, 2181, 2222, 2375, 2376, 2456, 2525,
  3306, 3389, 3478, 4222, 4369, 5005, 5044, 5060, 5061, 5222, 5269, 5349, 5353, 5432, 5433, 5671,
  5672, 6222, 6379, 6380, 6667, 6697, 7687, 8554, 8883, 9042, 9092, 9229, 9300, 9987, 10_011,
  11_211, 19_132, 22_000, 25_565, 25_575, 25_672, 26_257, 27_015, 27_017, 28_015, 30_033, 33_060,
  50_051, 51_820, 64_738,
]);

const httpsPorts: ReadonlySet<number> = new Set([443, 8443, 9443]);

/**
 * Databases, queues, collectors and VPNs, by the last part of their images' names. The numbers of their ports, or the
 * URLs of their health checks, look like those of a web app. Some have an HTTP API, which is for other programs.
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

/** True for a program that gets a domain only if a label or the user asks for one. */
export function isProgramWithoutWeb(image: string | undefined, service: string): boolean {
  if (imagesWithoutWeb.has(parseImageName(image).last)) return true;
  return [getRepository(image), service]
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
