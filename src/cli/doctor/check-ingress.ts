import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { getErrorMessage } from "../../base/errors.ts";
import { isProcessRunning } from "../../base/running-process.ts";
import { getProgramSearchPath } from "../../config/config.ts";
import type { SystemInfo } from "../../resources/wire/system.ts";
import { describeIngress } from "../status/server-facts.ts";
import {
  createFinding,
  type DoctorContext,
  type DoctorFinding,
  systemErrorCode,
} from "./finding.ts";
import { findPortHolder, tryToListen } from "./port-probe.ts";

const CHECK = "ingress";

/** Checks the ingress of a running server, from what the server reports. */
export function createIngressFinding(
  ingress: SystemInfo["ingress"],
  { config }: DoctorContext,
): DoctorFinding {
  const { level, text } = describeIngress(ingress);
  const state = level === "off" ? (config.ingress === "off" ? "ok" : "warn") : level;
  return createFinding(CHECK, state, text);
}

/** Checks the address of the API through the ingress, if there is one. */
export function createApiFindings(ingress: SystemInfo["ingress"]): DoctorFinding[] {
  const { api_url: url, api_problem: problem } = ingress;
  if (url === null) return [];
  return [
    problem === null
      ? createFinding("api domain", "ok", url)
      : createFinding("api domain", "warn", `${url} does not work yet: ${problem}`),
  ];
}

/** Checks, on a machine without a running server, whether a server could start the configured ingress. */
export async function checkIngressStart(context: DoctorContext): Promise<DoctorFinding[]> {
  const { config, environment } = context;
  if (config.ingress === "off")
    return [createFinding(CHECK, "ok", "off: apps are published on loopback ports")];
  const ports = [
    ...(config.httpPort === undefined ? [] : [["--http-port", config.httpPort] as const]),
    ...(config.httpsPort === undefined ? [] : [["--https-port", config.httpsPort] as const]),
  ];
  const running = findRunningCaddy(config.dataDir);
  if (running !== undefined)
    return [
      createFinding(
        CHECK,
        "ok",
        `the server's Caddy (process ${running}) still runs, and serves the apps`,
      ),
    ];
  return [
    createCaddyFinding(context, findProgram("caddy", getProgramSearchPath(environment))),
    ...(await Promise.all(ports.map(([flag, port]) => checkIngressPort(flag, port)))),
  ];
}

/** Checks git and ssh. Repositories over ssh need both; those over https need neither. */
export function checkGit({ environment }: DoctorContext): DoctorFinding {
  const searchPath = getProgramSearchPath(environment);
  const missing = ["git", "ssh"].filter((name) => findProgram(name, searchPath) === undefined);
  return missing.length === 0
    ? createFinding("git", "ok", "git and ssh are installed, for repositories over ssh")
    : createFinding(
        "git",
        "warn",
        `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not installed: repositories over https can be built, those over ssh cannot`,
        "sudo apt-get install git openssh-client",
      );
}

function createCaddyFinding({ config }: DoctorContext, program: string | undefined): DoctorFinding {
  const image = `in a container of ${config.ingressImage}`;
  if (config.ingress === "container") return createFinding(CHECK, "ok", `Caddy runs ${image}`);
  if (program !== undefined) return createFinding(CHECK, "ok", `Caddy is installed: ${program}`);
  return config.ingress === "process"
    ? createFinding(
        CHECK,
        "fail",
        "caddy is not installed on this machine",
        "sudo apt-get install caddy, or --ingress container",
      )
    : createFinding(
        CHECK,
        "warn",
        `caddy is not installed on this machine; Berth runs ${image} in its place if that image can be pulled`,
        "sudo apt-get install caddy; without caddy and its image, apps are published on loopback ports",
      );
}

async function checkIngressPort(flag: string, port: number): Promise<DoctorFinding> {
  const check = flag.slice(2).replace("-", " ");
  try {
    await tryToListen(undefined, port);
    return createFinding(check, "ok", `${port} is free`);
  } catch (error) {
    const code = systemErrorCode(error);
    const other = port === 443 ? 8443 : 8080;
    if (code === "EACCES")
      return createFinding(
        check,
        "fail",
        `this user may not listen on ${port}`,
        `choose another port: ${flag} ${other}; or run Berth as root`,
      );
    if (code !== "EADDRINUSE")
      return createFinding(check, "fail", `cannot listen on ${port}: ${getErrorMessage(error)}`);
    const holder = findPortHolder(port);
    const text = `${port} is taken${holder === undefined ? "" : ` by ${holder}`}`;
    // If docker-proxy listens, the port belongs to a container, which may be Berth's own Caddy, so this is only a
    // warning.
    return holder?.startsWith("docker-proxy") === true
      ? createFinding(
          check,
          "warn",
          text,
          "`docker ps` shows the container; if it is Berth's own Caddy, nothing needs to change",
        )
      : createFinding(
          check,
          "fail",
          text,
          `stop that program, or choose another port: ${flag} ${other}`,
        );
  }
}

/** Returns the id of the Caddy process that an earlier server has left running for its apps. */
function findRunningCaddy(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(dataDir, "ingress/caddy.pid"), "utf8"));
    return Number.isSafeInteger(pid) && pid > 1 && isProcessRunning(pid) ? pid : undefined;
  } catch {
    return undefined;
  }
}

function findProgram(name: string, searchPath: string): string | undefined {
  return searchPath
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, name))
    .find((file) => isRunnable(file));
}

function isRunnable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
