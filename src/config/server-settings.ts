import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { resolveAssistantDataDir } from "../base/assistant-paths.ts";
import { NETWORK_POOL } from "../base/default-network-pool.ts";
import { defaultPorts } from "../base/default-ports.ts";
import { findDockerHost } from "./find-docker-host.ts";
import { type ConfigContext, type ServerSetting, setting } from "./server-setting.ts";
import type { SettingFlags } from "./setting.ts";
import {
  bytes,
  choice,
  cpus,
  duration,
  file,
  folder,
  integer,
  list,
  networks,
  port,
  positiveBytes,
  text,
} from "./setting-values.ts";

/**
 * Matches host names: labels of up to 63 characters. The last label must not be a number, because the name could then
 * be an IP address.
 */
const hostNamePattern =
  /^(?=.{1,253}$)(?!(.*\.)?[0-9]+$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;

/** Every setting except the secrets, in the order in which `berth config` and the help show them. */
export const serverSettings = {
  dataDir: setting({
    key: "data_dir",
    argument: "<dir>",
    help: "data directory of the server (BERTH_DATA_DIR)",
    default: ({ dataDir }) => dataDir,
    ...folder(),
  }),
  specsDir: setting({
    key: "specs_dir",
    argument: "<dir>",
    help: "folder of spec files to follow (BERTH_SPECS_DIR)",
    default: ({ workingDirectory, dataDir }) => {
      const local = join(workingDirectory, "specs");
      return existsSync(local) ? local : join(dataDir, "specs");
    },
    ...folder(),
  }),
  templatesDir: setting({
    key: "templates_dir",
    argument: "<dir>",
    help: "folder with more templates (BERTH_TEMPLATES_DIR)",
    default: undefined,
    ...folder(),
  }),
  listen: setting({
    key: "listen",
    argument: "<host:port>",
    help: "address of the API (BERTH_LISTEN); default: 127.0.0.1:7776",
    default: `127.0.0.1:${defaultPorts.api}`,
    ...text(
      /^(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z]+)?\]|[^\s:[\]/]+):[0-9]{1,5}$/,
      "HOST:PORT or [IPV6]:PORT (port 0 picks a free one)",
    ),
  }),
  tlsCert: setting({
    key: "tls_cert",
    argument: "<file>",
    help: "certificate chain for HTTPS on the address of the API, as PEM; with --tls-key (BERTH_TLS_CERT)",
    default: undefined,
    ...file(),
  }),
  tlsKey: setting({
    key: "tls_key",
    argument: "<file>",
    help: "key of the certificate, as PEM (BERTH_TLS_KEY)",
    default: undefined,
    ...file(),
  }),
  trustedProxies: setting({
    key: "trusted_proxies",
    argument: "<addresses>",
    help: "reverse proxies in front of the API, as addresses or networks separated by commas, whose X-Forwarded-For names the client (BERTH_TRUSTED_PROXIES); default: none",
    default: undefined,
    ...networks(),
  }),
  apiDomain: setting({
    key: "api_domain",
    argument: "<name>",
    help: "host name under which the ingress serves the API over HTTPS, such as berth.example.org (BERTH_API_DOMAIN); default: none",
    default: undefined,
    ...text(hostNamePattern, "a host name in lower case, such as berth.example.org"),
  }),
  dockerHost: setting({
    key: "docker_host",
    variable: "DOCKER_HOST",
    argument: "<url>",
    help: "address of the container engine (DOCKER_HOST)",
    default: ({ environment, home }) => findDockerHost(environment, home),
    ...text(/^(unix:\/\/\/.+|(tcp|https?):\/\/[^/\s]+\/?)$/, "unix:///PATH or tcp://HOST:PORT"),
  }),
  ingress: setting({
    key: "ingress",
    argument: "<auto|process|container|off>",
    help: "route domains to apps with Caddy on this machine or in a container (BERTH_INGRESS); default: auto",
    default: "auto",
    ...choice("auto", "process", "container", "off"),
  }),
  ingressImage: setting({
    key: "ingress_image",
    argument: "<image>",
    help: "image of Caddy for an ingress in a container (BERTH_INGRESS_IMAGE); default: caddy:2",
    default: "caddy:2",
    ...text(/^[^\s]+$/, "an image reference of Caddy, such as caddy:2"),
  }),
  httpPort: setting({
    key: "http_port",
    argument: "<port>",
    help: "HTTP port of the ingress; 0: no HTTP (BERTH_HTTP_PORT); default: 80 for root, else 8080",
    default: ({ userId }) => (userId === 0 ? "80" : "8080"),
    ...port("0: no HTTP"),
  }),
  httpsPort: setting({
    key: "https_port",
    argument: "<port>",
    help: "HTTPS port of the ingress; 0: no HTTPS (BERTH_HTTPS_PORT); default: 443 for root, else 8443",
    default: ({ userId }) => (userId === 0 ? "443" : "8443"),
    ...port("0: no HTTPS"),
  }),
  acmeEmail: setting({
    key: "acme_email",
    argument: "<address>",
    help: "e-mail address for the certificate authority (BERTH_ACME_EMAIL)",
    default: undefined,
    ...text(/^[^\s@]+@[^\s@]+$/, "an e-mail address"),
  }),
  buildConcurrency: setting({
    key: "build_concurrency",
    argument: "<number>",
    help: "number of concurrent builds (BERTH_BUILD_CONCURRENCY); default: 1",
    default: "1",
    ...integer(1, 16),
  }),
  buildMemory: setting({
    key: "build_memory",
    argument: "<amount>",
    help: "memory limit of one build (BERTH_BUILD_MEMORY); default: no limit",
    default: undefined,
    ...bytes("an amount of memory, such as 2Gi"),
  }),
  buildCpu: setting({
    key: "build_cpu",
    argument: "<cpus>",
    help: "CPU limit of one build (BERTH_BUILD_CPU); default: no limit",
    default: undefined,
    ...cpus(),
  }),
  buildTimeout: setting({
    key: "build_timeout",
    argument: "<duration>",
    help: "time limit of one build (BERTH_BUILD_TIMEOUT); default: 30m",
    default: "30m",
    ...duration("30m"),
  }),
  buildKeep: setting({
    key: "build_keep",
    argument: "<number>",
    help: "number of unused images and archives to keep for each app (BERTH_BUILD_KEEP); default: 5",
    default: "5",
    ...integer(1, 99),
  }),
  buildDisk: setting({
    key: "build_disk",
    argument: "<amount>",
    help: "disk budget for the images and archives of all apps (BERTH_BUILD_DISK); default: 20Gi",
    default: "20Gi",
    ...bytes("an amount of disk space, such as 20Gi"),
  }),
  uploadLimit: setting({
    key: "upload_limit",
    argument: "<amount>",
    help: "size limit of uploaded archives (BERTH_UPLOAD_LIMIT); default: 512Mi",
    default: "512Mi",
    ...bytes("an amount of data, such as 512Mi"),
  }),
  specsTrust: setting({
    key: "specs_trust",
    argument: "<folder|all|none>",
    help: "spec files that may use folders of the machine: folder (files that only root and this user can write), all, or none (BERTH_SPECS_TRUST); default: folder",
    default: "folder",
    ...choice("folder", "all", "none"),
  }),
  hostPathAllow: setting({
    key: "host_path_allow",
    argument: "<dirs>",
    help: "folders of the machine, separated by commas, that tokens of scope write may mount (BERTH_HOST_PATH_ALLOW); default: none",
    default: undefined,
    ...list(/^\/[^,]*$/u, "absolute folders, separated by commas"),
  }),
  specsGitUrl: setting({
    key: "specs_git_url",
    argument: "<url>",
    help: "git repository to synchronise into the specs folder (BERTH_SPECS_GIT_URL)",
    default: undefined,
    ...text(
      /^((https?|ssh):\/\/[^\s]+|[^\s@/]+@[^\s:/]+:[^\s]+)$/,
      "https://, ssh:// or user@host:path",
    ),
  }),
  specsGitRef: setting({
    key: "specs_git_ref",
    argument: "<ref>",
    help: "branch, tag or commit of the repository (BERTH_SPECS_GIT_REF); default: HEAD",
    default: undefined,
    ...text(/^[^\s]{1,255}$/u, "a branch, a tag or a commit"),
  }),
  specsGitPath: setting({
    key: "specs_git_path",
    argument: "<path>",
    help: "folder of the repository with spec files (BERTH_SPECS_GIT_PATH); default: .",
    default: ".",
    ...text(/^(?!\/)(?!.*(^|\/)\.\.(\/|$)).+$/, "a folder of the repository"),
  }),
  specsGitInterval: setting({
    key: "specs_git_interval",
    argument: "<duration>",
    help: "interval at which the repository is checked (BERTH_SPECS_GIT_INTERVAL); default: 1m",
    default: "1m",
    ...duration("1m"),
  }),
  specsGitCredential: setting({
    key: "specs_git_credential",
    argument: "<secret>",
    help: "Secret with the credentials of the repository (BERTH_SPECS_GIT_CREDENTIAL)",
    default: undefined,
    ...text(/^(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "the name of a Secret"),
  }),
  assistant: setting({
    key: "assistant",
    argument: "<on|off>",
    help: "start and supervise the assistant (BERTH_ASSISTANT); default: on",
    default: "on",
    ...choice("on", "off"),
  }),
  assistantPort: setting({
    key: "assistant_port",
    argument: "<port>",
    help: "port of the assistant on 127.0.0.1; 0: any (BERTH_ASSISTANT_PORT); default: 7777",
    default: String(defaultPorts.system),
    ...port("0 picks a free one"),
  }),
  assistantDataDir: setting({
    key: "assistant_data_dir",
    argument: "<dir>",
    help: "data directory of the assistant (BERTH_ASSISTANT_DATA_DIR)",
    default: findAssistantDataDir,
    ...folder(),
  }),
  assistantMemory: setting({
    key: "assistant_memory",
    argument: "<amount>",
    help: "memory budget of all models together (BERTH_ASSISTANT_MEMORY)",
    default: undefined,
    ...positiveBytes("an amount of memory, such as 8Gi"),
  }),
  companion: setting({
    key: "companion",
    argument: "<auto|off>",
    help: "start the companion if there is a session bus (BERTH_COMPANION); default: auto",
    default: "auto",
    ...choice("auto", "off"),
  }),
  companionPort: setting({
    key: "companion_port",
    argument: "<port>",
    help: "port of the companion on 127.0.0.1; 0: any (BERTH_COMPANION_PORT); default: 7778",
    default: String(defaultPorts.companion),
    ...port("0 picks a free one"),
  }),
  modelsDisk: setting({
    key: "models_disk",
    argument: "<amount>",
    help: "disk budget for model files that belong to no Model (BERTH_MODELS_DISK); default: 50Gi",
    default: "50Gi",
    ...bytes("an amount of disk space, such as 50Gi"),
  }),
  modelsBandwidth: setting({
    key: "models_bandwidth",
    argument: "<amount>",
    help: "bandwidth limit of downloads in bytes per second, such as 20Mi (BERTH_MODELS_BANDWIDTH); default: no limit",
    default: undefined,
    ...positiveBytes("an amount of data per second, such as 20Mi"),
  }),
  hfEndpoint: setting({
    key: "hf_endpoint",
    variable: "HF_ENDPOINT",
    argument: "<url>",
    help: "address of the hub of models (HF_ENDPOINT); the variable HF_TOKEN has the token",
    default: "https://huggingface.co",
    // HTTP without TLS is allowed only for this machine, because no other machine can read that traffic.
    ...text(
      /^(?=.{1,2048}$)(https:\/\/[^\s/@?#]+|http:\/\/(localhost|127\.[0-9.]+|\[::1\])(:[0-9]{1,5})?)(\/[^\s?#]*)?$/u,
      "an https:// URL without credentials (http:// for this machine only)",
    ),
  }),
  networkPool: setting({
    key: "network_pool",
    argument: "<range>",
    help: "private IPv4 range from which the network of each stack gets a /26 (BERTH_NETWORK_POOL); default: 10.213.0.0/16",
    default: NETWORK_POOL,
    ...text(
      /^(10\.\d{1,3}|172\.(1[6-9]|2\d|3[01])|192\.168)\.(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.0\/(8|9|1\d|2[0-4])$/,
      "a private IPv4 range with a prefix of 8 to 24, such as 10.213.0.0/16",
    ),
  }),
  baseDomain: setting({
    key: "base_domain",
    argument: "<name>",
    help: "domain below which apps without a domain get NAME.DOMAIN (BERTH_BASE_DOMAIN); default: localhost",
    default: "localhost",
    ...text(
      /^(?=.{1,190}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
      "a host name in lower case, such as localhost or apps.example.org",
    ),
  }),
  logFormat: setting({
    key: "log_format",
    argument: "<json|pretty>",
    help: "format of the log (BERTH_LOG_FORMAT)",
    default: ({ isTerminal }) => (isTerminal ? "pretty" : "json"),
    ...choice("json", "pretty"),
  }),
  logLevel: setting({
    key: "log_level",
    argument: "<debug|info|warn|error>",
    help: "level of the log (BERTH_LOG_LEVEL)",
    default: "info",
    ...choice("debug", "info", "warn", "error"),
  }),
};

export type SpecsTrust = NonNullable<ReturnType<typeof serverSettings.specsTrust.parse>>;
export type ServerFlags = SettingFlags<Omit<typeof serverSettings, "dataDir">>;
export type ConfigKey = (typeof serverSettings)[keyof typeof serverSettings]["key"];

/** All settings as a list, for code that treats every setting alike. */
export const serverSettingList: readonly ServerSetting<ConfigKey>[] = Object.values(serverSettings);

/** The secret settings. They are accepted in the environment only, and no output contains their values. */
export const secretSettings = [
  { key: "password", variable: "BERTH_PASSWORD", what: "a password" },
  { key: "hf_token", variable: "HF_TOKEN", what: "a token" },
] as const;

export function getDefaultDataDir({
  environment,
  home,
  userId,
}: Pick<ConfigContext, "environment" | "home" | "userId">): string {
  if (userId === 0) return "/var/lib/berth";
  const state = environment["XDG_STATE_HOME"];
  // A relative path in XDG_STATE_HOME is ignored, as the XDG specification requires.
  return join(state && isAbsolute(state) ? state : join(home, ".local/state"), "berth");
}

/**
 * Returns the default data directory of the assistant: the folder that `berth assistant` uses too, with its models
 * and its ledger.
 */
function findAssistantDataDir(context: ConfigContext): string {
  const { dataDir, environment, workingDirectory, home, userId } = context;
  return dataDir === getDefaultDataDir(context)
    ? resolveAssistantDataDir({ environment, workingDirectory, homeDirectory: home, userId })
    : join(dataDir, "assistant");
}
