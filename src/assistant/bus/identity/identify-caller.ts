import type { BusConnection } from "../../../dbus/bus-connection.ts";
import { isDictionary, isList } from "../../../dbus/bus-values.ts";
import { closeFds } from "../../../dbus/descriptors.ts";
import type { BusDictionary, BusValue } from "../../../dbus/port.ts";
import type { Caller, CallerApp } from "../../caller.ts";
import { BusReplyError } from "../bus-reply-error.ts";
import { callBusDaemon } from "../call-bus-daemon.ts";
import { parseCgroupApp, parseCgroupFlatpak, parseSnapName } from "./cgroup-app.ts";
import type { ConnectionTimes } from "./connection-times.ts";
import { HiddenFactError, type ProcessFiles } from "./process-files.ts";

interface ConnectionCredentials {
  readonly uid: number | undefined;
  readonly pid: number | undefined;
  /** An open pidfd, which newer buses send. It refers to the connection's process even if the process id is reused. */
  readonly pidfd: number | undefined;
  readonly label: string;
}

/**
 * Identifies the process behind a connection. Throws BusReplyError `AccessDenied` for a process of another user. Also
 * throws it for a process that cannot be identified, or that ended before it was identified, because such a process may
 * belong to a sandboxed app. Throws BusCallError if the bus does not answer.
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
      throw new BusReplyError("AccessDenied", "the companion serves only the user that it runs as");
    }
    if (pid === undefined)
      throw unidentifiedError("the session bus does not know the process id of the caller");
    const before = await readProcessIdentity(files, pid, pidfd);
    const app = await identifyProcessApp(files, pid, label);
    const after = await readProcessIdentity(files, pid, pidfd);
    // Without a pidfd, the process is known only by its id. So the connection must still exist, and must have been made
    // after the process with that id was started.
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

/**
 * Returns the start time of the process. Equal results before and after another query mean that the process id was
 * not reused in between. Undefined if the process has ended.
 */
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

/** Decodes text that ends with a NUL byte. */
function decodeBytes(bytes: readonly BusValue[]): string {
  const numbers = bytes.filter((byte) => typeof byte === "number");
  return Buffer.from(numbers).toString("utf8").replace(/\0$/, "");
}

/** App id for a sandboxed app whose sandbox does not name it. */
const UNNAMED_FLATPAK = "flatpak";

/**
 * Returns the app of a process as far as the system confirms it: first by the sandbox, which the process cannot
 * leave, then by the systemd unit that it was started in. `label` is the security label that the bus reports. Rejects
 * with BusReplyError `AccessDenied` if it stays unknown whether the process is sandboxed, and with another error if the
 * app cannot be determined now.
 */
export async function identifyProcessApp(
  files: ProcessFiles,
  pid: number,
  label: string,
): Promise<CallerApp | undefined> {
  try {
    const cgroup = await files.cgroup(pid);
    const snap = parseSnapName(label) ?? parseSnapName(await files.securityLabel(pid));
    const flatpak = await findFlatpak(files, pid, cgroup, snap !== undefined);
    if (flatpak) return flatpak;
    return snap === undefined ? parseCgroupApp(cgroup) : { id: snap, kind: "snap" };
  } catch (error) {
    if (!(error instanceof HiddenFactError)) throw error;
    throw unidentifiedError(
      "the system shows neither the control group nor the security label of the process",
    );
  }
}

/** Returns the flatpak that a process belongs to; undefined if it certainly belongs to none. */
async function findFlatpak(
  files: ProcessFiles,
  pid: number,
  cgroup: string,
  isSnap: boolean,
): Promise<CallerApp | undefined> {
  const info = await files.flatpakInfo(pid);
  if (info.kind === "flatpak") return parseFlatpakInfo(info.text);
  if (info.kind === "none" || (info.kind === "hidden" && isSnap)) return undefined;
  const id = parseCgroupFlatpak(cgroup);
  if (info.kind === "odd") return { id: id ?? UNNAMED_FLATPAK, kind: "flatpak" };
  // A process hides its root directory from other processes by making itself not dumpable. If flatpak started it, its
  // systemd unit still shows that. A unit of another kind proves nothing, because a sandbox inherits the unit of the
  // program that starts it.
  if (id !== undefined) return { id, kind: "flatpak" };
  throw unidentifiedError(
    "the process hides its root directory, as a process that is not dumpable does, so it may be a sandboxed app",
  );
}

function unidentifiedError(why: string): BusReplyError {
  return new BusReplyError("AccessDenied", `the calling process cannot be identified: ${why}`);
}

/**
 * Returns the app that the file `.flatpak-info` of a sandbox names. A file without a name also means that the process
 * is in a sandbox.
 */
function parseFlatpakInfo(text: string): CallerApp {
  const id = getKey(text, "Application", "name") || UNNAMED_FLATPAK;
  const shared = getKey(text, "Context", "shared").split(";");
  return { id, kind: "flatpak", hasNetwork: shared.includes("network") };
}

/** Returns the value of a key in a group of a key file, such as `[Context]`; "" if it is missing. */
function getKey(text: string, group: string, key: string): string {
  const section =
    new RegExp(`^\\[${group}\\]$([\\s\\S]*?)(?=^\\[|(?![\\s\\S]))`, "m").exec(text)?.[1] ?? "";
  return new RegExp(`^${key}=(.+)$`, "m").exec(section)?.[1]?.trim() ?? "";
}
