import { parseBytes, parseCpu, parseDuration } from "../base/units.ts";
import type { Folder, Volume } from "./app-mount-spec.ts";
import type { AppSource } from "./app-source-spec.ts";
import type { AppSpec, SecretReference } from "./app-spec.ts";
import { NO_DOMAIN } from "./field-schemas.ts";
import { isMovingReference } from "./image-reference.ts";
import type { Language } from "./language.ts";

/** An AppSpec with every default filled in. Quantities are numbers in the unit that the name of the field contains. */
export interface EffectiveApp {
  readonly image: string | undefined;
  readonly platform: string | undefined;
  readonly port: number | undefined;
  readonly source: AppSource | undefined;
  readonly build: EffectiveBuild;
  /**
   * The domain in the spec. If it is undefined, the App's domain is its name below the base domain, which this module
   * does not know.
   */
  readonly domain: string | undefined;
  readonly ingress: EffectiveIngress;
  readonly env: Readonly<Record<string, string | SecretReference>>;
  readonly entrypoint: readonly string[] | undefined;
  readonly command: readonly string[] | undefined;
  readonly user: string | undefined;
  readonly workingDir: string | undefined;
  readonly hostname: string | undefined;
  readonly security: {
    readonly readOnlyRoot: boolean;
    readonly dropCapabilities: readonly string[];
    readonly noNewPrivileges: boolean;
  };
  readonly ulimits: readonly EffectiveUlimit[];
  readonly tmpfs: readonly { readonly path: string; readonly sizeBytes: number | undefined }[];
  readonly shmBytes: number | undefined;
  readonly oneShot: boolean;
  readonly running: boolean;
  readonly suspend: boolean;
  readonly replicas: number;
  readonly memoryBytes: number | undefined;
  readonly nanoCpus: number | undefined;
  readonly volumes: readonly Volume[];
  readonly folders: readonly Folder[];
  readonly files: readonly EffectiveFile[];
  readonly ports: readonly EffectivePort[];
  readonly healthCheck: EffectiveHealthCheck;
  readonly rollout: {
    readonly strategy: "rolling" | "recreate";
    readonly progressDeadlineMs: number;
    readonly drainMs: number;
    /**
     * The time for which a new version serves requests before the previous one is removed; 0 means at
     * once.
     */
    readonly observeMs: number;
    /** The time for which a new version has to be healthy before it gets the requests. */
    readonly minReadyMs: number;
    readonly autoRevert: boolean;
  };
  readonly restart: {
    readonly attempts: number;
    readonly intervalMs: number;
    readonly backoffMs: number;
  };
  readonly stopGraceMs: number;
  readonly models: readonly string[];
  readonly aliases: readonly string[];
  readonly dependsOn: readonly string[];
  readonly pullPolicy: "IfNotPresent" | "Always";
  readonly pullSecret: string | undefined;
}

/** Options of a build. An option that is undefined is detected from the files of the source. */
export interface EffectiveBuild {
  /**
   * The path of the Dockerfile, relative to the source. For a git source, it is relative to the `path` of the source.
   */
  readonly dockerfile: string | undefined;
  /** The text of the Dockerfile; undefined if it is in the source. */
  readonly inline: string | undefined;
  readonly target: string | undefined;
  readonly args: Readonly<Record<string, string>>;
  readonly language: Language | undefined;
  readonly baseImage: string | undefined;
}

export interface EffectiveIngress {
  /** Domains in addition to the App's main domain. */
  readonly domains: readonly string[];
  readonly redirects: readonly {
    readonly from: string;
    /** Target of the redirect; undefined means the App's main domain. */
    readonly to: string | undefined;
    readonly permanent: boolean;
  }[];
  /** The prefix of the paths of requests that reach the App. `/` matches every path. */
  readonly pathPrefix: string;
  readonly stripPrefix: boolean;
  /** The name of the Secret with the users and passwords for HTTP basic authentication. */
  readonly basicAuthSecret: string | undefined;
  /**
   * The maintenance page that is served instead of the App; undefined if the App serves requests. At most one of
   * message and html is set.
   */
  readonly maintenance:
    | { readonly message: string | undefined; readonly html: string | undefined }
    | undefined;
  readonly https: "auto" | "off";
}

