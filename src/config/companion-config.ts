import { existsSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { parseXdgDirectory } from "../base/assistant-paths.ts";
import type { Environment } from "../base/process-environment.ts";
import {
  type AssistantConfig,
  type AssistantFlags,
  loadAssistantConfig,
} from "./assistant-config.ts";
import { assistantSettings } from "./assistant-settings.ts";
import { type CompanionFile, readCompanionFile } from "./companion-settings-file.ts";
import { ConfigError } from "./config-error.ts";
import { readSignInConfig, type SignInConfig } from "./sign-in-config.ts";

/** The settings of `berth assistant --user`: the settings of an assistant, and those of the user's session. */
export interface CompanionConfig extends AssistantConfig {
  /** URL of the system instance that runs the models; undefined if the companion runs them itself. */
  readonly upstream: string | undefined;
  /** The folder $XDG_RUNTIME_DIR/assistant, for the sockets of apps and for pipes. Absolute. */
  readonly runtimeDir: string;
  /** Absolute path of the settings file companion.yaml, which need not exist. */
  readonly settingsFile: string;
  /** Content of the settings file when the companion started. */
  readonly settings: CompanionFile;
  /** Addresses for signing in at the built-in providers. */
  readonly signIn: SignInConfig;
  /** The environment variables. They determine where the companion looks for manifests, the session bus and apps. */
  readonly environment: Environment;
  readonly homeDirectory: string;
}

export interface CompanionFlags extends AssistantFlags {
  readonly config?: string | undefined;
}

/** Reads the settings. Throws ConfigError, which names the wrong flag, variable or file. */
export function loadCompanionConfig(input: {
  readonly flags: CompanionFlags;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly isTerminal: boolean;
}): CompanionConfig {
  const { flags, environment, workingDirectory } = input;
  const assistant = loadAssistantConfig({ ...input, flags: { ...flags, user: true } });
  const homeDirectory = environment["HOME"] ?? homedir();
  const settingsFile = flags.config
    ? resolve(workingDirectory, flags.config)
    : join(
        parseXdgDirectory(environment["XDG_CONFIG_HOME"]) ?? join(homeDirectory, ".config"),
        "berth/companion.yaml",
      );
  return Object.freeze({
    ...assistant,
    upstream: resolveUpstream(flags, environment, assistant),
    runtimeDir: join(findRuntimeDirectory(environment), "assistant"),
    settingsFile,
    settings: readCompanionFile(settingsFile, homeDirectory),
    signIn: readSignInConfig(environment["ASSISTANT_OAUTH_CONFIG"]),
    environment,
    homeDirectory,
  });
}

/**
 * Returns the URL of the assistant that runs as the system instance; undefined for a companion that is configured with
 * an engine or a model, because the companion then runs models itself.
 */
function resolveUpstream(
  flags: CompanionFlags,
  environment: Environment,
  assistant: AssistantConfig,
): string | undefined {
  const { variable, flag, parse, default: defaultUrl } = assistantSettings.upstream;
  const given = flags.upstream ?? environment[variable];
  const isOwn = assistant.engine !== "auto" || assistant.models.length > 0;
  if (given !== undefined && isOwn)
    throw new ConfigError(
      "--upstream and a local engine (--engine, --model) exclude each other",
      "omit --upstream to run models in the companion, or omit --engine and --model to run them in the system instance",
    );
  return isOwn ? undefined : parse(given ?? defaultUrl, flag, "");
}

/** Returns a directory in which no other user can create files, for the sockets of apps. */
function findRuntimeDirectory(environment: Environment): string {
  const given = parseXdgDirectory(environment["XDG_RUNTIME_DIR"]);
  if (given) return given;
  const usual = `/run/user/${userInfo().uid}`;
  if (existsSync(usual)) return usual;
  throw new ConfigError(
    "XDG_RUNTIME_DIR is not set, so there is no place for the sockets of apps",
    "log in to a session (loginctl enable-linger keeps one), or set XDG_RUNTIME_DIR to a folder of yours with mode 0700",
  );
}
