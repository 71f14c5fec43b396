import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { programSearchPath } from "../../config/config.ts";
import type { SystemInfo } from "../../resources/wire/system.ts";
import { isAlive } from "../process.ts";
import { type Finding, finding, type Patient, systemCode } from "./check.ts";
import { portHolder, tryToListen } from "./ports.ts";

const CHECK = "ingress";

/** What a server that runs says of its ingress. */
export function ingressFinding(ingress: SystemInfo["ingress"], { config }: Patient): Finding {
  const { mode, ready, message } = ingress;
  if (ready) return finding(CHECK, "ok", message);
  if (mode !== "off") return finding(CHECK, "fail", message);
  return finding(CHECK, config.ingress === "off" ? "ok" : "warn", message);
}

/** Without a server: whether it could have the ingress that it is set to. */
export async function checkIngressAhead(patient: Patient): Promise<Finding[]> {
  const { config, environment } = patient;
  if (config.ingress === "off")
    return [finding(CHECK, "ok", "off: apps are published on loopback ports")];
  const ports = [
    ...(config.httpPort === undefined ? [] : [["--http-port", config.httpPort] as const]),
    ...(config.httpsPort === undefined ? [] : [["--https-port", config.httpsPort] as const]),
  ];
  const running = caddyOf(config.dataDir);
  if (running !== undefined)
    return [finding(CHECK, "ok", `its Caddy (process ${running}) runs on, and serves the apps`)];
  return [
    caddyFinding(patient, findProgram("caddy", programSearchPath(environment))),
    ...(await Promise.all(ports.map(([flag, port]) => checkIngressPort(flag, port)))),
  ];
}

/** Repositories over https need none; those over ssh do. */
export function checkGit({ environment }: Patient): Finding {
  const searchPath = programSearchPath(environment);
  const missing = ["git", "ssh"].filter((name) => findProgram(name, searchPath) === undefined);
  return missing.length === 0
    ? finding("git", "ok", "git and ssh are there, for repositories over ssh")
    : finding(
        "git",
        "warn",
        `there is no ${missing.join(" and no ")}: repositories over https can be built, those over ssh cannot`,
        "sudo apt-get install git openssh-client",
      );
}

function caddyFinding({ config }: Patient, program: string | undefined): Finding {
  const image = `in a container of ${config.ingressImage}`;
  if (config.ingress === "container") return finding(CHECK, "ok", `Caddy runs ${image}`);
  if (program !== undefined) return finding(CHECK, "ok", `Caddy is there: ${program}`);
  return config.ingress === "process"
    ? finding(
        CHECK,
        "fail",
        "there is no caddy on this machine",
        "sudo apt-get install caddy, or --ingress container",
      )
    : finding(
        CHECK,
        "warn",
        `there is no caddy on this machine; it runs ${image} where that can be pulled`,
        "sudo apt-get install caddy; without either, apps are published on loopback ports",
      );
}

async function checkIngressPort(flag: string, port: number): Promise<Finding> {
  const check = flag.slice(2).replace("-", " ");
  try {
    await tryToListen(undefined, port);
    return finding(check, "ok", `${port} is free`);
  } catch (error) {
    const code = systemCode(error);
    const other = port === 443 ? 8443 : 8080;
    if (code === "EACCES")
      return finding(
        check,
        "fail",
        `this user may not listen on ${port}`,
        `another one: ${flag} ${other}; or run Berth as root`,
      );
    if (code !== "EADDRINUSE")
      return finding(check, "fail", `cannot listen on ${port}: ${messageOf(error)}`);
    const holder = portHolder(port);
    const text = `${port} is taken${holder === undefined ? "" : ` by ${holder}`}`;
    // Ports of containers are held by the engine, those of Berth's own Caddy too.
    return holder?.startsWith("docker-proxy") === true
      ? finding(check, "warn", text, "`docker ps` tells by which container; Berth's own is fine")
      : finding(check, "fail", text, `stop that program, or choose another port: ${flag} ${other}`);
  }
}

/** The process that an earlier server has left running for its apps. */
function caddyOf(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(dataDir, "ingress/caddy.pid"), "utf8"));
    return Number.isSafeInteger(pid) && pid > 1 && isAlive(pid) ? pid : undefined;
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