/** A limit of processes; -1 is no limit. */
export interface EffectiveUlimit {
  readonly name: string;
  readonly soft: number;
  readonly hard: number;
}

export interface EffectiveFile {
  readonly path: string;
  readonly content: string | SecretReference;
  readonly mode: number;
}

export interface EffectivePort {
  readonly host: number;
  readonly container: number;
  readonly protocol: "tcp" | "udp";
  readonly address: string;
}

export type HealthProbe =
  | { readonly type: "http"; readonly port: number; readonly path: string }
  | { readonly type: "command"; readonly command: readonly string[] }
  | { readonly type: "tcp"; readonly port: number }
  | WebProbe
  /** The App has neither a port nor a health check, so a running container counts as healthy. */
  | { readonly type: "running" };

/**
 * A probe that sends a GET request to the port of an App. It succeeds if the response has a status below 500, or
 * if the answer is in another protocol than HTTP.
 */
export interface WebProbe {
  readonly type: "web";
  readonly port: number;
  readonly path: string;
}

export interface EffectiveHealthCheck {
  readonly probe: HealthProbe;
  /** The probe that is used instead of `probe` while a version is rolled out; undefined means `probe` itself. */
  readonly rolloutProbe: WebProbe | undefined;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly startPeriodMs: number;
}

const toEnvText = (value: string | number | boolean | SecretReference): string | SecretReference =>
  typeof value === "object" ? value : String(value);

/**
 * Fills in the defaults. The interval between checks is that of Kubernetes (10 s) for a configured check, and that of
 * Docker (30 s) if only the port is probed. During a rollout the reconciler probes more often. The restart budget is
 * five restarts in ten minutes, which is strict compared to Compose or systemd.
 */
export function resolveAppDefaults(spec: AppSpec): EffectiveApp {
  const health = spec.healthCheck ?? {};
  const cpu = spec.resources?.cpu;
  return {
    image: spec.image,
    platform: spec.platform,
    port: spec.port,
    source: spec.source,
    build: resolveBuild(spec),
    domain: spec.domain,
    ingress: resolveIngress(spec),
    env: Object.fromEntries(
      Object.entries(spec.env ?? {}).map(([key, value]) => [key, toEnvText(value)]),
    ),
    entrypoint: spec.entrypoint?.length ? spec.entrypoint : undefined,
    command: spec.command?.length ? spec.command : undefined,
    user: spec.user,
    workingDir: spec.workingDir,
    oneShot: spec.oneShot ?? false,
    running: spec.running ?? true,
    suspend: spec.suspend ?? false,
    replicas: spec.replicas ?? 1,
    hostname: spec.hostname,
    security: {
      readOnlyRoot: spec.security?.readOnlyRoot ?? false,
      dropCapabilities: spec.security?.dropCapabilities ?? [],
      noNewPrivileges: spec.security?.noNewPrivileges ?? false,
    },
    ulimits: Object.entries(spec.ulimits ?? {}).map(([name, limit]) =>
      typeof limit === "number" ? { name, soft: limit, hard: limit } : { name, ...limit },
    ),
    tmpfs: (spec.tmpfs ?? []).map(({ path, size }) => ({
      path,
      sizeBytes: size === undefined ? undefined : parseBytes(size),
    })),
    shmBytes: spec.shmSize === undefined ? undefined : parseBytes(spec.shmSize),
    memoryBytes:
      spec.resources?.memory === undefined ? undefined : parseBytes(spec.resources.memory),
    nanoCpus: cpu === undefined ? undefined : parseCpu(String(cpu)),
    volumes: spec.volumes ?? [],
    folders: spec.folders ?? [],
    files: (spec.files ?? []).map((file) => ({
      path: file.path,
      content: "content" in file ? file.content : file.from,
      mode: Number.parseInt(file.mode ?? "0444", 8),
    })),
    ports: (spec.ports ?? []).map((port) => ({
      host: port.host,
      container: port.container,
      protocol: port.protocol ?? "tcp",
      address: port.address ?? "0.0.0.0",
    })),
    healthCheck: {
      probe: resolveProbe(spec),
      rolloutProbe: resolveRolloutProbe(spec),
      intervalMs: parseDuration(health.interval ?? (spec.healthCheck ? "10s" : "30s")),
      timeoutMs: parseDuration(health.timeout ?? "2s"),
      retries: health.retries ?? 3,
      startPeriodMs: parseDuration(health.startPeriod ?? "0s"),
    },
    rollout: {
      strategy: spec.rollout?.strategy ?? "rolling",
      progressDeadlineMs: parseDuration(spec.rollout?.progressDeadline ?? "60s"),
      drainMs: parseDuration(spec.rollout?.drain ?? "10s"),
      observeMs: parseDuration(spec.rollout?.observe ?? "5s"),
      minReadyMs: (spec.rollout?.minReadySeconds ?? 0) * 1_000,
      autoRevert: spec.rollout?.autoRevert ?? true,
    },
    restart: {
      attempts: spec.oneShot === true ? 0 : (spec.restart?.attempts ?? 5),
      intervalMs: parseDuration(spec.restart?.interval ?? "10m"),
      backoffMs: parseDuration(spec.restart?.backoff ?? "1s"),
    },
    stopGraceMs: parseDuration(spec.stopGracePeriod ?? "10s"),
    models: spec.models ?? [],
    aliases: spec.aliases ?? [],
    dependsOn: spec.dependsOn ?? [],
    pullPolicy: spec.pullPolicy ?? getDefaultPullPolicy(spec.image),
    pullSecret: spec.pullSecret,
  };
}

