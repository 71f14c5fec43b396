import { request } from "node:http";
import { getAssistantControlSocket } from "../../base/assistant-paths.ts";
import { isMusl, MUSL_NOTICE } from "../../base/c-library.ts";
import { getErrorMessage } from "../../base/errors.ts";
import type { SystemInfo } from "../../resources/wire/system.ts";
import { describeAssistant } from "../status/server-facts.ts";
import {
  createFinding,
  type DoctorContext,
  type DoctorFinding,
  systemErrorCode,
} from "./finding.ts";
import { findPortHolder, tryToListen } from "./port-probe.ts";

const CHECK = "assistant";
const WITH_GLIBC =
  "to run models, use a system with glibc, such as Debian or Ubuntu; --assistant off disables the assistant";
const ANSWER_MS_MAX = 2_000;
/**
 * The longest path of a Unix socket. `sun_path` holds 108 bytes on Linux and 104 on macOS, with the terminating zero.
 */
const SOCKET_PATH_BYTES_MAX = 103;

/** Checks the assistant of a running server, from what the server reports. */
export function createAssistantFinding(assistant: SystemInfo["assistant"]): DoctorFinding {
  const { level, text } = describeAssistant(assistant);
  const message = assistant.pid === null ? text : `${text} (process ${assistant.pid})`;
  if (level !== "warn") return createFinding(CHECK, "ok", message);
  return assistant.state === "up"
    ? createFinding(CHECK, "warn", message, WITH_GLIBC)
    : createFinding(
        CHECK,
        "warn",
        message,
        "read the server's log; apps run without the assistant, models do not",
      );
}

/** Reports a companion that the running server cannot start. `checkCompanion` inspects a companion that runs. */
export function createCompanionFindings({
  state,
  starts,
  message,
}: SystemInfo["companion"]): DoctorFinding[] {
  // A companion that has failed and is being started again is reported as failed.
  const isRetrying = state === "starting" && starts > 1;
  if (state !== "waiting" && !isRetrying) return [];
  return [
    createFinding(
      "companion",
      "warn",
      `the server could not start the companion: ${message ?? "its log says why"}`,
      "the server works without the companion; --companion off disables it",
    ),
  ];
}

/** Checks, on a machine without a running server, whether a server could start its assistant. */
export async function checkAssistantStart({ config }: DoctorContext): Promise<DoctorFinding[]> {
  const { assistant } = config;
  if (assistant && isMusl()) return [createFinding(CHECK, "warn", MUSL_NOTICE, WITH_GLIBC)];
  if (!assistant) return [createFinding(CHECK, "ok", "off: no model can run")];
  const socket = getAssistantControlSocket(assistant.dataDir);
  if (Buffer.byteLength(socket) > SOCKET_PATH_BYTES_MAX)
    return [
      createFinding(
        CHECK,
        "fail",
        `the path of the assistant's control socket is longer than ${SOCKET_PATH_BYTES_MAX} bytes: ${socket}`,
        "choose a shorter data directory with --assistant-data-dir",
      ),
    ];
  try {
    await requestState(socket);
    return [
      createFinding(
        CHECK,
        "ok",
        `an assistant already runs on ${assistant.dataDir}; \`berth up\` uses it`,
      ),
    ];
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === "EACCES" || code === "EPERM")
      return [
        createFinding(
          CHECK,
          "fail",
          `this user may not open the control socket ${socket} of the assistant`,
          "run Berth as the user who runs the assistant, or choose another --assistant-data-dir",
        ),
      ];
    if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "ECONNREFUSED")
      return [
        createFinding(
          CHECK,
          "warn",
          `a process listens on the control socket ${socket} of the assistant, but does not answer: ${getErrorMessage(error)}`,
          "read the log of that process; if it hangs, kill it: `berth up` starts another assistant",
        ),
      ];
  }
  return [await checkPort(assistant.port)];
}

async function checkPort(port: number): Promise<DoctorFinding> {
  if (port === 0)
    return createFinding(CHECK, "ok", "`berth up` starts the assistant on a free port");
  try {
    await tryToListen("127.0.0.1", port);
    return createFinding(
      CHECK,
      "ok",
      `\`berth up\` starts the assistant; 127.0.0.1:${port} is free`,
    );
  } catch (error) {
    const holder = systemErrorCode(error) === "EADDRINUSE" ? findPortHolder(port) : undefined;
    return createFinding(
      CHECK,
      "warn",
      `127.0.0.1:${port} is not available${holder === undefined ? "" : `: it is taken by ${holder}`}; the assistant waits until it is`,
      "stop that program, choose another port with --assistant-port, or --assistant off",
    );
  }
}

/**
 * Requests the state of the assistant. Rejects with the system's error, or with an error that names the unexpected
 * status.
 */
function requestState(socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { socketPath, path: "/state", signal: AbortSignal.timeout(ANSWER_MS_MAX) },
      (response) => {
        response.resume();
        if (response.statusCode === 200) resolve();
        else reject(new Error(`it answers with status ${response.statusCode}`));
      },
    );
    outgoing.once("error", reject);
    outgoing.end();
  });
}
