import type { Manifest } from "../resources/kinds.ts";
import { assignAppNames, toDnsLabel } from "./assign-app-names.ts";
import { listCalledPorts, listSharedVariables } from "./called-ports.ts";
import {
  copyTree,
  type Entry,
  getValue,
  isNull,
  listEntries,
  listScalars,
} from "./compose-tree.ts";
import { convertAliases } from "./convert-aliases.ts";
import { convertService } from "./convert-service.ts";
import { findLikelyPublic } from "./find-likely-public.ts";
import { mapImageUsers } from "./image-users.ts";
import { FindingList, type ImportFinding } from "./import-findings.ts";
import {
  type ComposeFileReader,
  type ComposeProject,
  type LoadProjectOptions,
  loadProject,
} from "./load-project.ts";
import { ProjectData } from "./project-data.ts";
import { getProjectName } from "./project-name.ts";
import { getProjectOrigin } from "./project-origin.ts";
import { limitReading } from "./read-budget.ts";
import { reportTopLevel } from "./report-top-level.ts";
import { type PublicPlace, type SecretValue, ServiceConversion } from "./service-conversion.ts";
import { separateSharedNetworks } from "./shared-networks.ts";

/** The maximum number of services of a project. The import compares every two services with each other. */
const SERVICES_MAX = 500;

const profileName = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
const serviceName = /^[A-Za-z0-9._-]+$/;

export interface ImportOptions extends LoadProjectOptions {
  /** The profiles whose services are included; `*` includes all. */
  readonly profiles?: readonly string[];
  /** The name of the stack; default: the name of the project (`getProjectName`). */
  readonly stack?: string | undefined;
  /**
   * True if one failed service does not prevent the conversion of the others. An App that depends on the failed service
   * is then converted without this dependency.
   */
  readonly partial?: boolean;
  /** Services that get a domain because the user asks for it, each with its port if the user names one. */
  readonly publicPorts?: ReadonlyMap<string, number | undefined>;
  /** `env` keeps values that look secret in the spec; `secret` replaces them by references to Secrets. */
  readonly secrets?: "env" | "secret";
  /** The folder in which the spec files will be. The paths of sources are written relative to this folder. */
  readonly specFolder: string;
  /** The folder that replaces `~`. */
  readonly home?: string | undefined;
}

export interface ImportedApp {
  readonly service: string;
  readonly manifest: Manifest<"App">;
  /** The public ports and URLs of the app, which clients other than this machine's apps can reach. */
  readonly publicPlaces: readonly PublicPlace[];
}

export interface ComposeImport {
  /** The name of the stack to which the apps belong. */
  readonly stack: string;
  readonly apps: readonly ImportedApp[];
  /** The findings, sorted by file and line. */
  readonly findings: readonly ImportFinding[];
  /** Values of Secrets that the apps need and that the user must set. */
  readonly secretValues: readonly SecretValue[];
  /**
   * The value for --public that would make the most likely service public; undefined if a service is public already,
   * or if no service is likely.
   */
  readonly likelyPublic: string | undefined;
}

/**
 * Converts Compose files to Apps, with findings about the differences. Never throws for the content of a file:
 * errors are findings of the level `failed`.
 */
export function importCompose(options: ImportOptions, reader: ComposeFileReader): ComposeImport {
  const files = limitReading(reader);
  const project = loadProject(options, files);
  const findings = new FindingList();
  findings.addProblems(project.problems);
  const selected = selectServices(project, options.profiles ?? [], findings);
  const projectName = options.stack ?? getProjectName(project, options.files);
  const stack = toDnsLabel(projectName, []) ?? "default";
  const origin = getProjectOrigin(projectName, options.files[0] ?? "-", files);
  reportProjectName(project, options, findings);
  const assigned = assignAppNames(
    selected.map(({ key }) => key),
    stack,
  );
  const names = new Map(
    [...assigned].flatMap(([service, one]) =>
      "name" in one ? [[service, one.name] as const] : [],
    ),
  );
  const copies = new Map(
    selected.flatMap(({ key, value }) => {
      const body = copyTree(value, value.path);
      return body.kind === "map" ? [[key, body] as const] : [];
    }),
  );
  const separated = separateSharedNetworks(copies, findings);
  const evidence = {
    calledPorts: listCalledPorts(separated),
    sharedVariables: listSharedVariables(separated),
    imageUsers: mapImageUsers(separated),
  };
  const conversions: ServiceConversion[] = [];
  for (const entry of selected) {
    const { key } = entry;
    const name = assigned.get(key) ?? {
      problem: "no app name can be derived from the name of this service",
    };
    const body = separated.get(key);
    if ("problem" in name || !body || !serviceName.test(key)) {
      const message = !serviceName.test(key)
        ? "the name of a service contains only letters, digits, dots, underscores and hyphens"
        : "problem" in name
          ? name.problem
          : "must be a mapping";
      findings.add(
        "failed",
        key,
        entry,
        message,
        "problem" in name ? "choose a name with --stack, or rename the service" : undefined,
      );
      continue;
    }
    conversions.push(
      new ServiceConversion({
        service: key,
        place: entry.place,
        app: name.name,
        body,
        project,
        apps: names,
        findings,
        options: {
          files,
          stack,
          origin,
          specFolder: options.specFolder,
          home: options.home,
          secrets: options.secrets ?? "env",
          publicPorts: options.publicPorts ?? new Map(),
          ...evidence,
        },
      }),
    );
  }
  if (selected.length === 0 && project.problems.length === 0 && findings.findings.length === 0) {
    findings.add("failed", undefined, project.services, "the project declares no service");
  }

  const bodies = conversions.map(({ body }) => body);
  const data = new ProjectData(project.folder, project.volumes, conversions);
  const apps: ImportedApp[] = [];
  for (const scope of conversions) {
    if (project.failed.has(scope.service)) scope.isFailed = true;
    convertAliases(scope, conversions);
    const manifest = convertService(scope, findings, data);
    if (!manifest) scope.isFailed = true;
    else apps.push({ service: scope.service, manifest, publicPlaces: scope.publicPlaces });
  }
  for (const service of options.publicPorts?.keys() ?? []) {
    if (conversions.some((scope) => scope.service === service)) continue;
    findings.add(
      "failed",
      undefined,
      project.services,
      `--public: there is no service "${service}"`,
    );
  }
  reportTopLevel(project, bodies, findings);
  return {
    stack,
    apps: options.partial === true ? withoutMissingDependencies(apps, conversions, findings) : apps,
    findings: sortFindings(findings.findings),
    secretValues: conversions.flatMap((scope) => (scope.isFailed ? [] : scope.secretValues)),
    likelyPublic: apps.some(({ publicPlaces }) => publicPlaces.length > 0)
      ? undefined
      : findLikelyPublic(conversions),
  };
}

