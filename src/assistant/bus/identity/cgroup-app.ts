import type { CallerApp } from "../../caller.ts";

/**
 * Returns the app that a process belongs to, found by its systemd unit in the text of its `/proc/<pid>/cgroup`.
 * Undefined if no unit belongs to an app.
 *
 * Desktops name units `app[-<launcher>]-<app id>-<random>.scope` and `app[-<launcher>]-<app
 * id>[@<random>].service`, with every - of a part written as \x2d; snapd names them `snap.<name>.<app>…`.
 */
export function parseCgroupApp(text: string): CallerApp | undefined {
  const path = getSystemdPath(text);
  // The units are searched from the innermost outwards, because an app may start other units.
  for (const unit of path.split("/").toReversed()) {
    const snap = parseSnapName(unit);
    if (snap !== undefined) return { id: snap, kind: "snap" };
    const app = parseUnitAppId(unit);
    if (app !== undefined) return { id: app, kind: "unit" };
  }
  return undefined;
}

/** Returns the app id if flatpak started the app in this unit: `app-flatpak-<app id>-<pid>.scope`. */
export function parseCgroupFlatpak(text: string): string | undefined {
  const units = getSystemdPath(text).split("/").toReversed();
  const unit = units.find((name) => name.startsWith("app-flatpak-"));
  return unit === undefined ? undefined : parseUnitAppId(unit);
}

/** Returns the name of a snap from a security label, such as `snap.firefox.firefox (enforce)`, or from a unit. */
export function parseSnapName(label: string): string | undefined {
  return /^snap\.([a-z0-9][a-z0-9-]*(?:_[a-z0-9]+)?)\.[A-Za-z0-9]/.exec(label)?.[1];
}

/**
 * Returns the path of a process's cgroup from the text of /proc/PID/cgroup: in the unified hierarchy, or in systemd's
 * own hierarchy of cgroup v1.
 */
function getSystemdPath(text: string): string {
  const lines = text.split("\n");
  const line =
    lines.find((each) => each.startsWith("0::")) ??
    lines.find((each) => each.includes(":name=systemd:"));
  return line?.replace(/^\d+:[^:]*:/, "") ?? "";
}

function parseUnitAppId(unit: string): string | undefined {
  const ending = /\.(scope|service)$/.exec(unit)?.[1];
  if (ending === undefined || !unit.startsWith("app-")) return undefined;
  const name = unit.slice("app-".length, -(ending.length + 1));
  const parts = name.replace(/@.*$/, "").split("-");
  if (ending === "scope") parts.pop(); // the part of the unit's name that makes it unique
  const id = parts.at(-1);
  return id === undefined || id === "" ? undefined : unescapeUnitName(id);
}

function unescapeUnitName(text: string): string {
  const bytes = text.replaceAll(/\\x([0-9a-fA-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}
