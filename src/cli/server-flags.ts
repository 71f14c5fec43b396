import { type Command, Option } from "commander";
import type { ConfigInput } from "../config/config.ts";
import type { Cli } from "./cli.ts";

/** Settings of the server that `up` and `doctor` take; --data-dir and --config stand before any verb. */
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

/** Flag, its variable in brackets, and the default where there is one that always holds. */
const serverOptions: readonly (readonly [flag: string, description: string])[] = [
  ["--specs-dir <dir>", "folder of spec files to follow (BERTH_SPECS_DIR)"],
  ["--templates-dir <dir>", "more templates (BERTH_TEMPLATES_DIR)"],
  ["--listen <host:port>", "address of the API (BERTH_LISTEN); default: 127.0.0.1:7776"],
  ["--docker-host <url>", "container engine (DOCKER_HOST)"],
  ["--base-domain <name>", "apps get NAME.<this> (BERTH_BASE_DOMAIN); default: localhost"],
  [
    "--ingress <auto|process|container|off>",
    "Caddy of this machine, or in a container, leads domains to apps (BERTH_INGRESS); default: auto",
  ],
  ["--ingress-image <image>", "Caddy's image (BERTH_INGRESS_IMAGE); default: caddy:2"],
  [
    "--http-port <port>",
    "the ingress's; 0: no HTTP (BERTH_HTTP_PORT); default: 80 for root, else 8080",
  ],
  [
    "--https-port <port>",
    "the ingress's; 0: no HTTPS (BERTH_HTTPS_PORT); default: 443 for root, else 8443",
  ],
  ["--acme-email <address>", "told to the certificate authority (BERTH_ACME_EMAIL)"],
  ["--build-concurrency <number>", "builds at once (BERTH_BUILD_CONCURRENCY); default: 1"],
  ["--build-memory <amount>", "of one build (BERTH_BUILD_MEMORY); default: no limit"],
  ["--build-cpu <cpus>", "of one build (BERTH_BUILD_CPU); default: no limit"],
  ["--build-timeout <duration>", "of one build (BERTH_BUILD_TIMEOUT); default: 30m"],
  ["--build-keep <number>", "images and archives kept of each app (BERTH_BUILD_KEEP); default: 5"],
  ["--build-disk <amount>", "images and archives of all apps (BERTH_BUILD_DISK); default: 20Gi"],
  ["--upload-limit <amount>", "largest archive to upload (BERTH_UPLOAD_LIMIT); default: 512Mi"],
  ["--specs-git-url <url>", "repository to keep in the specs folder (BERTH_SPECS_GIT_URL)"],
  ["--specs-git-ref <ref>", "its branch, tag or commit (BERTH_SPECS_GIT_REF); default: HEAD"],
  ["--specs-git-path <path>", "its folder with spec files (BERTH_SPECS_GIT_PATH); default: ."],
  [
    "--specs-git-interval <duration>",
    "how often it is looked at (BERTH_SPECS_GIT_INTERVAL); default: 1m",
  ],
  ["--specs-git-credential <secret>", "Secret to fetch it with (BERTH_SPECS_GIT_CREDENTIAL)"],
  ["--assistant <on|off>", "start it, and look after it (BERTH_ASSISTANT); default: on"],
  ["--assistant-port <port>", "on 127.0.0.1; 0: any (BERTH_ASSISTANT_PORT); default: 7777"],
  ["--assistant-data-dir <dir>", "its ledger and sockets (BERTH_ASSISTANT_DATA_DIR)"],
  ["--assistant-memory <amount>", "of all its models together (BERTH_ASSISTANT_MEMORY)"],
  ["--companion <auto|off>", "where there is a session bus (BERTH_COMPANION); default: auto"],
  ["--companion-port <port>", "on 127.0.0.1; 0: any (BERTH_COMPANION_PORT); default: 7778"],
  ["--models-disk <amount>", "model files that nothing names (BERTH_MODELS_DISK); default: 50Gi"],
  [
    "--models-bandwidth <amount>",
    "downloaded in a second, such as 20Mi (BERTH_MODELS_BANDWIDTH); default: no limit",
  ],
  ["--hf-endpoint <url>", "hub of models (HF_ENDPOINT; a token in HF_TOKEN)"],
  ["--log-format <json|pretty>", "form of the log (BERTH_LOG_FORMAT)"],
  ["--log-level <debug|info|warn|error>", "how much is logged (BERTH_LOG_LEVEL)"],
];

/** Values are checked with all other sources in one place, so that the messages are the same. */
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
