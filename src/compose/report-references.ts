import {
  type ComposeNode,
  collectScalars,
  getValue,
  listEntries,
  listScalars,
} from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Variables that hold hosts, and not users or names of databases. */
const hostVariablePattern =
  /HOST|SERVER|ADDR|URL|URI|ENDPOINT|UPSTREAM|BROKER|BACKEND|PROXY|NODES?|PEERS?|DSN|REDIS|DBHOST/i;

/**
 * Host names in variables and commands that lead nowhere any more: they stay as they are written, and
 * are reported. A word that might as well be a user's name or a database's is a note.
 */
export function reportReferences(
  conversion: ServiceConversion,
  conversions: readonly ServiceConversion[],
): void {
  const apps = new Set(conversions.map(({ app }) => app));
  const places = collectNamedTexts(conversion);
  for (const other of conversions) {
    if (other === conversion) continue;
    for (const host of listOtherNames(other).filter((name) => !apps.has(name))) {
      for (const { name, text, node } of places) {
        const how = findHostReference(text, host);
        if (how === undefined) continue;
        const isSure = how === "address" || hostVariablePattern.test(name);
        // Names of containers are often those of users and databases, too.
        if (!isSure && host !== other.service) continue;
        conversion.addUnhandledFinding(
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

function collectNamedTexts(conversion: ServiceConversion): NamedText[] {
  const variables = [...conversion.env.values()].map(({ name, value, node }) => ({
    name,
    text: value,
    node,
  }));
  const words = ["command", "entrypoint", "healthcheck"].flatMap((name) =>
    collectScalars(conversion.getNode(name)).map((node) => ({ name, text: node.text, node })),
  );
  return [...variables, ...words];
}


/**
 * How a text names a host, as a whole word: as part of an address (`//db`, `user@db`, `db:5432`), or as
 * a word that may mean something else. `db` is in neither `db-2` nor `mydb`.
 */
export function findHostReference(text: string, host: string): "address" | "word" | undefined {
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
function listOtherNames({ service, app, body }: ServiceConversion): string[] {
  const written = [
    getValue(body, "container_name"),
    getValue(body, "hostname"),
    ...listEntries(getValue(body, "networks")).map(({ value }) => getValue(value, "aliases")),
  ].flatMap((node) => listScalars(node).map(({ text }) => text));
  return [...new Set([service, ...written])].filter((name) => name !== app && name !== "");
}
