import {
  type ComposeNode,
  collectScalars,
  getValue,
  listEntries,
  listScalars,
} from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Matches names of variables that usually contain hosts, rather than users or names of databases. */
const hostVariablePattern =
  /HOST|SERVER|ADDR|URL|URI|ENDPOINT|UPSTREAM|BROKER|BACKEND|PROXY|NODES?|PEERS?|DSN|REDIS|DBHOST/i;

/**
 * Reports host names in variables and commands that no longer resolve, without changing them. For a word that could
 * also be the name of a user or a database, the finding is only a note.
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
        // Container names are often also the names of users and databases. A value that names a container without an
        // address is therefore reported only if the name is also that of the service.
        if (!isSure && host !== other.service) continue;
        conversion.addUnhandledFinding(
          isSure ? "lost" : "note",
          node,
          isSure
            ? `${name} names the host "${host}", whose name is now "${other.app}"`
            : `${name} contains the word "${host}"; if it names the host, its name is now "${other.app}"`,
          `replace ${host} by ${other.app}`,
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
 * Finds a host name in a text, as a whole word. Returns `address` for a part of an address (`//db`, `user@db`,
 * `db:5432`), and `word` for a word that may mean something else. Neither `db-2` nor `mydb` contains `db`.
 */
export function findHostReference(text: string, host: string): "address" | "word" | undefined {
  let found: "word" | undefined;
  for (let at = text.indexOf(host); at !== -1; at = text.indexOf(host, at + 1)) {
    // Only the characters next to the name are examined. Searching the whole rest of the text for each
    // occurrence would take quadratic time.
    const before = text.slice(Math.max(0, at - 2), at);
    const after = text.slice(at + host.length, at + host.length + 2);
    if (/[A-Za-z0-9_.-]$/.test(before) || /^([A-Za-z0-9_-]|\.[A-Za-z0-9])/.test(after)) continue;
    if (/(\/\/|@)$/.test(before) || /^:\d/.test(after)) return "address";
    found = "word";
  }
  return found;
}

/** Lists the names of a service that do not resolve under Berth: all names except the app's own. */
function listOtherNames({ service, app, body }: ServiceConversion): string[] {
  const written = [
    getValue(body, "container_name"),
    getValue(body, "hostname"),
    ...listEntries(getValue(body, "networks")).map(({ value }) => getValue(value, "aliases")),
  ].flatMap((node) => listScalars(node).map(({ text }) => text));
  return [...new Set([service, ...written])].filter((name) => name !== app && name !== "");
}
