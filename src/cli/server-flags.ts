import { type Command, Option } from "commander";
import type { ConfigInput } from "../config/config.ts";
import type { Cli } from "./cli.ts";

/** The settings of the server that `up` and `doctor` accept; --data-dir and --config are global options. */
export interface ServerFlags {
  readonly specsDir?: string;
  readonly templatesDir?: string;
  readonly listen?: string;
  readonly dockerHost?: string;
  readonly baseDomain?: string;
  readonly ingress?: string;
  readonly ingressImage?: string;
  readonly httpPort?: string;
  readonly httpsPort?: string;
  readonly acmeEmail?: string;
  readonly buildConcurrency?: string;
  readonly buildMemory?: string;
  readonly buildCpu?: string;
  readonly buildTimeout?: string;
  readonly buildKeep?: string;
  readonly buildDisk?: string;
  readonly uploadLimit?: string;
  readonly specsGitUrl?: string;
  readonly specsGitRef?: string;
  readonly specsGitPath?: string;
  readonly specsGitInterval?: string;
  readonly specsGitCredential?: string;
  readonly assistant?: string;
  readonly assistantPort?: string;
  readonly assistantDataDir?: string;
  readonly assistantMemory?: string;
  readonly companion?: string;
  readonly companionPort?: string;
  readonly modelsDisk?: string;
  readonly modelsBandwidth?: string;
  readonly hfEndpoint?: string;
  readonly logFormat?: string;
  readonly logLevel?: string;
}

/** Each flag with its description, its variable in brackets, and its default if that is fixed. */
const serverOptions: readonly (readonly [flag: string, description: string])[] = [
  ["--specs-dir <dir>", "folder of spec files to watch (BERTH_SPECS_DIR)"],
  ["--templates-dir <dir>", "folder of additional templates (BERTH_TEMPLATES_DIR)"],
  ["--listen <host:port>", "address of the API (BERTH_LISTEN); default: 127.0.0.1:7776"],
  ["--docker-host <url>", "address of the container engine (DOCKER_HOST)"],
  [
    "--base-domain <name>",
    "domain below which apps get their names (BERTH_BASE_DOMAIN); default: localhost",
  ],
  [
    "--ingress <auto|process|container|off>",
    "run Caddy as a process or in a container to route domains to apps (BERTH_INGRESS); default: auto",
  ],
  ["--ingress-image <image>", "image of Caddy (BERTH_INGRESS_IMAGE); default: caddy:2"],
  [
    "--http-port <port>",
    "HTTP port of the ingress; 0: no HTTP (BERTH_HTTP_PORT); default: 80 for root, else 8080",
  ],
  [
    "--https-port <port>",
    "HTTPS port of the ingress; 0: no HTTPS (BERTH_HTTPS_PORT); default: 443 for root, else 8443",
  ],
  ["--acme-email <address>", "contact for the certificate authority (BERTH_ACME_EMAIL)"],
  [
    "--build-concurrency <number>",
    "number of concurrent builds (BERTH_BUILD_CONCURRENCY); default: 1",
  ],
  ["--build-memory <amount>", "memory of one build (BERTH_BUILD_MEMORY); default: no limit"],
  ["--build-cpu <cpus>", "CPUs of one build (BERTH_BUILD_CPU); default: no limit"],
  ["--build-timeout <duration>", "maximum time of one build (BERTH_BUILD_TIMEOUT); default: 30m"],
  [
    "--build-keep <number>",
    "number of images and archives to keep of each app (BERTH_BUILD_KEEP); default: 5",
  ],
  [
    "--build-disk <amount>",
    "disk space for the images and archives of all apps (BERTH_BUILD_DISK); default: 20Gi",
  ],
  ["--upload-limit <amount>", "maximum size of an upload (BERTH_UPLOAD_LIMIT); default: 512Mi"],
  ["--specs-git-url <url>", "repository to check out in the specs folder (BERTH_SPECS_GIT_URL)"],
  [
    "--specs-git-ref <ref>",
    "branch, tag or commit of the repository (BERTH_SPECS_GIT_REF); default: HEAD",
  ],
  [
    "--specs-git-path <path>",
    "folder of the repository with the spec files (BERTH_SPECS_GIT_PATH); default: .",
  ],
  [
    "--specs-git-interval <duration>",
    "interval between fetches of the repository (BERTH_SPECS_GIT_INTERVAL); default: 1m",
  ],
  [
    "--specs-git-credential <secret>",
    "Secret with the credential of the repository (BERTH_SPECS_GIT_CREDENTIAL)",
  ],
  ["--assistant <on|off>", "start and supervise the assistant (BERTH_ASSISTANT); default: on"],
  [
    "--assistant-port <port>",
    "port of the assistant on 127.0.0.1; 0: any free port (BERTH_ASSISTANT_PORT); default: 7777",
  ],
  [
    "--assistant-data-dir <dir>",
    "folder for the assistant's ledger and sockets (BERTH_ASSISTANT_DATA_DIR)",
  ],
  ["--assistant-memory <amount>", "memory for all models together (BERTH_ASSISTANT_MEMORY)"],
  [
    "--companion <auto|off>",
    "start the companion if there is a session bus (BERTH_COMPANION); default: auto",
  ],
  [
    "--companion-port <port>",
    "port of the companion on 127.0.0.1; 0: any free port (BERTH_COMPANION_PORT); default: 7778",
  ],
  [
    "--models-disk <amount>",
    "disk space for model files that no Model uses (BERTH_MODELS_DISK); default: 50Gi",
  ],
  [
    "--models-bandwidth <amount>",
    "maximum download rate per second, such as 20Mi (BERTH_MODELS_BANDWIDTH); default: no limit",
  ],
  ["--hf-endpoint <url>", "hub to download models from (HF_ENDPOINT; its token in HF_TOKEN)"],
  ["--log-format <json|pretty>", "format of the log (BERTH_LOG_FORMAT)"],
  ["--log-level <debug|info|warn|error>", "level of the log (BERTH_LOG_LEVEL)"],
];

