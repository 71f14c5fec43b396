import { COMPANION_UNIT, companionBusNames } from "../../../base/companion-names.ts";

/**
 * The first line of each file that `berth assistant install` writes. A file without this line is never replaced or
 * deleted.
 */
export const GENERATED_MARK =
  "# Written by `berth assistant install`; `berth assistant uninstall` takes it away.";

/** The bus name that the companion acquires last, so that systemd waits for all names. */
const LAST_BUS_NAME = companionBusNames[companionBusNames.length - 1];

/** Returns a unit that is active once the companion can be called, restarts on failure, and writes no core dumps. */
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

/**
 * Returns a bus service file. With this file, the first call of the bus name starts the unit, or the program itself
 * if there is no systemd.
 */
export function formatBusService(name: string, argv: readonly string[]): string {
  return `${GENERATED_MARK}
[D-BUS Service]
Name=${name}
Exec=${argv.map((word) => quoteServiceWord(word)).join(" ")}
SystemdService=${COMPANION_UNIT}
`;
}

/** Quotes an argument for systemd.service(5): like a C string, with % and $ doubled. */
function quoteUnitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  if (/^[\w@%+=:,./$-]+$/.test(text)) return text;
  return `"${text.replaceAll(/["\\]/g, "\\$&").replaceAll("\n", String.raw`\n`)}"`;
}

/**
 * Quotes an argument for a bus service file. The bus first parses each line as that of a key file, where a backslash
 * begins an escape. It then splits the value into words, as a shell does. In single quotes only the single quote needs
 * escaping.
 */
function quoteServiceWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  const escaped = word.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
  return `'${escaped.replaceAll("'", `'"'"'`)}'`;
}

/**
 * Returns the program and its arguments from the ExecStart line of a unit that `formatUnit` wrote; undefined if the
 * unit has no such line.
 */
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
