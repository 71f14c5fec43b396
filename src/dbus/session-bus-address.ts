import { BusCallError } from "./port.ts";

/**
 * Returns the session bus address of an environment: the value of `DBUS_SESSION_BUS_ADDRESS`, or else the socket that
 * systemd creates for each user. Undefined if the environment names neither. Does not check that a bus listens there.
 */
export function sessionBusAddress(
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const address = environment["DBUS_SESSION_BUS_ADDRESS"];
  if (address !== undefined && address !== "") return address;
  const runtime = environment["XDG_RUNTIME_DIR"];
  return runtime?.startsWith("/") ? `unix:path=${escaped(runtime)}/bus` : undefined;
}

/**
 * Returns the socket paths of an address in the order in which to try them; a path in the abstract namespace begins
 * with a NUL. Only Unix sockets of this machine are supported, because the system cannot identify callers over a
 * network. Throws BusCallError `BadAddress`.
 */
export function parseSocketPaths(address: string): string[] {
  const found = address.split(";").flatMap((entry) => {
    const colon = entry.indexOf(":");
    if (entry.slice(0, colon) !== "unix") return [];
    const pairs = entry.slice(colon + 1).split(",");
    const values = new Map(pairs.map((pair) => parsePair(pair)));
    const [path, abstract] = [values.get("path"), values.get("abstract")];
    if (path !== undefined && path !== "") return [path];
    return abstract === undefined || abstract === "" ? [] : [`\0${abstract}`];
  });
  if (found.length > 0) return found;
  throw new BusCallError(
    "org.freedesktop.DBus.Error.BadAddress",
    "the address of the session bus contains no Unix socket; it must look like unix:path=/run/user/1000/bus",
  );
}

function parsePair(pair: string): [string, string] {
  const equals = pair.indexOf("=");
  return [pair.slice(0, Math.max(0, equals)), unescaped(pair.slice(equals + 1))];
}

function unescaped(text: string): string {
  const bytes = text.replaceAll(/%([0-9a-fA-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  // Each escape is one byte of UTF-8; several can form one character.
  return text.includes("%") ? Buffer.from(bytes, "latin1").toString("utf8") : bytes;
}

function escaped(path: string): string {
  return [...Buffer.from(path, "utf8")]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      return /[\w\-/.\\*]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
    })
    .join("");
}