/** Adds the options without checks: `loadConfig` validates the values of all sources, with the same messages. */
export function addServerOptions(command: Command): Command {
  for (const [flag, description] of serverOptions) command.addOption(new Option(flag, description));
  return command;
}

export function toConfigFlags(cli: Cli, flags: ServerFlags): NonNullable<ConfigInput["flags"]> {
  return {
    config: cli.globals.config,
    data_dir: cli.globals.dataDir,
    specs_dir: flags.specsDir,
    templates_dir: flags.templatesDir,
    listen: flags.listen,
    docker_host: flags.dockerHost,
    base_domain: flags.baseDomain,
    ingress: flags.ingress,
    ingress_image: flags.ingressImage,
    http_port: flags.httpPort,
    https_port: flags.httpsPort,
    acme_email: flags.acmeEmail,
    build_concurrency: flags.buildConcurrency,
    build_memory: flags.buildMemory,
    build_cpu: flags.buildCpu,
    build_timeout: flags.buildTimeout,
    build_keep: flags.buildKeep,
    build_disk: flags.buildDisk,
    upload_limit: flags.uploadLimit,
    specs_git_url: flags.specsGitUrl,
    specs_git_ref: flags.specsGitRef,
    specs_git_path: flags.specsGitPath,
    specs_git_interval: flags.specsGitInterval,
    specs_git_credential: flags.specsGitCredential,
    assistant: flags.assistant,
    assistant_port: flags.assistantPort,
    assistant_data_dir: flags.assistantDataDir,
    assistant_memory: flags.assistantMemory,
    companion: flags.companion,
    companion_port: flags.companionPort,
    models_disk: flags.modelsDisk,
    models_bandwidth: flags.modelsBandwidth,
    hf_endpoint: flags.hfEndpoint,
    log_format: flags.logFormat,
    log_level: flags.logLevel,
  };
}