/** Returns `Always` for a tag that usually moves to newer images, such as `latest`; otherwise `IfNotPresent`. */
function getDefaultPullPolicy(image: string | undefined): EffectiveApp["pullPolicy"] {
  return image !== undefined && isMovingReference(image) ? "Always" : "IfNotPresent";
}

function resolveBuild({ build = {}, source }: AppSpec): EffectiveBuild {
  const git = source && "git" in source ? source.git : undefined;
  return {
    dockerfile: build.dockerfile ?? git?.dockerfile,
    inline: build.inline,
    target: build.target,
    args: build.args ?? {},
    language: build.language,
    baseImage: build.baseImage,
  };
}

function resolveIngress({ ingress = {} }: AppSpec): EffectiveIngress {
  const { maintenance = false } = ingress;
  const page = typeof maintenance === "object" ? maintenance : {};
  return {
    domains: ingress.domains ?? [],
    redirects: (ingress.redirects ?? []).map(({ from, to, permanent = false }) => ({
      from,
      to,
      permanent,
    })),
    pathPrefix: ingress.pathPrefix ?? "/",
    stripPrefix: ingress.stripPrefix ?? false,
    basicAuthSecret: ingress.basicAuth?.secret,
    maintenance: maintenance === false ? undefined : { message: page.message, html: page.html },
    https: ingress.https ?? "auto",
  };
}

function resolveProbe(spec: AppSpec): HealthProbe {
  const health = spec.healthCheck ?? {};
  if (health.command) return { type: "command", command: health.command };
  const port = health.port ?? spec.port;
  if (port === undefined) return { type: "running" };
  return health.path === undefined
    ? { type: "tcp", port }
    : { type: "http", port, path: health.path };
}

/**
 * Returns an HTTP probe for the rollout of an App with a domain, whose own probe only opens the port; undefined for all
 * other Apps. An App with a domain counts as a web server, which may accept connections long before it can answer.
 * Other Apps, such as databases, get no HTTP request.
 */
function resolveRolloutProbe(spec: AppSpec): WebProbe | undefined {
  const probe = resolveProbe(spec);
  const hasDomain =
    spec.domain !== NO_DOMAIN &&
    (spec.domain !== undefined || (spec.ingress?.domains ?? []).length > 0);
  return hasDomain && probe.type === "tcp"
    ? { type: "web", port: probe.port, path: "/" }
    : undefined;
}
