import { type Command, Option } from "commander";
import type { ConfigInput } from "../base/config.ts";
import type { Cli } from "./cli.ts";

/** Settings of the server that `up` and `doctor` take; --data-dir and --config stand before any verb. */
export interface ServerFlags {
  readonly specsDir?: string;
  readonly templatesDir?: string;
  readonly listen?: string;
  readonly dockerHost?: string;
  readonly ingress?: string;
  readonly assistant?: string;
  readonly baseDomain?: string;
  readonly logFormat?: string;
  readonly logLevel?: string;
}

/** Values are checked with all other sources in one place, so that the messages are the same. */
export function addServerOptions(command: Command): Command {
  return command
    .addOption(new Option("--specs-dir <dir>", "folder of spec files to follow (BERTH_SPECS_DIR)"))
    .addOption(new Option("--templates-dir <dir>", "more templates (BERTH_TEMPLATES_DIR)"))
    .addOption(
      new Option(
        "--listen <host:port>",
        "address of the API (BERTH_LISTEN); default: 127.0.0.1:7776",
      ),
    )
    .addOption(new Option("--docker-host <url>", "container engine (DOCKER_HOST)"))
    .addOption(new Option("--ingress <off|caddy>", "what routes domains to apps (BERTH_INGRESS)"))
    .addOption(new Option("--assistant <on|off>", "the assistant (BERTH_ASSISTANT)"))
    .addOption(
      new Option(
        "--base-domain <name>",
        "apps get NAME.<this> (BERTH_BASE_DOMAIN); default: localhost",
      ),
    )
    .addOption(new Option("--log-format <json|pretty>", "form of the log (BERTH_LOG_FORMAT)"))
    .addOption(new Option("--log-level <level>", "debug, info, warn or error (BERTH_LOG_LEVEL)"));
}

export function serverFlags(cli: Cli, flags: ServerFlags): NonNullable<ConfigInput["flags"]> {
  return {
    config: cli.globals.config,
    data_dir: cli.globals.dataDir,
    specs_dir: flags.specsDir,
    templates_dir: flags.templatesDir,
    listen: flags.listen,
    docker_host: flags.dockerHost,
    ingress: flags.ingress,
    assistant: flags.assistant,
    base_domain: flags.baseDomain,
    log_format: flags.logFormat,
    log_level: flags.logLevel,
  };
}
