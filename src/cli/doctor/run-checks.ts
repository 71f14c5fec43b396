import { getErrorMessage } from "../../base/errors.ts";
import { isProcessRunning } from "../../base/running-process.ts";
import { type Config, type ConfigInput, loadConfig } from "../../config/config.ts";
import { ConfigError } from "../../config/config-error.ts";
import type { CliIo } from "../io.ts";
import { readReadyFile } from "../server-target.ts";
import { checkCompanion } from "./check-companion.ts";
import { checkEngine } from "./check-engine.ts";
import { checkFirewall } from "./check-firewall.ts";
import { checkDataDir, checkSpecs } from "./check-folders.ts";
import { checkGit } from "./check-ingress.ts";
import { checkServer } from "./check-server.ts";
import { createFinding, type DoctorFinding } from "./finding.ts";

/** Runs all checks. A check that depends on other checks runs after them. */
export async function runChecks(
  io: CliIo,
  flags: NonNullable<ConfigInput["flags"]>,
): Promise<DoctorFinding[]> {
  const findings = [checkNode()];
  let config: Config;
  const input = {
    environment: io.environment,
    workingDirectory: io.workingDirectory,
  };
  try {
    config = loadConfig({ ...input, flags });
    const files = config.files.length === 0 ? "defaults" : config.files.join(", ");
    findings.push(
      config.warnings.length === 0
        ? createFinding("configuration", "ok", files)
        : createFinding(
            "configuration",
            "warn",
            config.warnings.join("\n"),
            "correct or remove these settings",
          ),
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const state = createFinding("configuration", "fail", getErrorMessage(error), error.hint);
    // The other checks need valid settings, so no further check follows invalid ones.
    return [...findings, state];
  }
  const context = {
    config: applyRunningServer(config),
    environment: io.environment,
    nowMs: io.now(),
  };
  return [
    ...findings,
    ...(await checkEngine(context)),
    ...checkDataDir(context),
    ...checkSpecs(context),
    ...(await checkServer(context)),
    ...(await checkCompanion(io)),
    checkGit(context),
    ...checkFirewall(),
  ];
}

/** Uses the engine and the specs folder of the running server, unless flags or settings name others. */
function applyRunningServer(config: Config): Config {
  const ready = readReadyFile(config.dataDir);
  if (ready === undefined || !isProcessRunning(ready.pid)) return config;
  const isDefault = (key: string) =>
    config.values.some((value) => value.key === key && value.source === "default");
  return {
    ...config,
    dockerHost: isDefault("docker_host") ? ready.docker_host : config.dockerHost,
    specsDir: isDefault("specs_dir") ? ready.specs_dir : config.specsDir,
  };
}

function checkNode(): DoctorFinding {
  const version = process.versions.node;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isFit = (major === 22 && minor >= 14) || major === 24 || major >= 26;
  return isFit
    ? createFinding("node", "ok", `${version} (${process.execPath})`)
    : createFinding(
        "node",
        "fail",
        `Berth does not run on ${version}`,
        "install Node.js 22.14 or a newer 22, 24, or 26 or newer",
      );
}