/** Refuses a `name:` that Compose would refuse, unless the user names the stack. */
function reportProjectName(
  { name }: ComposeProject,
  { stack }: ImportOptions,
  findings: FindingList,
): void {
  if (stack !== undefined || name === undefined || name.failure !== undefined) return;
  if (name.text === "" || /^[a-z0-9][a-z0-9_-]*$/.test(name.text)) return;
  findings.add(
    "failed",
    undefined,
    name,
    "the name of a project has lower-case letters, digits, hyphens and underscores, and begins with a letter or digit",
    "choose another one with --stack",
  );
}

/** Removes dependencies on Apps that could not be converted, and reports each removal. */
function withoutMissingDependencies(
  apps: readonly ImportedApp[],
  conversions: readonly ServiceConversion[],
  findings: FindingList,
): ImportedApp[] {
  const missing = new Map(
    conversions.filter(({ isFailed }) => isFailed).map(({ app, service }) => [app, service]),
  );
  return apps.map((imported) => {
    const { manifest, service } = imported;
    const { dependsOn = [], ...spec } = manifest.spec;
    const kept = dependsOn.filter((app) => !missing.has(app));
    if (kept.length === dependsOn.length) return imported;
    const scope = conversions.find((conversion) => conversion.service === service);
    const gone = dependsOn.flatMap((app) => missing.get(app) ?? []).join(", ");
    if (scope)
      findings.addForService(
        "lost",
        service,
        { place: scope.place, path: scope.body.path },
        `this app does not wait for ${gone}, which could not be converted`,
      );
    return {
      ...imported,
      manifest: {
        ...manifest,
        spec: kept.length === 0 ? spec : { ...spec, dependsOn: kept },
      },
    };
  });
}

function selectServices(
  project: ComposeProject,
  profiles: readonly string[],
  findings: FindingList,
): Entry[] {
  const services = listEntries(project.services);
  if (services.length > SERVICES_MAX) {
    findings.add(
      "failed",
      undefined,
      project.services,
      `the project declares ${services.length} services, and at most ${SERVICES_MAX} can be imported at once`,
    );
    return [];
  }
  return services.filter((entry) => {
    const { key, value } = entry;
    const node = getValue(value, "profiles");
    if (!node || isNull(node) || profiles.includes("*")) return true;
    const own = listScalars(node).map(({ text }) => text);
    if (own.length === 0 || own.some((profile) => profiles.includes(profile))) return true;
    findings.add(
      "note",
      key,
      { key, place: entry.place, value: { ...node, path: value.path } },
      `this service is omitted: it belongs to the ${own.length === 1 ? "profile" : "profiles"} ${own.join(", ")}`,
      profileName.test(own[0] ?? "") ? `include it with --profile ${own[0]}` : undefined,
    );
    return false;
  });
}

/** Sorts findings by file, in the order in which the files first appear, then by line and column. */
function sortFindings(findings: readonly ImportFinding[]): ImportFinding[] {
  const order = new Map<string, number>();
  for (const { file } of findings) if (!order.has(file)) order.set(file, order.size);
  const rank = ({ file }: ImportFinding) => order.get(file) ?? 0;
  return findings.toSorted((a, b) => rank(a) - rank(b) || a.line - b.line || a.column - b.column);
}
