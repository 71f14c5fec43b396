import { parseBytes } from "../base/units.ts";
import type { DataPlace } from "../resources/app-data.ts";
import type { AppSpec, EnvValue, SecretReference } from "../resources/app-spec.ts";
import { getServiceName } from "../resources/stack.ts";

/**
 * Names in the Compose file of a stack that belong to the whole file, such as names of variables and volumes. Different
 * services may use them.
 */
export interface ExportNames {
  readonly stack: string;
  /** Returns the variable of the Compose file with the value of a Secret. */
  readonly nameSecret: (reference: SecretReference) => string;
  /** Returns the source of an App's volume or folder in the Compose file, where they belong to the whole project. */
  readonly nameData: (app: string, place: Omit<DataPlace, "paths">) => string;
}

/**
 * Returns the Compose definition of an App, without fields that Compose cannot express. Values contain `$` as it is;
 * `escapeVariables` has to escape them.
 */
export function exportService(
  app: string,
  spec: AppSpec,
  { stack, nameSecret, nameData }: ExportNames,
): Record<string, unknown> {
  const { security = {}, healthCheck, resources = {}, aliases = [] } = spec;
  const env = Object.entries(spec.env ?? {}).map(
    ([name, value]) => [name, exportValue(value, nameSecret)] as const,
  );
  const limits = {
    ...(resources.memory !== undefined && { memory: String(parseBytes(resources.memory)) }),
    ...(resources.cpu !== undefined && { cpus: exportCpus(resources.cpu) }),
  };
  const replicas = spec.running === false ? 0 : spec.replicas;
  const deploy = {
    ...(replicas !== undefined && { replicas }),
    ...(Object.keys(limits).length > 0 && { resources: { limits } }),
  };
  const dependsOn = (spec.dependsOn ?? []).filter((other) => other.startsWith(`${stack}-`));
  const service: Record<string, unknown> = {
    ...exportImage(spec),
    platform: spec.platform,
    entrypoint: spec.entrypoint,
    command: spec.command,
    user: spec.user,
    working_dir: spec.workingDir,
    hostname: spec.hostname,
    environment: Object.fromEntries(env),
    expose: spec.port === undefined ? [] : [String(spec.port)],
    ports: (spec.ports ?? []).map(({ host, container, protocol, address = "" }) => {
      const at = address.includes(":") ? `[${address}]:` : address === "" ? "" : `${address}:`;
      return `${at}${host}:${container}${protocol === "udp" ? "/udp" : ""}`;
    }),
    volumes: exportMounts(app, spec, nameData),
    tmpfs: (spec.tmpfs ?? []).map(({ path, size }) =>
      size === undefined ? path : `${path}:size=${parseBytes(size)}`,
    ),
    shm_size: spec.shmSize === undefined ? undefined : String(parseBytes(spec.shmSize)),
    read_only: security.readOnlyRoot,
    cap_drop: security.dropCapabilities,
    security_opt: security.noNewPrivileges === true ? ["no-new-privileges:true"] : [],
    ulimits: spec.ulimits,
    networks: aliases.length > 0 ? { default: { aliases } } : {},
    depends_on: dependsOn.map((other) => getServiceName(other, stack)),
    healthcheck:
      healthCheck?.command === undefined
        ? undefined
        : {
            test: ["CMD", ...healthCheck.command],
            interval: healthCheck.interval,
            timeout: healthCheck.timeout,
            retries: healthCheck.retries,
            start_period: healthCheck.startPeriod,
          },
    deploy,
    restart: "unless-stopped",
    stop_grace_period: spec.stopGracePeriod,
    pull_policy: spec.pullPolicy && (spec.pullPolicy === "Always" ? "always" : "missing"),
  };
  return Object.fromEntries(Object.entries(service).filter(([, value]) => !isEmpty(value)));
}

/** The text of a variable reference, which `escapeVariables` leaves as it is. */
export class VariableReference {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  toString(): string {
    return `\${${this.name}:?}`;
  }
}

/** Returns a copy of a value in which Compose reads every `$` as it is, except those of variable references. */
export function escapeVariables(value: unknown): unknown {
  if (value instanceof VariableReference) return String(value);
  if (typeof value === "string") return value.replaceAll("$", "$$$$");
  if (Array.isArray(value)) return value.map(escapeVariables);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([key, inner]) => [key, escapeVariables(inner)]),
  );
}

function exportImage({ image, source, build = {} }: AppSpec): Record<string, unknown> {
  if (source === undefined) return { image };
  const git = "git" in source ? source.git : undefined;
  const fragment = [git?.ref ?? "", git?.path].filter((part) => part !== undefined).join(":");
  const context = git
    ? `${git.url}${fragment === "" ? "" : `#${fragment}`}`
    : "local" in source
      ? source.local
      : "empty" in source
        ? undefined
        : ".";
  const { dockerfile = git?.dockerfile, inline, target, args } = build;
  return { build: { context, dockerfile, dockerfile_inline: inline, target, args } };
}

function exportValue(value: EnvValue, nameSecret: ExportNames["nameSecret"]): unknown {
  return typeof value === "object" ? new VariableReference(nameSecret(value)) : String(value);
}

function exportMounts(
  app: string,
  { volumes = [], folders = [] }: AppSpec,
  nameData: ExportNames["nameData"],
): string[] {
  return [
    ...volumes.map((volume) => {
      if ("hostPath" in volume) return formatMount(volume.hostPath, volume.path, volume.readOnly);
      const { name, path, readOnly, shared = false } = volume;
      return formatMount(nameData(app, { type: "volume", name, shared }), path, readOnly);
    }),
    ...folders.map(({ name, path, readOnly, shared = false }) =>
      formatMount(nameData(app, { type: "folder", name, shared }), path, readOnly),
    ),
  ];
}

function formatMount(source: string, path: string, readOnly = false): string {
  return `${source}:${path}${readOnly ? ":ro" : ""}`;
}

/** Returns a number of CPUs as Compose writes it; Berth also has the unit m, a thousandth. */
function exportCpus(cpu: string | number): string {
  const text = String(cpu);
  return text.endsWith("m") ? String(Number(text.slice(0, -1)) / 1000) : text;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined) return true;
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
