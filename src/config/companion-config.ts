import { existsSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { parseXdgDirectory } from "../base/assistant-paths.ts";
import { defaultPorts } from "../base/default-ports.ts";
import type { Environment } from "../base/process-environment.ts";
import {
  type AssistantConfig,
  type AssistantFlags,
  loadAssistantConfig,
} from "./assistant-config.ts";
import { type CompanionFile, readCompanionFile } from "./companion-settings-file.ts";
import { ConfigError } from "./config-error.ts";
import { readSignInConfig, type SignInConfig } from "./sign-in-config.ts";

/** What `berth assistant --user` runs with: as an assistant, and what a person's session gives it. */
export interface CompanionConfig extends AssistantConfig {
  /** The system instance that computes; undefined: this daemon does it itself. */
  readonly upstream: string | undefined;
  /** $XDG_RUNTIME_DIR/assistant: sockets of apps, and pipes. Absolute. */
  readonly runtimeDir: string;
  /** companion.yaml; it need not be there. Absolute. */
  readonly settingsFile: string;
  /** As the settings file was at the start. */
  readonly settings: CompanionFile;
  /** Where the built-in providers sign people in. */
  readonly signIn: SignInConfig;
  /** Where manifests, the bus and apps are looked for. */
  readonly environment: Environment;
  readonly homeDirectory: string;
}

export interface CompanionFlags extends AssistantFlags {
  readonly upstream?: string | undefined;
  readonly config?: string | undefined;
}

const DEFAULT_UPSTREAM = `http://127.0.0.1:${defaultPorts.system}`;

/** Throws ConfigError, which names the flag, the variable or the file. */
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

/** Whoever names an engine or a model wants it here; everybody else has the system instance's. */
function resolveUpstream(
  flags: CompanionFlags,
  environment: Environment,
  assistant: AssistantConfig,
): string | undefined {
  const given = flags.upstream ?? environment["BERTH_ASSISTANT_UPSTREAM"];
  const isOwn = assistant.engine !== "auto" || assistant.models.length > 0;
  if (given !== undefined && isOwn)
    throw new ConfigError(
      "--upstream and an engine of its own (--engine, --model) exclude each other",
      "leave --upstream out to compute here, or the others to have the system instance compute",
    );
  if (isOwn) return undefined;
  const text = given ?? DEFAULT_UPSTREAM;
  const url = URL.parse(text) ?? undefined;
  const isLocal =
    url?.protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname);
  if (!url || !isLocal || url.username !== "" || url.search !== "")
    throw new ConfigError(
      "--upstream must be the address of the system instance on this machine",
      `such as ${DEFAULT_UPSTREAM}; models elsewhere are another matter`,
    );
  return url.origin;
}

/** Sockets may only lie where nobody else can make files. */
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
