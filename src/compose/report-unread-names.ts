import { join, resolve } from "node:path";
import { getValue, listItems } from "./compose-tree.ts";
import type { FindingList } from "./import-findings.ts";
import { readMount, resolveHostPath } from "./mount.ts";
import { findHostReference } from "./report-references.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * Reports old names of services that may remain after `--name-prefix` has renamed their apps. Searches the files that
 * are mounted or built into an image. Images are not searched, so one finding warns about all of them.
 * `reportReferences` reports the names inside values.
 */
export function reportUnreadNames(
  conversions: readonly ServiceConversion[],
  findings: FindingList,
): void {
  const renamed = conversions.filter(({ service, app }) => service !== app);
  if (conversions.length < 2) return;
  for (const conversion of conversions) {
    const others = renamed.filter((other) => other !== conversion);
    for (const file of listFiles(conversion)) reportFile(conversion, others, file);
  }
  const names = renamed.map(({ service, app }) => `${service} is now ${app}`).join(", ");
  const [first] = conversions;
  if (names === "" || !first) return;
  findings.add(
    "lost",
    undefined,
    first.project.services,
    `programs in images, and files that were not read, may still use the old names: ${names}`,
    "without --name-prefix the names stay",
  );
}

interface NamingFile {
  readonly path: string;
  readonly node: Parameters<ServiceConversion["addUnhandledFinding"]>[1];
}

/** Lists the files of this machine that the service mounts, and those of the folder that its image is built from. */
function listFiles(conversion: ServiceConversion): NamingFile[] {
  const { files } = conversion.options;
  const below = (path: string) => files.list?.(path) ?? [path];
  const mounted = listItems(conversion.getNode("volumes")).flatMap((node) => {
    const mount = readMount(conversion, node);
    const path =
      mount?.type === "bind" && mount.source !== undefined
        ? resolveHostPath(conversion, node, mount.source)
        : undefined;
    return path === undefined ? [] : below(path).map((file) => ({ path: file, node }));
  });
  const build = conversion.getNode("build");
  const context = build?.kind === "map" ? getValue(build, "context") : build;
  const built =
    build && context?.kind === "scalar" && !context.text.includes("://")
      ? below(resolve(context.place.source.folder, context.text)).map((path) => ({
          path: join(path),
          node: context,
        }))
      : [];
  return [...mounted, ...built];
}

function reportFile(
  conversion: ServiceConversion,
  others: readonly ServiceConversion[],
  { path, node }: NamingFile,
): void {
  const { files } = conversion.options;
  const content = files.read(path);
  if ("problem" in content) return;
  const lines = content.text.split("\n");
  for (const other of others) {
    const line = lines.findIndex((text) => isReference(text, other.service));
    if (line === -1) continue;
    conversion.addUnhandledFinding(
      "lost",
      node,
      `${files.displayPath(path)}:${line + 1} names "${other.service}", whose name is now "${other.app}"`,
      `replace ${other.service} by ${other.app}`,
    );
  }
}

/**
 * True if the text contains an address whose host is the service, or the quoted name of the service, as in
 * `host="redis"`.
 */
function isReference(text: string, service: string): boolean {
  if (findHostReference(text, service) === "address") return true;
  const name = service.replaceAll(/[^A-Za-z0-9_-]/g, ".");
  if (new RegExp(`["'\`]${name}["'\`]`, "i").test(text)) return true;
  const directive = /\b(?:host|server|upstream|proxy_pass)\b/i.exec(text);
  if (!directive) return false;
  const rest = text.slice(directive.index + directive[0].length);
  return new RegExp(`\\b${name}\\b`, "i").test(rest);
}
