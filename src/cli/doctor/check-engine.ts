import { readFileSync, statSync } from "node:fs";
import { request } from "node:http";
import { getErrorMessage } from "../../base/errors.ts";
import {
  createFinding,
  type DoctorContext,
  type DoctorFinding,
  systemErrorCode,
} from "./finding.ts";

const CHECK = "engine";
const ANSWER_MS_MAX = 5000;
/** The API version of Docker 20.10, the first version that supports all the calls that Berth makes. */
const API_VERSION_MIN = "1.41";
/**
 * The largest tolerated difference between the clocks of the engine and of this machine. A larger difference makes
 * ages, delays and the validity of certificates wrong.
 */
const SKEW_MS_MAX = 5000;

export async function checkEngine({ config, nowMs }: DoctorContext): Promise<DoctorFinding[]> {
  const host = config.dockerHost;
  try {
    const version = await requestEngine(host, "/version");
    const api = textOrEmpty(version["ApiVersion"]);
    const name = `${textOrEmpty(version["Version"]) || "an engine"} at ${host}, API ${api || "unknown"}`;
    const findings = [
      isOlderVersion(api, API_VERSION_MIN)
        ? createFinding(
            CHECK,
            "fail",
            `${name}: Berth needs API ${API_VERSION_MIN} or newer`,
            "install Docker 20.10 or newer",
          )
        : createFinding(CHECK, "ok", name),
    ];
    const info = await requestEngine(host, "/info");
    const engineMs = Date.parse(textOrEmpty(info["SystemTime"]));
    findings.push(...createClockFindings(engineMs, nowMs));
    return findings;
  } catch (error) {
    return [unreachableFinding(host, error), ...createClockFindings(Number.NaN, nowMs)];
  }
}

function createClockFindings(engineMs: number, nowMs: number): DoctorFinding[] {
  const year = new Date(nowMs).getUTCFullYear();
  if (year < 2025)
    return [
      createFinding(
        "clock",
        "fail",
        `the clock of this machine shows the year ${year}`,
        "set the clock: timedatectl set-ntp true",
      ),
    ];
  const skewMs = Number.isNaN(engineMs) ? 0 : Math.abs(engineMs - Date.now());
  if (skewMs > SKEW_MS_MAX)
    return [
      createFinding(
        "clock",
        "warn",
        `the engine's clock differs from this machine's by ${Math.round(skewMs / 1000)} s`,
        "synchronise both: timedatectl set-ntp true",
      ),
    ];
  return [createFinding("clock", "ok", new Date(nowMs).toISOString())];
}

function unreachableFinding(host: string, error: unknown): DoctorFinding {
  const path = host.startsWith("unix://") ? host.slice("unix://".length) : undefined;
  const code = systemErrorCode(error);
  if (path === undefined)
    return createFinding(
      CHECK,
      "fail",
      `no engine answers at ${host}: ${getErrorMessage(error)}`,
      "check DOCKER_HOST or --docker-host, and the network to that host",
    );
  if (code === "ENOENT")
    return createFinding(
      CHECK,
      "fail",
      `there is no engine socket ${path}`,
      "install an engine (Debian: sudo apt install docker.io), or name its socket with --docker-host or DOCKER_HOST",
    );
  if (code === "EACCES" || code === "EPERM") {
    const group = findFileGroup(path);
    return createFinding(
      CHECK,
      "fail",
      `this user may not use ${path}${group === undefined ? "" : `, which belongs to the group ${group}`}`,
      group === undefined
        ? "run Berth as a user who may use the socket"
        : `sudo usermod -aG ${group} "$USER", then log out and in again`,
    );
  }
  if (code === "ECONNREFUSED")
    return createFinding(
      CHECK,
      "fail",
      `${path} exists, but no engine listens on it`,
      "start the engine: sudo systemctl start docker",
    );
  if (code === "ENOTSOCK" || code === "EISDIR")
    return createFinding(
      CHECK,
      "fail",
      `${path} is not a socket`,
      "check DOCKER_HOST or --docker-host",
    );
  return createFinding(
    CHECK,
    "fail",
    `the engine at ${path} does not answer: ${getErrorMessage(error)}`,
    "read the engine's log: sudo journalctl -u docker -n 50",
  );
}

/**
 * Sends a request to the container engine with Node's HTTP client, because the command line does not import the
 * server's client of the engine.
 */
function requestEngine(host: string, path: string): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const target = host.startsWith("unix://")
      ? { socketPath: host.slice("unix://".length), path, headers: { host: "docker" } }
      : requestTarget(host, path);
    const outgoing = request({ ...target, timeout: ANSWER_MS_MAX }, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => {
        text += chunk;
      });
      incoming.on("error", reject);
      incoming.on("end", () => {
        try {
          const value: unknown = JSON.parse(text);
          if (typeof value !== "object" || value === null || incoming.statusCode !== 200)
            throw new Error(`the engine answered with status ${incoming.statusCode ?? "unknown"}`);
          resolve(Object.fromEntries(Object.entries(value)));
        } catch (error) {
          reject(error instanceof SyntaxError ? new Error("its answer is not JSON") : error);
        }
      });
    });
    outgoing.on("timeout", () =>
      outgoing.destroy(new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`)),
    );
    outgoing.on("error", reject);
    outgoing.end();
  });
}

function requestTarget(host: string, path: string) {
  const url = new URL(host.replace(/^tcp:/, "http:"));
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port || "2375", path };
}

function findFileGroup(path: string): string | undefined {
  try {
    const { gid } = statSync(path);
    const line = readFileSync("/etc/group", "utf8")
      .split("\n")
      .find((entry) => entry.split(":")[2] === String(gid));
    return line?.split(":")[0];
  } catch {
    return undefined;
  }
}

function isOlderVersion(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [majorMin = 0, minorMin = 0] = than.split(".").map(Number);
  return major < majorMin || (major === majorMin && minor < minorMin);
}

function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}
