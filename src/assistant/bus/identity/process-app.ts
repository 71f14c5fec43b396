import type { CallerApp } from "../../caller.ts";
import { parseCgroupApp, parseCgroupFlatpak, parseSnapName } from "./cgroup-app.ts";
import type { ProcessFiles } from "./process-files.ts";

/** Of a sandbox that does not say what app it is. */
const UNNAMED_FLATPAK = "flatpak";

/**
 * The app that a process is, as far as the system vouches for it: first the sandboxes, which it cannot
 * leave, then the unit it was started in. `label` is what the bus has of the security module. Rejects where it
 * cannot be found out now: then it is nobody's.
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
    // A process can hide its root from others. One that flatpak started stays what it is.
    const id = parseCgroupFlatpak(cgroup);
    if (id !== undefined) return { id, kind: "flatpak" };
  }
  const snap = parseSnapName(label) ?? parseSnapName(await files.securityLabel(pid));
  return snap === undefined ? parseCgroupApp(cgroup) : { id: snap, kind: "snap" };
}

/** `name=` of `[Application]`. A sandbox without an app in it is one all the same. */
function parseFlatpakName(text: string): string {
  const section = /^\[Application\]$([\s\S]*?)(?=^\[|(?![\s\S]))/m.exec(text)?.[1] ?? "";
  const name = /^name=(.+)$/m.exec(section)?.[1]?.trim();
  return name === undefined || name === "" ? UNNAMED_FLATPAK : name;
}
