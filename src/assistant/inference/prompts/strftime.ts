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

/**
 * Formats a time with the strftime codes that chat templates use, in UTC and in English. Other codes are left
 * unchanged.
 */
export function strftime(nowMs: number, format: string): string {
  const date = new Date(nowMs);
  const month = MONTHS[date.getUTCMonth()] ?? "";
  const day = DAYS[date.getUTCDay()] ?? "";
  const values: Readonly<Record<string, string>> = {
    Y: String(date.getUTCFullYear()),
    m: padTwo(date.getUTCMonth() + 1),
    d: padTwo(date.getUTCDate()),
    "-d": String(date.getUTCDate()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    H: padTwo(date.getUTCHours()),
    M: padTwo(date.getUTCMinutes()),
    S: padTwo(date.getUTCSeconds()),
    "%": "%",
  };
  return format.replaceAll(/%(-?[A-Za-z%])/g, (code, name: string) => values[name] ?? code);
}

function padTwo(value: number): string {
  return String(value).padStart(2, "0");
}
