import { readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { createClient } from "../../client/rest/client.ts";
import { formatDurationMs } from "../age.ts";
import { localToken, readReadyFile } from "../connect.ts";
import { isAlive } from "../process.ts";
import { assistantFinding, checkAssistantAhead, companionFindings } from "./assistant.ts";
import { type Finding, finding, type Patient, systemCode } from "./check.ts";
import { checkIngressAhead, ingressFinding } from "./ingress.ts";
import { portHolder, tryToListen } from "./ports.ts";

const ANSWER_MS_MAX = 5000;

/** The server of this data directory where one runs; otherwise whether one could start. */
export async function checkServer(patient: Patient): Promise<Finding[]> {
  const { dataDir } = patient.config;
  const ready = readReadyFile(dataDir);
  if (ready === undefined) {
    const holder = lockHolder(dataDir);
    if (holder !== undefined && isAlive(holder))
      return [
        finding(
          "server",
          "warn",
          `process ${holder} holds the data directory, but has not said that it is ready`,
          `wait a moment; if it stays so: kill ${holder}`,
        ),
      ];
    return [
      finding("server", "ok", "none runs here now; `berth up` starts one"),
      await checkPort(patient),
      ...(await checkIngressAhead(patient)),
      ...(await checkAssistantAhead(patient)),
    ];
  }
  if (!isAlive(ready.pid))
    return [
      finding(
        "server",
        "warn",
        `none runs here now; the last one was process ${ready.pid}. Apps go on, and nobody looks after them`,
        "start it again: berth up",
      ),
      await checkPort(patient),
      ...(await checkIngressAhead(patient)),
      ...(await checkAssistantAhead(patient)),
    ];
  try {
    const client = createClient({ baseUrl: ready.api, token: localToken(dataDir) });
    const health = await client.health(AbortSignal.timeout(ANSWER_MS_MAX));
    const text = `${ready.api}, Berth ${health.version}, process ${ready.pid}, up ${formatDurationMs(health.uptime_seconds * 1000)}`;
    const info = await client.system.info();
    return [
      health.status === "ok"
        ? finding("server", "ok", text)
        : finding(
            "server",
            "warn",
            `${text}: ${health.status}, the engine is ${health.runtime}`,
            "mend the engine (see above); the server finds it by itself",
          ),
      ingressFinding(info.ingress, patient),
      assistantFinding(info.assistant),
      ...companionFindings(info.companion),
    ];
  } catch (error) {
    return [
      finding(
        "server",
        "fail",
        `process ${ready.pid} is there, but does not answer at ${ready.api}: ${messageOf(error)}`,
        `see its log; if it hangs: kill ${ready.pid}, then berth up`,
      ),
    ];
  }
}

async function checkPort({ config }: Patient): Promise<Finding> {
  const { host, port } = config.listen;
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (port === 0) return finding("port", "ok", `a free one is picked on ${host}`);
  try {
    await tryToListen(host, port);
    return finding("port", "ok", `${address} is free`);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EADDRINUSE") {
      const holder = portHolder(port);
      return finding(
        "port",
        "fail",
        `${address} is taken${holder === undefined ? "" : ` by ${holder}`}`,
        "stop that program, or choose another port: berth up --listen 127.0.0.1:7780",
      );
    }
    if (code === "EACCES")
      return finding(
        "port",
        "fail",
        `this user may not listen on ${address}`,
        "choose a port above 1023, or run Berth as root",
      );
    if (code === "EADDRNOTAVAIL")
      return finding(
        "port",
        "fail",
        `this machine has no address ${host}`,
        "choose one that it has: --listen 127.0.0.1:7776",
      );
    return finding("port", "fail", `cannot listen on ${address}: ${messageOf(error)}`);
  }
}

function lockHolder(dataDir: string): number | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(dataDir, "run/lock.json"), "utf8"));
    return typeof value === "object" && value !== null && "pid" in value
      ? Number(value.pid)
      : undefined;
  } catch {
    return undefined;
  }
}
