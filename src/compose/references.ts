import { childrenOf } from "./findings.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, entriesOf, type Scalar, valueAt } from "./tree.ts";

/** Variables that hold hosts, and not users or names of databases. */
const hostVariable =
  /HOST|SERVER|ADDR|URL|URI|ENDPOINT|UPSTREAM|BROKER|BACKEND|PROXY|NODES?|PEERS?|DSN|REDIS|DBHOST/i;

/**
 * Host names in variables and commands that lead nowhere any more: they stay as they are written, and
 * are reported. A word that might as well be a user's name or a database's is a note.
 */
export function reportReferences(scope: ServiceScope, scopes: readonly ServiceScope[]): void {
  const apps = new Set(scopes.map(({ app }) => app));
  const places = textsOf(scope);
  for (const other of scopes) {
    if (other === scope) continue;
    for (const host of otherNames(other).filter((name) => !apps.has(name))) {
      for (const { name, text, node } of places) {
        const how = namesHost(text, host);
        if (how === undefined) continue;
        const isSure = how === "address" || hostVariable.test(name);
        // Names of containers are often those of users and databases, too.
        if (!isSure && host !== other.service) continue;
        scope.mention(
          isSure ? "lost" : "note",
          node,
          isSure
            ? `${name} names the host "${host}", which is called "${other.app}" now`
            : `${name} holds the word "${host}"; if the host is meant, it is called "${other.app}" now`,
          `write ${other.app} in place of ${host}`,
        );
      }
    }
  }
}

interface NamedText {
  readonly name: string;
  readonly text: string;
  readonly node: ComposeNode;
}

function textsOf(scope: ServiceScope): NamedText[] {
  const variables = [...scope.env.values()].map(({ name, value, node }) => ({
    name,
    text: value,
    node,
  }));
  const words = ["command", "entrypoint", "healthcheck"].flatMap((name) =>
    scalarsOf(scope.get(name)).map((node) => ({ name, text: node.text, node })),
  );
  return [...variables, ...words];
}

function scalarsOf(node: ComposeNode | undefined): Scalar[] {
  if (!node) return [];
  return node.kind === "scalar" ? [node] : childrenOf(node).flatMap(scalarsOf);
}

/**
 * How a text names a host, as a whole word: as part of an address (`//db`, `user@db`, `db:5432`), or as
 * a word that may mean something else. `db` is in neither `db-2` nor `mydb`.
 */
export function namesHost(text: string, host: string): "address" | "word" | undefined {
  let found: "word" | undefined;
  for (let at = text.indexOf(host); at !== -1; at = text.indexOf(host, at + 1)) {
    const before = text.slice(0, at);
    const after = text.slice(at + host.length);
    if (/[A-Za-z0-9_.-]$/.test(before) || /^([A-Za-z0-9_-]|\.[A-Za-z0-9])/.test(after)) continue;
    if (/(\/\/|@)$/.test(before) || /^:\d/.test(after)) return "address";
    found = "word";
  }
  return found;
}

/** Names other than the app's own by which files may call it: they lead nowhere under Berth. */
function otherNames({ service, app, body }: ServiceScope): string[] {
  const texts = [valueAt(body, "container_name"), valueAt(body, "hostname")].flatMap((node) =>
    node?.kind === "scalar" ? [node.text] : [],
  );
  const aliases = entriesOf(valueAt(body, "networks")).flatMap(({ value }) => {
    const list = valueAt(value, "aliases");
    return (list?.kind === "list" ? list.items : []).flatMap((item) =>
      item.kind === "scalar" ? [item.text] : [],
    );
  });
  return [...new Set([service, ...texts, ...aliases])].filter(
    (name) => name !== app && name !== "",
  );
}
