import type { CallerApp } from "../../caller.ts";
import { parseCgroupApp, parseCgroupFlatpak, parseSnapName } from "./cgroup-app.ts";
import type { ProcessFiles } from "./process-files.ts";

/** App id for a sandboxed app whose sandbox does not name it. */
const UNNAMED_FLATPAK = "flatpak";

/**
 * Returns the app of a process as far as the system confirms it: first by the sandbox, which the process cannot
 * leave, then by the systemd unit that it was started in. `label` is the security label that the bus reports.
 * Rejects if the app cannot be determined now; the caller is then refused.
 */
export async function identifyProcessApp(
  files: ProcessFiles,
  pid: number,
  label: string,
): Promise<CallerApp | undefined> {
  const cgroup = await files.cgroup(pid);
  const flatpak = await files.flatpakInfo(pid);
  if (flatpak.kind === "flatpak") return { id: parseFlatpakName(flatpak.text), kind: "flatpak" };
  if (flatpak.kind === "odd")
    return { id: parseCgroupFlatpak(cgroup) ?? UNNAMED_FLATPAK, kind: "flatpak" };
  if (flatpak.kind === "hidden") {
    // A process can hide its root directory from other processes. If flatpak started it, its systemd unit still shows
    // that.
    const id = parseCgroupFlatpak(cgroup);
    if (id !== undefined) return { id, kind: "flatpak" };
  }
  const snap = parseSnapName(label) ?? parseSnapName(await files.securityLabel(pid));
  return snap === undefined ? parseCgroupApp(cgroup) : { id: snap, kind: "snap" };
}

/** Reads the key `name` of the group `[Application]`. A sandbox without a name still counts as a sandbox. */
function parseFlatpakName(text: string): string {
  const section = /^\[Application\]$([\s\S]*?)(?=^\[|(?![\s\S]))/m.exec(text)?.[1] ?? "";
  const name = /^name=(.+)$/m.exec(section)?.[1]?.trim();
  return name === undefined || name === "" ? UNNAMED_FLATPAK : name;
}
