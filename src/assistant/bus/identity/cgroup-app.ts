import type { CallerApp } from "../../caller.ts";

/**
 * The app that a process runs as, by the systemd unit it was started in, from the text of its
 * `/proc/<pid>/cgroup`. Undefined for units that are no app's.
 *
 * Desktops name units `app[-<launcher>]-<app id>-<random>.scope` and `app[-<launcher>]-<app id>[@<random>].service`,
 * with every - of a part written as \x2d; snapd names them `snap.<name>.<app>…`.
 */
export function parseCgroupApp(text: string): CallerApp | undefined {
  const path = getSystemdPath(text);
  // The innermost unit, since an app may start others.
  for (const unit of path.split("/").toReversed()) {
    const snap = parseSnapName(unit);
    if (snap !== undefined) return { id: snap, kind: "snap" };
    const app = parseUnitAppId(unit);
    if (app !== undefined) return { id: app, kind: "unit" };
  }
  return undefined;
}

/** Whether the unit is one of those that flatpak starts its apps in: `app-flatpak-<app id>-<pid>.scope`. */
export function parseCgroupFlatpak(text: string): string | undefined {
  const units = getSystemdPath(text).split("/").toReversed();
  const unit = units.find((name) => name.startsWith("app-flatpak-"));
  return unit === undefined ? undefined : parseUnitAppId(unit);
}

/** The name of a snap, from a security label or a unit: `snap.firefox.firefox (enforce)`. */
export function parseSnapName(label: string): string | undefined {
  return /^snap\.([a-z0-9][a-z0-9-]*(?:_[a-z0-9]+)?)\.[A-Za-z0-9]/.exec(label)?.[1];
}

/** Of the one hierarchy, or of systemd's own where there are several. */
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
  if (ending === "scope") parts.pop(); // the random part
  const id = parts.at(-1);
  return id === undefined || id === "" ? undefined : unescapeUnitName(id);
}

function unescapeUnitName(text: string): string {
  const bytes = text.replaceAll(/\\x([0-9a-fA-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}
