import type { BusConnection } from "../../../dbus/bus-connection.ts";
import { isDictionary, isList } from "../../../dbus/bus-values.ts";
import { closeFds } from "../../../dbus/descriptors.ts";
import type { BusDictionary, BusValue } from "../../../dbus/port.ts";
import type { Caller } from "../../caller.ts";
import { BusReplyError } from "../bus-reply-error.ts";
import { callBusDaemon } from "../call-bus-daemon.ts";
import type { ConnectionTimes } from "./connection-times.ts";
import { identifyProcessApp } from "./process-app.ts";
import type { ProcessFiles } from "./process-files.ts";

interface ConnectionCredentials {
  readonly uid: number | undefined;
  readonly pid: number | undefined;
  /** Open; newer buses give it, and it stands for that one process whatever becomes of its id. */
  readonly pidfd: number | undefined;
  readonly label: string;
}

/**
 * Who a connection is. Throws BusFault `AccessDenied` for another user's, and for a process that ended before
 * it could be looked at: what it was, a sandboxed app perhaps, nobody can tell any more. BusCallError where
 * the bus does not answer.
 */
export async function identifyCaller(
  connection: string,
  options: {
    readonly bus: BusConnection;
    readonly files: ProcessFiles;
    readonly times: ConnectionTimes;
    readonly uid: number;
    readonly signal: AbortSignal;
  },
): Promise<Caller> {
  const { bus, files, times, signal } = options;
  const [answer] = await callBusDaemon(bus, "GetConnectionCredentials", [connection], signal);
  const { uid, pid, pidfd, label } = parseCredentials(answer);
  try {
    if (uid !== options.uid) {
      throw new BusReplyError(
        "AccessDenied",
        "the companion serves the user whom it runs for, and nobody else",
      );
    }
    if (pid === undefined) return { connection, pid, app: undefined };
    const before = await readProcessIdentity(files, pid, pidfd);
    const app = await identifyProcessApp(files, pid, label);
    const after = await readProcessIdentity(files, pid, pidfd);
    // Without a pidfd: the connection is there still, and was not made before that process was.
    const isThere =
      pidfd !== undefined ||
      (before !== undefined &&
        !(await times.isTooYoung(connection, before, files)) &&
        (await callBusDaemon(bus, "NameHasOwner", [connection], signal))[0] === true);
    if (before === undefined || before !== after || !isThere) {
      throw new BusReplyError(
        "AccessDenied",
        "the calling process ended before it could be identified",
      );
    }
    return { connection, pid, app };
  } finally {
    if (pidfd !== undefined) closeFds([pidfd]);
  }
}

/** The same before and after: it was one process all the time. Undefined: it is gone. */
async function readProcessIdentity(
  files: ProcessFiles,
  pid: number,
  pidfd: number | undefined,
): Promise<string | undefined> {
  if (pidfd !== undefined && (await files.pidOfPidfd(pidfd)) !== pid) return undefined;
  return await files.startTime(pid);
}

function parseCredentials(answer: BusValue | undefined): ConnectionCredentials {
  const given: BusDictionary = answer !== undefined && isDictionary(answer) ? answer : new Map();
  const pid = getNumber(given, "ProcessID");
  const label = given.get("LinuxSecurityLabel")?.value;
  return {
    uid: getNumber(given, "UnixUserID"),
    pid: pid === 0 ? undefined : pid,
    pidfd: getNumber(given, "ProcessFD"),
    label: label !== undefined && isList(label) ? decodeBytes(label) : "",
  };
}

function getNumber(given: BusDictionary, name: string): number | undefined {
  const value = given.get(name)?.value;
  return typeof value === "number" ? value : undefined;
}

/** It ends with a NUL. */
function decodeBytes(bytes: readonly BusValue[]): string {
  const numbers = bytes.filter((byte) => typeof byte === "number");
  return Buffer.from(numbers).toString("utf8").replace(/\0$/, "");
}
