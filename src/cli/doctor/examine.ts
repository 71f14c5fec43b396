import { messageOf } from "../../base/errors.ts";
import { type Config, type ConfigInput, loadConfig } from "../../config/config.ts";
import { ConfigError } from "../../config/config-error.ts";
import { readReadyFile } from "../connect.ts";
import type { CliIo } from "../io.ts";
import { isAlive } from "../process.ts";
import { type Finding, finding } from "./check.ts";
import { checkCompanion } from "./companion.ts";
import { checkEngine } from "./engine.ts";
import { checkFirewall } from "./firewall.ts";
import { checkDataDir, checkSpecs } from "./folders.ts";
import { checkGit } from "./ingress.ts";
import { checkServer } from "./server.ts";

/** All checks, in the order in which one depends on the other. */
export async function examine(
  io: CliIo,
  flags: NonNullable<ConfigInput["flags"]>,
): Promise<Finding[]> {
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
        ? finding("configuration", "ok", files)
        : finding("configuration", "warn", config.warnings.join("\n"), "correct or unset them"),
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const state = finding("configuration", "fail", messageOf(error), error.hint);
    // What depends on the settings cannot be judged without them.
    return [...findings, state];
  }
  const patient = { config: asItRuns(config), environment: io.environment, nowMs: io.now() };
  return [
    ...findings,
    ...(await checkEngine(patient)),
    ...checkDataDir(patient),
    ...checkSpecs(patient),
    ...(await checkServer(patient)),
    ...(await checkCompanion(io)),
    checkGit(patient),
    ...checkFirewall(),
  ];
}

/** A server that runs here was started with flags of its own: they count where none were given now. */
function asItRuns(config: Config): Config {
  const ready = readReadyFile(config.dataDir);
  if (ready === undefined || !isAlive(ready.pid)) return config;
  const isDefault = (key: string) =>
    config.values.some((value) => value.key === key && value.source === "default");
  return {
    ...config,
    dockerHost: isDefault("docker_host") ? ready.docker_host : config.dockerHost,
    specsDir: isDefault("specs_dir") ? ready.specs_dir : config.specsDir,
  };
}

function checkNode(): Finding {
  const version = process.versions.node;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isFit = (major === 22 && minor >= 14) || major === 24 || major >= 26;
  return isFit
    ? finding("node", "ok", `${version} (${process.execPath})`)
    : finding(
        "node",
        "fail",
        `Berth does not run on ${version}`,
        "install Node.js 22.14 or a newer 22, 24, or 26 or newer",
      );
}
