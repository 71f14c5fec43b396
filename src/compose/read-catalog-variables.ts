import { isNull, type Scalar } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import { listVariables } from "./own-ports.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** A variable that declares a URL of its service. */
interface UrlVariable {
  readonly key: string;
  /** The name in the variable, which is often that of the service. */
  readonly name: string;
  readonly port: number | undefined;
  readonly node: Scalar;
}

/**
 * Reads the variables with which files of Coolify's catalog make a service public: `SERVICE_URL_BLOG_8080` gives the
 * service a URL, and names its port. Such a variable has no value in the file, or the path of the URL.
 */
export function readCatalogVariables(conversion: ServiceConversion, hints: HttpHints): void {
  const declared = listUrlVariables(conversion);
  const own = toPlainName(conversion.service);
  const first = declared.find(({ name }) => toPlainName(name) === own) ?? declared[0];
  if (first === undefined) return;
  hints.route = { variable: first.key, node: first.node };
  if (first.port !== undefined)
    hints.port ??= { port: first.port, evidence: `the variable ${first.key}` };
  for (const { key, port, node } of declared) {
    const path = node.text;
    if (port !== undefined && port !== first.port)
      conversion.addUnhandledFinding(
        "lost",
        node,
        `an app has only one port, and already has ${first.port ?? "another"}: ${key} is omitted`,
      );
    else if (path !== "" && path !== "/")
      conversion.addUnhandledFinding(
        "lost",
        node,
        `the path ${path} is omitted: the app has a domain of its own`,
        "set domain and ingress.pathPrefix in its spec",
      );
  }
}

function listUrlVariables({ body }: ServiceConversion): UrlVariable[] {
  return listVariables(body).flatMap(({ key, value: node }) => {
    const [, name, port] = /^SERVICE_(?:URL|FQDN)_([A-Z0-9_]+?)(?:_(\d{2,5}))?$/.exec(key) ?? [];
    if (name === undefined || node.kind !== "scalar") return [];
    const isDeclaration =
      isNull(node) || node.text.startsWith("/") || node.unsetVariables?.includes(key) === true;
    return isDeclaration
      ? [{ key, name, port: port === undefined ? undefined : Number(port), node }]
      : [];
  });
}

function toPlainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}
