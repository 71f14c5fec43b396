import { COMPANION_UNIT, companionBusNames } from "../../../base/companion-names.ts";

/** First line of each file that the installation writes, and by which it knows them again. */
export const MARK =
  "# Written by `berth assistant install`; `berth assistant uninstall` takes it away.";

/** By which systemd knows that all names are there: the one that is taken last. */
const LAST_NAME = companionBusNames[companionBusNames.length - 1];

/** A unit that is up as soon as the companion can be called, and comes again where it fails. */
export function unitText(argv: readonly string[]): string {
  return `${MARK}
[Unit]
Description=Berth's companion: assistant on the session bus and on 127.0.0.1
Requires=dbus.socket
After=dbus.socket

[Service]
Type=dbus
BusName=${LAST_NAME}
ExecStart=${argv.map((word) => unitWord(word)).join(" ")}
Restart=on-failure
RestartSec=2
UMask=0077

[Install]
WantedBy=default.target
`;
}

/** Has the bus start the unit for whoever calls the name first; without systemd, the program itself. */
export function serviceText(name: string, argv: readonly string[]): string {
  return `${MARK}
[D-BUS Service]
Name=${name}
Exec=${argv.map((word) => serviceWord(word)).join(" ")}
SystemdService=${COMPANION_UNIT}
`;
}

/** systemd.service(5): quoted in the manner of C, % and $ doubled. */
function unitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** The D-Bus specification: split as a shell would, without expanding anything. */
function serviceWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `"${word.replaceAll(/["\\$`]/g, "\\$&")}"`;
}

/** The program that a unit's text starts, as far as it is one of `unitText`; undefined: no line says so. */
export function programOf(unit: string): readonly string[] | undefined {
  const line = unit.split("\n").find((text) => text.startsWith("ExecStart="));
  if (line === undefined) return undefined;
  const words = line.slice("ExecStart=".length).match(/"(?:[^"\\]|\\.)*"|[^\s"]+/g) ?? [];
  return words.map((word) =>
    (word.startsWith('"') ? word.slice(1, -1).replaceAll(/\\(.)/g, "$1") : word)
      .replaceAll("%%", "%")
      .replaceAll("$$", "$"),
  );
}
