import type { Automaton } from "./automaton.ts";
import { Budget, UnsupportedConstructError } from "./budget.ts";
import { getPatternAutomaton } from "./pattern-automaton.ts";

/**
 * Returns the automaton of a format. `produced` contains the usual spellings, all of which both the standard and Ajv
 * accept. `accepted` contains at least all texts that Ajv accepts, so that all other texts are certainly invalid.
 * Throws UnsupportedConstructError for an unknown format.
 */
export function getFormatAutomaton(name: string, breadth: FormatBreadth): Automaton {
  const key = `${breadth} ${name}`;
  const cached = automatonCache.get(key);
  if (cached !== undefined) return cached;
  const produced = producedPatterns.get(name);
  if (produced === undefined) {
    const names = [...producedPatterns.keys()].join(", ");
    throw new UnsupportedConstructError(`is not one of the supported formats: ${names}`);
  }
  const pattern = breadth === "produced" ? produced : (acceptedPatterns.get(name) ?? produced);
  // The automaton is cached for all schemas, so its steps do not count towards the budget of one schema.
  const automaton = getPatternAutomaton(`^(?:${pattern})$`, new Budget());
  automatonCache.set(key, automaton);
  return automaton;
}

export type FormatBreadth = "produced" | "accepted";

const automatonCache = new Map<string, Automaton>();

/** A year that ends in 00 is a leap year if its first two digits are a multiple of four. */
const multipleOfFour = "(?:[02468][048]|[13579][26])";
const leapYear = `(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|${multipleOfFour}00)`;
const date =
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" +
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" +
  `${leapYear}-02-29)`;

/**
 * A fraction of a second, up to milliseconds. A small model often continues a number until the grammar ends it, so the
 * number of digits is limited to what people write, although clocks provide more.
 */
const fraction = "(?:\\.\\d{1,3})?";
const hour = "(?:[01]\\d|2[0-3])";
/** A time of day. Second 60, a leap second, is allowed only at 23:59 in UTC. */
const time =
  `(?:${hour}:[0-5]\\d:[0-5]\\d${fraction}(?:Z|[+-]${hour}:[0-5]\\d)|` +
  `23:59:60${fraction}(?:Z|[+-]00:00))`;

/**
 * The patterns from here to `duration` follow the grammar of RFC 3339, in which a duration cannot leave out a unit
 * between two others, such as the minutes between hours and seconds.
 */
const count = "\\d{1,9}";
const durationTime = `T(?:${count}H(?:${count}M(?:${count}S)?)?|${count}M(?:${count}S)?|${count}S)`;
const durationDate = `(?:${count}Y(?:${count}M(?:${count}D)?)?|${count}M(?:${count}D)?|${count}D)`;
const duration = `P(?:${count}W|${durationDate}(?:${durationTime})?|${durationTime})`;

/**
 * Labels without two consecutive hyphens. A label has at most 61 characters and four labels at most 247, both below the
 * limits of DNS, so that the automaton need not count characters.
 */
const label = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}";
const atext = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
/** The local part has at most 30 characters, because a small model writes as many as the grammar allows. */
const email = `(?=[^@]{1,30}@)${atext}(?:\\.?${atext})*@(?:${label}\\.){1,3}${label}`;

/** The pattern of a host name of at most 63 characters in total, so that no label can be longer. */
const hostname = "(?=.{1,63}$)[A-Za-z0-9](?:[-.]?[A-Za-z0-9])*";

const octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const ipv4 = `(?:${octet}\\.){3}${octet}`;

const hex = "[0-9A-Fa-f]";
const hexGroup = `${hex}{1,4}`;
const hexGroups = (most: number): string =>
  most === 0 ? "" : `(?:${hexGroup}(?::${hexGroup}){0,${most - 1}})?`;
const leadingHexGroups = (many: number): string =>
  many === 0 ? "" : `${hexGroup}(?::${hexGroup}){${many - 1}}`;
/** Eight groups, up to seven groups with `::` for the rest, or an IPv4-mapped address. */
const ipv6 = [
  `${hexGroup}(?::${hexGroup}){7}`,
  ...[0, 1, 2, 3, 4, 5, 6, 7].map(
    (before) => `${leadingHexGroups(before)}::${hexGroups(7 - before)}`,
  ),
  `::[Ff]{4}:${ipv4}`,
].join("|");

const uuid = `${hex}{8}-(?:${hex}{4}-){3}${hex}{12}`;
/** Returns the format name of a UUID version, such as Pydantic's `uuid4`, and the pattern of this version. */
const uuidPattern = (version: number): [string, string] => [
  `uuid${version}`,
  `${hex}{8}-${hex}{4}-${version}${hex}{3}-[89ABab]${hex}{3}-${hex}{12}`,
];

const percent = `%${hex}{2}`;
const segmentCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|${percent})`;
const hostCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=-]|${percent})`;
const userCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:-]|${percent})`;
const path = `(?:/${segmentCharacter}*)*`;
const tail = `(?:${segmentCharacter}|[/?])*`;
const uri =
  "[A-Za-z][A-Za-z0-9+.-]*:" +
  `(?://(?:${userCharacter}*@)?${hostCharacter}*(?::\\d{1,5})?${path}|` +
  `/(?:${segmentCharacter}+${path})?|${segmentCharacter}+${path})` +
  `(?:\\?${tail})?(?:#${tail})?`;

const producedPatterns: ReadonlyMap<string, string> = new Map(
  Object.entries({
    date,
    time,
    "date-time": `${date}T${time}`,
    duration,
    email,
    hostname,
    ipv4,
    ipv6,
    uuid,
    ...Object.fromEntries([1, 3, 4, 5, 6, 7, 8].map((version) => uuidPattern(version))),
    uri,
  }),
);

const acceptedTime = `${hour}:[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[Zz]|[+-]${hour}(?::?[0-5]\\d)?)`;
const acceptedLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const endlessLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";

/** The patterns of all texts that Ajv accepts, for the formats in which Berth generates only some of these texts. */
const acceptedPatterns: ReadonlyMap<string, string> = new Map(
  Object.entries({
    time: acceptedTime,
    "date-time": `${date}[Tt\\s]${acceptedTime}`,
    duration:
      "P(?!$)(?:(?:\\d+Y)?(?:\\d+M)?(?:\\d+D)?(?:T(?=\\d)(?:\\d+H)?(?:\\d+M)?(?:\\d+S)?)?|(?:\\d+W)?)",
    email: `${atext}+(?:\\.${atext}+)*@(?:${endlessLabel}\\.)+${endlessLabel}`,
    hostname: `${acceptedLabel}(?:\\.${acceptedLabel})*\\.?`,
    ipv6: [
      ipv6,
      `(?:${hexGroup}:){6}${ipv4}`,
      ...[0, 1, 2, 3, 4, 5].map(
        (before) => `${leadingHexGroups(before)}::(?:${hexGroup}:){0,${5 - before}}${ipv4}`,
      ),
    ].join("|"),
    uuid: `(?:urn:uuid:)?${uuid}`,
    uri: "[A-Za-z][A-Za-z0-9+.-]*:[!-~]*",
  }),
);
