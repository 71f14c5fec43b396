// Finds a running container engine for `npm run up`, or installs and starts one. Caddy is installed in the same run of
// apt-get.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  answers,
  DEFAULT_SOCKET,
  engineRequest,
  isDebianLike,
  isRoot,
  OWN_ISOLATION,
  startDockerd,
  which,
} from "./engine.mjs";
import { installWithCaddy } from "./up-caddy.mjs";
import { flag } from "./up-flags.mjs";

/** The longest wait for a service that has just been started. */
const SERVICE_LIMIT_MS = 60_000;

/** Returns the address of an engine that responds. Throws an error that says what to install, start or set. */
export async function ensureEngine(args) {
  const answering = await findEngine(args);
  if (answering === undefined) return start(process.env.BERTH_ENGINE_SOCKET, args);
  await installWithCaddy([], args);
  return answering;
}

async function findEngine(args) {
  const wanted = flag(args, "--docker-host") ?? process.env.DOCKER_HOST;
  if (wanted) {
    if (await answers(wanted)) return wanted;
    throw new Error(
      `no container engine answers at ${wanted}, which --docker-host or DOCKER_HOST names: start it, or leave that unset`,
    );
  }
  const own = process.env.BERTH_ENGINE_SOCKET;
  const sockets = own ? [own] : usualSockets();
  for (const socket of sockets) if (await answers(`unix://${socket}`)) return `unix://${socket}`;
  for (const socket of sockets) await refuseForbidden(socket);
  return undefined;
}

async function start(own, args) {
  if (!isRoot())
    throw new Error(
      `no container engine answers. ${
        which("dockerd") ? "Start it: sudo systemctl start docker" : installHint()
      }, or run \`npm run up\` as root, which does that`,
    );
  if (!which("dockerd") && !isDebianLike())
    throw new Error(`Berth needs a container engine. ${installHint()}`);
  await installWithCaddy(which("dockerd") ? [] : ["docker.io", "ca-certificates"], args);
  const socket = own ?? DEFAULT_SOCKET;
  const host = `unix://${socket}`;
  if (!own && !process.env.BERTH_ENGINE_DATA_ROOT && existsSync("/run/systemd/system")) {
    console.error("berth: starting the service docker");
    spawnSync("systemctl", ["enable", "--now", "docker"], { stdio: ["ignore", 2, 2] });
    const deadline = Date.now() + SERVICE_LIMIT_MS;
    while (!(await answers(host))) {
      if (Date.now() > deadline)
        throw new Error("the service docker did not start: see journalctl -u docker");
      await sleep(200);
    }
    return host;
  }
  const logFile = path.join(dataDir(args), "dockerd.log");
  console.error(`berth: starting the container engine (its log: ${logFile})`);
  const beside = path.dirname(socket);
  await startDockerd({
    socket,
    dataRoot:
      process.env.BERTH_ENGINE_DATA_ROOT ?? (own ? path.join(beside, "data") : "/var/lib/docker"),
    execRoot: own ? path.join(beside, "exec") : "/var/run/docker",
    pidFile: own ? path.join(beside, "docker.pid") : "/var/run/docker.pid",
    logFile,
    ...(own ? { isolation: OWN_ISOLATION } : {}),
  });
  return host;
}

function usualSockets() {
  const runtime = process.env.XDG_RUNTIME_DIR;
  return [
    DEFAULT_SOCKET,
    ...(runtime ? [path.join(runtime, "docker.sock")] : []),
    path.join(os.homedir(), ".docker", "run", "docker.sock"),
  ];
}

/**
 * Throws if the engine's socket exists but this user may not use it. The user then has to join the group `docker`;
 * starting a second engine would not help.
 */
async function refuseForbidden(socket) {
  try {
    await engineRequest(`unix://${socket}`, { path: "/_ping", limitMs: 5_000 });
  } catch (error) {
    if (error.code === "EACCES" || error.code === "EPERM")
      throw new Error(
        `a container engine runs, but you may not use ${socket}: sudo usermod -aG docker ${os.userInfo().username}, and log in again`,
        { cause: error },
      );
  }
}

function installHint() {
  if (process.platform === "darwin")
    return "Install Docker Desktop, OrbStack or Colima, and start it";
  if (isDebianLike()) return "Install it: sudo apt-get install docker.io";
  return "Install Docker (https://docs.docker.com/engine/install/), or Podman with its docker socket";
}

/**
 * Returns the data directory of Berth, by the same rules as src/config/server-settings.ts; the log of the engine is in
 * it.
 */
function dataDir(args) {
  return path.resolve(
    flag(args, "--data-dir") ??
      process.env.BERTH_DATA_DIR ??
      (isRoot() ? "/var/lib/berth" : path.join(os.homedir(), ".local", "state", "berth")),
  );
}
