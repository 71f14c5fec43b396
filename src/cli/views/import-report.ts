import type { ComposeImport } from "../../compose/import-compose.ts";
import {
  type FindingLevel,
  findingLevels,
  type ImportFinding,
} from "../../compose/import-findings.ts";
import type { Colors } from "../colours.ts";

/**
 * Formats the findings as `file:line:column` lines, most important first. Findings with the same message share one
 * entry, which lists all their lines.
 */
export function formatImportReport(
  result: ComposeImport,
  options: { readonly quiet: boolean; readonly colours: Colors },
): string {
  const { colours } = options;
  const paint = {
    failed: colours.red,
    unsafe: colours.red,
    lost: colours.yellow,
    changed: colours.cyan,
    note: colours.dim,
  };
  const lines: string[] = [];
  for (const level of findingLevels) {
    if (level === "note" && options.quiet) continue;
    for (const [first, ...others] of groupByMessage(result.findings, level)) {
      if (!first) continue;
      const key = first.key === "" ? "" : `${first.key}: `;
      const message = toLine(`${key}${first.message}`);
      lines.push(
        `${toLine(first.file)}:${first.line}:${first.column}: ${paint[level](level)}: ${message}`,
      );
      if (others.length > 0) lines.push(`    also ${others.map(formatLocation).join(", ")}`);
      if (first.hint !== undefined) lines.push(`    ${colours.cyan("try:")} ${toLine(first.hint)}`);
    }
  }
  const secrets = formatSecretCommands(result);
  if (secrets.length > 0) lines.push("Set these Secrets before you start the apps:", ...secrets);
  lines.push(...formatPublicPlaces(result), formatSummary(result));
  return lines.join("\n");
}

/** Creates the report for programs. It contains no values of variables. */
export function createImportDocument(
  result: ComposeImport,
  fileOf: (app: string) => string | null,
): unknown {
  return {
    stack: result.stack,
    apps: result.apps.map(({ service, manifest }) => ({
      service,
      name: manifest.metadata.name,
      file: fileOf(manifest.metadata.name),
    })),
    findings: result.findings.map((finding) => ({
      ...finding,
      service: finding.service ?? null,
      hint: finding.hint ?? null,
    })),
    secrets: [...groupSecretKeys(result)].map(([name, keys]) => ({ name, keys })),
    public: result.apps.flatMap(({ manifest, publicPlaces }) =>
      publicPlaces.map(({ url, port, why, web, place }) => ({
        app: manifest.metadata.name,
        url,
        port,
        why,
        httpPort: web?.port ?? null,
        evidence: web?.evidence ?? null,
        file: place.source.file,
        line: place.line,
      })),
    ),
  };
}

/** Formats the comment at the top of a spec file: its origin, and what was not converted. */
export function formatSpecHeader(
  result: ComposeImport,
  service: string,
  files: readonly string[],
): string {
  const lost = result.findings.filter(
    ({ level, service: of }) => (level === "lost" || level === "unsafe") && of === service,
  );
  return [
    `Created by berth import from ${files.join(", ")}, service ${service}.`,
    ...(lost.length === 0 ? [] : ["Not converted:"]),
    ...lost.map((finding) => `  ${formatLocation(finding)} ${finding.key}: ${finding.message}`),
  ]
    .map((line) => `# ${toLine(line)}\n`)
    .join("");
}

/** Replaces line breaks and control characters, with which a Compose file could forge lines of a report or a spec. */
function toLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
}

function groupByMessage(
  findings: readonly ImportFinding[],
  level: FindingLevel,
): ImportFinding[][] {
  const groups = new Map<string, ImportFinding[]>();
  for (const finding of findings) {
    if (finding.level !== level) continue;
    const key = JSON.stringify([finding.message, finding.hint]);
    const group = groups.get(key);
    if (group) group.push(finding);
    else groups.set(key, [finding]);
  }
  return [...groups.values()];
}

function formatLocation({ file, line }: ImportFinding): string {
  return toLine(`${file}:${line}`);
}

function groupSecretKeys({ secretValues }: ComposeImport): Map<string, string[]> {
  const secrets = new Map<string, string[]>();
  for (const { secret, key } of secretValues) {
    secrets.set(secret, [...(secrets.get(secret) ?? []), key]);
  }
  return secrets;
}

function formatSecretCommands(result: ComposeImport): string[] {
  return [...groupSecretKeys(result)].map(
    ([name, keys]) => `  berth secrets set ${name} ${keys.map((key) => `${key}=VALUE`).join(" ")}`,
  );
}

/** Lists the addresses and ports that clients outside of this machine can reach, or reports that there are none. */
function formatPublicPlaces({ apps, likelyPublic }: ComposeImport): string[] {
  const rows = apps.flatMap(({ manifest, publicPlaces }) =>
    publicPlaces.map((item) => ({ app: manifest.metadata.name, ...item })),
  );
  if (apps.length === 0) return [];
  if (rows.length === 0) {
    const hint =
      likelyPublic === undefined
        ? "--public SERVICE:PORT gives a service a domain"
        : `--public ${likelyPublic} gives the likely service a domain`;
    return [`Nothing is public: no service publishes a web port or has a route. ${hint}.`];
  }
  return [
    "Public:",
    ...rows.map(
      ({ app, url, port, why, web, place }) =>
        `  ${app}: ${url ?? `port ${port} of the machine`}${web ? ` leads to port ${web.port} (${toLine(web.evidence)})` : ""}, because ${toLine(why)} (${toLine(place.source.file)}:${place.line})`,
    ),
  ];
}

function formatSummary({ stack, apps, findings }: ComposeImport): string {
  const count = (level: FindingLevel) => findings.filter((found) => found.level === level).length;
  const parts = [
    `stack ${stack}: ${formatCount(apps.length, "app")}`,
    ...(count("failed") > 0 ? [`${count("failed")} failed`] : []),
    ...(count("unsafe") > 0 ? [`${count("unsafe")} unsafe`] : []),
    `${count("lost")} lost`,
    `${count("changed")} changed`,
    formatCount(count("note"), "note"),
  ];
  return parts.join(", ");
}

function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
