import { COMPANION_UNIT, companionBusNames } from "../../../base/companion-names.ts";

/** First line of each file that the installation writes, and by which it knows them again. */
export const GENERATED_MARK =
  "# Written by `berth assistant install`; `berth assistant uninstall` takes it away.";

/** By which systemd knows that all names are there: the one that is taken last. */
const LAST_BUS_NAME = companionBusNames[companionBusNames.length - 1];

/** A unit that is up as soon as the companion can be called, and comes again where it fails; no core holds its keys. */
export function formatUnit(argv: readonly string[]): string {
  return `${GENERATED_MARK}
[Unit]
Description=Berth's companion: assistant on the session bus and on 127.0.0.1
Requires=dbus.socket
After=dbus.socket

[Service]
Type=dbus
BusName=${LAST_BUS_NAME}
ExecStart=${argv.map((word) => quoteUnitWord(word)).join(" ")}
Restart=on-failure
RestartSec=2
UMask=0077
LimitCORE=0

[Install]
WantedBy=default.target
`;
}

/** Has the bus start the unit for whoever calls the name first; without systemd, the program itself. */
export function formatBusService(name: string, argv: readonly string[]): string {
  return `${GENERATED_MARK}
[D-BUS Service]
Name=${name}
Exec=${argv.map((word) => quoteServiceWord(word)).join(" ")}
SystemdService=${COMPANION_UNIT}
`;
}

/** systemd.service(5): quoted in the manner of C, % and $ doubled. */
function quoteUnitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  if (/^[\w@%+=:,./$-]+$/.test(text)) return text;
  return `"${text.replaceAll(/["\\]/g, "\\$&").replaceAll("\n", String.raw`\n`)}"`;
}

/**
 * The bus reads the line as one of a key file first, in which a backslash begins an escape and is an error before
 * most characters, and then splits it as a shell would. In single quotes nothing but the single quote needs any care.
 */
function quoteServiceWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  const escaped = word.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
  return `'${escaped.replaceAll("'", `'"'"'`)}'`;
}

/** The program that a unit's text starts, as far as it is one of `unitText`; undefined: no line says so. */
export function parseExecStart(unit: string): readonly string[] | undefined {
  const line = unit.split("\n").find((text) => text.startsWith("ExecStart="));
  if (line === undefined) return undefined;
  const words = line.slice("ExecStart=".length).match(/"(?:[^"\\]|\\.)*"|[^\s"]+/g) ?? [];
  return words.map((word) =>
    (word.startsWith('"')
      ? word.slice(1, -1).replaceAll(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped))
      : word
    )
      .replaceAll("%%", "%")
      .replaceAll("$$", "$"),
  );
}
