import {
  type ComposeNode,
  collectScalars,
  type Entry,
  getValue,
  listEntries,
} from "./compose-tree.ts";
import { asMapping } from "./merge-services.ts";

/** The maximum length of a command that is searched for ports. Commands that people write are shorter. */
const COMMAND_LENGTH_MAX = 4096;

const ownHost = "(?:localhost|127\\.0\\.0\\.1|0\\.0\\.0\\.0|\\[::1?\\])";
const urlPattern = new RegExp(`\\bhttp://${ownHost}((?::\\d{1,5})?)(?![\\w.:-])`);
/** Matches the address in a command of curl or wget, which also read an address without a scheme as a URL. */
const curlPattern = new RegExp(`\\b(?:curl|wget)\\b.*?[\\s"']${ownHost}(:\\d{1,5})(?!\\d)`);

/** Returns the port in the URL that the health check of a service requests; undefined if there is none. */
export function findHealthCheckPort(service: ComposeNode): number | undefined {
  const text = joinWords(getValue(getValue(service, "healthcheck"), "test"));
  const [, port] = urlPattern.exec(text) ?? curlPattern.exec(text) ?? [];
  if (port === undefined) return undefined;
  return port === "" ? 80 : Number(port.slice(1));
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
