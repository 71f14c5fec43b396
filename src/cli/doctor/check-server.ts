import { readFileSync } from "node:fs";
import { join } from "node:path";
import { getErrorMessage } from "../../base/errors.ts";
import { isProcessRunning } from "../../base/running-process.ts";
import { createClient } from "../../client/rest/client.ts";
import { parseListen } from "../../config/config.ts";
import { findPlainExposure } from "../../config/plain-exposure.ts";
import { findKeyExposure } from "../../config/tls-files.ts";
import { formatDurationMs } from "../format-time.ts";
import { readLocalToken, readReadyFile } from "../server-target.ts";
import { describeOtherWriter } from "../status/server-facts.ts";
import {
  checkAssistantStart,
  createAssistantFinding,
  createCompanionFindings,
} from "./check-assistant.ts";
import { checkIngressStart, createApiFindings, createIngressFinding } from "./check-ingress.ts";
import {
  createFinding,
  type DoctorContext,
  type DoctorFinding,
  systemErrorCode,
} from "./finding.ts";
import { findPortHolder, tryToListen } from "./port-probe.ts";

const ANSWER_MS_MAX = 5000;

/** Checks the server that runs on this data directory. If none runs, checks whether one could start. */
export async function checkServer(context: DoctorContext): Promise<DoctorFinding[]> {
  const { dataDir } = context.config;
  const ready = readReadyFile(dataDir);
  if (ready === undefined) {
    const holder = readLockHolder(dataDir);
    if (holder !== undefined && isProcessRunning(holder))
      return [
        createFinding(
          "server",
          "warn",
          `process ${holder} has locked the data directory, but is not ready yet`,
          `wait a moment; if it does not become ready: kill ${holder}`,
        ),
      ];
    return [
      createFinding("server", "ok", "no server runs here now; `berth up` starts one"),
      await checkPort(context),
      ...(await checkIngressStart(context)),
      ...(await checkAssistantStart(context)),
    ];
  }
  if (!isProcessRunning(ready.pid))
    return [
      createFinding(
        "server",
        "warn",
        `no server runs here now; the last one was process ${ready.pid}. Apps keep running, but nothing reconciles them`,
        "start it again: berth up",
      ),
      await checkPort(context),
      ...(await checkIngressStart(context)),
      ...(await checkAssistantStart(context)),
    ];
  try {
    const client = createClient({ baseUrl: ready.api, token: readLocalToken(dataDir) });
    const health = await client.health(AbortSignal.timeout(ANSWER_MS_MAX));
    const text = `${ready.api}, Berth ${health.version}, process ${ready.pid}, up ${formatDurationMs(health.uptime_seconds * 1000)}`;
    const info = await client.system.info();
    const { config: values } = await client.system.config();
    const findValue = (key: string) => values.find((one) => one.key === key)?.value;
    const otherWriter = describeOtherWriter(info.engine);
    return [
      otherWriter !== null
        ? createFinding(
            "server",
            "fail",
            `${text}: ${otherWriter}`,
            "stop one of the two servers (one minute later, this server takes over), or run this server as an instance of its own: berth restore FILE --new-instance",
          )
        : health.status === "ok"
          ? createFinding("server", "ok", text)
          : createFinding(
              "server",
              "warn",
              `${text}: ${health.status}, the engine is ${health.runtime}`,
              "fix the engine (see its finding above); the server reconnects by itself",
            ),
      ...createExposureFinding(findValue),
      createIngressFinding(info.ingress, context),
      ...createApiFindings(info.ingress),
      createAssistantFinding(info.assistant),
      ...createCompanionFindings(info.companion),
    ];
  } catch (error) {
    return [
      createFinding(
        "server",
        "fail",
        `process ${ready.pid} runs, but does not answer at ${ready.api}: ${getErrorMessage(error)}`,
        `read the log of the process; if the process hangs: kill ${ready.pid}, then berth up`,
      ),
    ];
  }
}

function createExposureFinding(
  findValue: (key: string) => string | null | undefined,
): DoctorFinding[] {
  const { host } = parseListen(findValue("listen") ?? "127.0.0.1:0");
  const hasTls = findValue("tls_cert") != null;
  const exposure = findPlainExposure(host, {
    hasTls,
    apiDomain: findValue("api_domain") ?? undefined,
  });
  const keyFile = findValue("tls_key");
  const warnings = [exposure, keyFile == null ? undefined : findKeyExposure({ keyFile })];
  return warnings.flatMap((warning) =>
    warning ? [createFinding("tls", "warn", warning.message, warning.hint)] : [],
  );
}

async function checkPort({ config }: DoctorContext): Promise<DoctorFinding> {
  const { host, port } = config.listen;
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (port === 0) return createFinding("port", "ok", `the server chooses a free port on ${host}`);
  try {
    await tryToListen(host, port);
    return createFinding("port", "ok", `${address} is free`);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === "EADDRINUSE") {
      const holder = findPortHolder(port);
      return createFinding(
        "port",
        "fail",
        `${address} is taken${holder === undefined ? "" : ` by ${holder}`}`,
        "stop that program, or choose another port: berth up --listen 127.0.0.1:7780",
      );
    }
    if (code === "EACCES")
      return createFinding(
        "port",
        "fail",
        `this user may not listen on ${address}`,
        "choose a port above 1023, or run Berth as root",
      );
    if (code === "EADDRNOTAVAIL")
      return createFinding(
        "port",
        "fail",
        `this machine has no address ${host}`,
        "choose an address of this machine: --listen 127.0.0.1:7776",
      );
    return createFinding("port", "fail", `cannot listen on ${address}: ${getErrorMessage(error)}`);
  }
}

function readLockHolder(dataDir: string): number | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(dataDir, "run/lock.json"), "utf8"));
    return typeof value === "object" && value !== null && "pid" in value
      ? Number(value.pid)
      : undefined;
  } catch {
    return undefined;
  }
}
