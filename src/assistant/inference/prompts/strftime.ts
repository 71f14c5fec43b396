const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** The codes of strftime that chat templates use, in UTC and in English; others stay as they are. */
export function strftime(nowMs: number, format: string): string {
  const date = new Date(nowMs);
  const month = MONTHS[date.getUTCMonth()] ?? "";
  const day = DAYS[date.getUTCDay()] ?? "";
  const values: Readonly<Record<string, string>> = {
    Y: String(date.getUTCFullYear()),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    "-d": String(date.getUTCDate()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    "%": "%",
  };
  return format.replaceAll(/%(-?[A-Za-z%])/g, (code, name: string) => values[name] ?? code);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
