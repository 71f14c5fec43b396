import {
  type ComposeNode,
  collectScalars,
  type Entry,
  getValue,
  listEntries,
} from "./compose-tree.ts";
import { asMapping } from "./merge-services.ts";
import { isUsualWebPort } from "./web-ports.ts";

/** The maximum length of a command that is searched for ports. Commands that people write are shorter. */
const COMMAND_LENGTH_MAX = 4096;

const localHosts = ["localhost", "127\\.0\\.0\\.1", "0\\.0\\.0\\.0", "\\[::1?\\]"];

/**
 * Returns the port in the URL that the health check of a service requests, or, if it only connects to a port, that port
 * if it is usual for HTTP; undefined if there is none. `name` is the service's own name, which it may use as the host.
 */
export function findHealthCheckPort(service: ComposeNode, name = "localhost"): number | undefined {
  const text = joinWords(getValue(getValue(service, "healthcheck"), "test"));
  const hosts = [...localHosts, name.replaceAll(/[^\w-]/g, "\\$&")].join("|");
  const url = new RegExp(`\\bhttp://(?:${hosts})((?::\\d{1,5})?)(?![\\w.:-])`);
  // curl and wget also read an address without a scheme as a URL.
  const address = new RegExp(`\\b(?:curl|wget)\\b.*?[\\s"'](?:${hosts})(:\\d{1,5})(?!\\d)`);
  const [, port] = url.exec(text) ?? address.exec(text) ?? [];
  if (port !== undefined) return port === "" ? 80 : Number(port.slice(1));
  const connected = Number(new RegExp(`(?:${hosts})[: /](\\d{1,5})(?!\\d)`).exec(text)?.[1] ?? 0);
  return isUsualWebPort(connected) ? connected : undefined;
}

/**
 * Lists the variables that set the port on which a service serves HTTP, such as `HTTP_PORT`, `WEBUI_PORT`, or
 * `GITEA_PORT` of the image gitea. `names` are the name of the service and of its image.
 */
export function listPortVariables(
  variables: Iterable<{ readonly name: string; readonly value: string }>,
  names: readonly string[],
): { name: string; port: number }[] {
  const own = names.flatMap((name) => {
    const plain = (name.split("/").at(-1) ?? "").replace(/[:@].*$/, "").toUpperCase();
    return [plain.replaceAll(/[^A-Z0-9]+/g, "_"), ...plain.split(/[^A-Z0-9]+/)];
  });
  const first = ["HTTP", "WEB", "WEBUI", "WEB_UI", "SERVER", ...new Set(own)]
    .filter((part) => part !== "")
    .join("|");
  const pattern = new RegExp(
    `^(?:(?:${first})_)?(?:(?:HTTP_|WEB_|SERVER_)?(?:PORT|LISTEN|LISTEN_PORT|LISTEN_ADDR|LISTEN_ADDRESS)|BIND)$`,
  );
  return [...variables].flatMap(({ name, value }) => {
    const port = pattern.test(name) ? /^(?:[\w.*[\]]*:)?(\d{1,5})$/.exec(value)?.[1] : undefined;
    return port === undefined ? [] : [{ name, port: Number(port) }];
  });
}

/** Matches names of options and variables that set the port of another protocol than HTTP. */
const protocolName = /grpc|(?<!t)rpc|stratum|p2p|gossip|mqtt|amqp/i;

/**
 * Lists the ports for which a service itself declares another protocol than HTTP: in a variable such as
 * `GRPC_PORT`, in an option such as `--rpc_endpoint=0.0.0.0:8090`, or in a health check with grpc_health_probe.
 */
export function listForeignPorts(service: ComposeNode): number[] {
  const found: number[] = [];
  const add = (text: string) => {
    const port = /(?:^|:)(\d{1,5})$/.exec(text.slice(-64))?.[1];
    if (port !== undefined) found.push(Number(port));
  };
  for (const { key, value } of listVariables(service)) {
    if (protocolName.test(key) && value.kind === "scalar") add(value.text);
  }
  for (const node of ["entrypoint", "command"].map((key) => getValue(service, key))) {
    const words = joinWords(node).split(/[\s=]+/);
    for (const [index, word] of words.entries()) {
      if (word.startsWith("-") && protocolName.test(word)) add(words[index + 1] ?? "");
    }
  }
  const test = joinWords(getValue(getValue(service, "healthcheck"), "test"));
  if (test.includes("grpc_health_probe")) for (const word of test.split(/[\s=]+/)) add(word);
  return found;
}

/** Lists the entries of `environment`; variables of env files are not included. */
export function listVariables(service: ComposeNode): readonly Entry[] {
  const environment = getValue(service, "environment");
  return environment === undefined ? [] : listEntries(asMapping(environment));
}

function joinWords(node: ComposeNode | undefined): string {
  return collectScalars(node)
    .map(({ text }) => text)
    .join(" ")
    .slice(0, COMMAND_LENGTH_MAX);
}
