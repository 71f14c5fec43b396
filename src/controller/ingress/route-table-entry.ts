import { BerthError } from "../../base/errors.ts";
import type { AppRoute } from "./port.ts";

/**
 * An entry of the route table is an empty file whose name contains the targets, because Caddy can match file names
 * for each request, but cannot parse contents. There are four forms, by the number of targets:
 * - one target: the folder `<order>~<version>~<since>~one` with a file whose whole name is the target;
 * - two to twelve targets: the file `<order>~<version>~<since>~<before>~<after>~<count>~<slot>~...~<slot>`;
 * - more targets: the slots continue on further levels: four nested folders, of which the first has a name as above
 *   and the others have only slots, and then a file with the last slots;
 * - no target: the file `<order>~<version>~<since>~none`, which none of Caddy's patterns for targets matches.
 * `order` counts down, so that the newest entry is the first by name. `version` and `since` are the version and the
 * `sinceMs` (in base 36) of the App's route. In the two forms with slots, a target is
 * `before` + slot + `after`: the common start and end of all targets are written once. Caddy's list of upstreams has
 * a fixed length, so all slots are filled by repeating the targets; `count` is their number.
 */
export interface RouteTableEntry {
  readonly order: number;
  readonly route: AppRoute;
}

/**
 * The number of slots in a name of a table entry; each slot contains the part of a target that differs from the others.
 * Twelve slots can be filled evenly with 1, 2, 3, 4 or 6 targets, and fit into a file name with IPv4 addresses and
 * ports.
 */
export const SLOTS = 12;
export const LONG_LEVELS = 5;
/** The maximum number of targets of an App's route. A spec allows at most 50 replicas, which is fewer. */
const TARGETS_MAX = SLOTS * LONG_LEVELS;
const NAME_BYTES_MAX = 255;

export const ORDER_MAX = 999_999_999_999;
const ORDER_DIGITS = 12;

const NONE = "none";
const ONE = "one";
const opening = `[0-9]{${ORDER_DIGITS}}~[^~/]+~[0-9a-z]+`;
const header = `${opening}~([^~/]*)~([^~/]*)~[0-9]+`;
const nonePattern = new RegExp(`^/${opening}~${NONE}$`);
const onePattern = new RegExp(`^/${opening}~${ONE}/[^/]+$`);
const slots = Array.from({ length: SLOTS }, () => "([^~/]*)").join("~");

/**
 * Regular expressions (for Go and JavaScript) that match the end of a table entry's path if the entry has more than one
 * target. Groups 1 and 2 are the common start and the common end of all targets. Each group from 3 on (a slot) is the
 * rest of one target.
 */
export const shortPattern = `/${header}~${slots}$`;
export const longPattern = `/${header}~${slots}${`/${slots}`.repeat(LONG_LEVELS - 1)}$`;

const validVersion = /^[A-Za-z0-9._-]{1,64}$/;
const validTarget = /^[A-Za-z0-9._:[\]-]{1,253}:[0-9]{1,5}$/;

/**
 * Returns the names on the path of the entry's file: one name for no target or for two to twelve targets, two for a
 * single target, five for more targets. Throws `internal` if the targets are too long.
 */
export function encodeTableEntry({ order, route }: RouteTableEntry): readonly string[] {
  const { version, sinceMs } = route;
  const targets = [...new Set(route.targets)];
  if (
    !validVersion.test(version) ||
    targets.length > TARGETS_MAX ||
    !targets.every((target) => validTarget.test(target))
  )
    throw invalidRouteError(
      `a route needs a version and at most ${TARGETS_MAX} targets of the form host:port`,
    );
  const head = [String(order).padStart(ORDER_DIGITS, "0"), version, sinceMs.toString(36)];
  if (targets.length === 0) return [[...head, NONE].join("~")];
  const [only = ""] = targets;
  if (targets.length === 1) return checkNames([[...head, ONE].join("~"), only]);
  const [before, after] = findCommonEnds(targets);
  const inner = targets.map((target) => target.slice(before.length, target.length - after.length));
  const levels = targets.length > SLOTS ? LONG_LEVELS : 1;
  const filled = Array.from(
    { length: SLOTS * levels },
    (_, index) => inner[index % inner.length] ?? "",
  );
  const start = [...head, before, after, String(targets.length)];
  const names = Array.from({ length: levels }, (_, level) =>
    [...(level === 0 ? start : []), ...filled.slice(level * SLOTS, (level + 1) * SLOTS)].join("~"),
  );
  return checkNames(names);
}

function checkNames(names: readonly string[]): readonly string[] {
  if (names.some((name) => Buffer.byteLength(name) > NAME_BYTES_MAX))
    throw invalidRouteError("the addresses of the targets are too long for the route table");
  return names;
}

/** Parses a table entry from the file names on its path. Returns undefined if the names are not those of an entry. */
export function decodeTableEntry(names: readonly string[]): RouteTableEntry | undefined {
  const text = `/${names.join("/")}`;
  if (nonePattern.test(text) || onePattern.test(text)) {
    const [order = "", version = "", since = ""] = text.slice(1).split("~");
    const route = { version, sinceMs: Number.parseInt(since, 36), targets: names.slice(1) };
    return { order: Number(order), route };
  }
  if (!new RegExp(`^(?:${names.length > 1 ? longPattern : shortPattern})`).test(text))
    return undefined;
  const [order = "", version = "", since = "", before = "", after = "", count = "", ...rest] =
    names.flatMap((name) => name.split("~"));
  return {
    order: Number(order),
    route: {
      version,
      sinceMs: Number.parseInt(since, 36),
      targets: rest.slice(0, Number(count)).map((slot) => `${before}${slot}${after}`),
    },
  };
}

/** Returns the common start of all texts, and the common end of what follows this start. */
function findCommonEnds(texts: readonly string[]): [string, string] {
  const [first = ""] = texts;
  let start = first.length;
  for (const text of texts) while (!text.startsWith(first.slice(0, start))) start -= 1;
  const left = texts.map((text) => text.slice(start));
  const [rest = ""] = left;
  let end = rest.length;
  for (const text of left) while (!text.endsWith(rest.slice(rest.length - end))) end -= 1;
  return [first.slice(0, start), rest.slice(rest.length - end)];
}

function invalidRouteError(message: string): BerthError {
  return new BerthError("internal", message);
}
