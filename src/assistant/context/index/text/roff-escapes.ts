const characters: Readonly<Record<string, string>> = {
  aq: "'",
  dq: '"',
  lq: "“",
  rq: "”",
  oq: "‘",
  cq: "’",
  em: "—",
  en: "–",
  hy: "-",
  mi: "-",
  bu: "•",
  co: "©",
  rg: "®",
  tm: "™",
  ti: "~",
  ha: "^",
  rs: "\\",
  ga: "`",
  "<=": "≤",
  ">=": "≥",
  "->": "→",
  "<-": "←",
  mu: "×",
  de: "°",
  ss: "ß",
  lB: "[",
  rB: "]",
  at: "@",
  sh: "#",
  Do: "$",
  sl: "/",
  ba: "|",
  or: "|",
  pl: "+",
  eq: "=",
  // Strings that the pages of Perl's documentation define for themselves.
  "--": "—",
  PI: "π",
  'L"': '"',
  'R"': '"',
  "C+": "C++",
  R: "®",
  Tm: "™",
  "C`": "",
  "C'": "",
};
const marks: Readonly<Record<string, string>> = {
  "'": "\u0301",
  "`": "\u0300",
  "^": "\u0302",
  "~": "\u0303",
  ":": "\u0308",
  ",": "\u0327",
};

/** The text that a line stands for, its escapes carried out or left out. */
export function plainRoff(line: string): string {
  if (!line.includes("\\")) return line;
  let out = "";
  let at = 0;
  while (at < line.length) {
    const next = line.indexOf("\\", at);
    if (next === -1) return out + line.slice(at);
    out += line.slice(at, next);
    const escape = line[next + 1];
    if (escape === '"' || escape === "#") return out;
    at = next + 2;
    switch (escape) {
      case undefined:
        return out;
      case "-":
      case ".":
        out += escape;
        break;
      case "e":
      case "\\":
        out += "\\";
        break;
      case " ":
      case "~":
      case "0":
        out += " ";
        break;
      case "'":
      case "`":
        out += escape;
        break;
      case "(":
        out += character(line.slice(at, at + 2));
        at += 2;
        break;
      case "[": {
        const name = bracketed(line, at - 1);
        out += character(name.text);
        at = name.end;
        break;
      }
      // Strings: the few that pages share have the names of characters.
      case "*": {
        const name = named(line, at);
        out += character(name.text);
        at = name.end;
        break;
      }
      case "f":
      case "n":
      case "F":
      case "g":
      case "k":
      case "m":
      case "M":
      case "V":
      case "Y":
        at = named(line, at).end;
        break;
      case "s":
        at +=
          /^(?:[-+]?\d{1,2}|\([-+]?\d\d|[-+]?\[\d+\]|'[^']*')/.exec(line.slice(at))?.[0].length ??
          0;
        break;
      case "h":
      case "v":
      case "w":
      case "l":
      case "L":
      case "o":
      case "b":
      case "D":
      case "X":
      case "Z":
      case "N":
        at = quoted(line, at);
        break;
      default:
        // \& \| \^ \/ \, \c \% \: \) \d \u \p \{ \} and the like print nothing.
        break;
    }
  }
  return out;
}

function named(line: string, at: number): { text: string; end: number } {
  if (line[at] === "(") return { text: line.slice(at + 1, at + 3), end: at + 3 };
  if (line[at] === "[") return bracketed(line, at);
  return { text: line.slice(at, at + 1), end: at + 1 };
}

function bracketed(line: string, at: number): { text: string; end: number } {
  const end = line.indexOf("]", at);
  return end === -1
    ? { text: "", end: line.length }
    : { text: line.slice(at + 1, end), end: end + 1 };
}

/** `'...'`, with any character for the quote. */
function quoted(line: string, at: number): number {
  const quote = line[at];
  if (quote === undefined) return at;
  const end = line.indexOf(quote, at + 1);
  return end === -1 ? line.length : end + 1;
}

function character(name: string): string {
  const known = characters[name];
  if (known !== undefined) return known;
  const code = /^u([0-9A-F]{4,6})$/.exec(name)?.[1];
  if (code !== undefined) {
    const point = Number.parseInt(code, 16);
    return point <= 0x10_ffff
      ? String.fromCodePoint(point).replaceAll(/\p{Surrogate}/gu, "\ufffd")
      : "";
  }
  const [mark, letter] = [marks[name.slice(0, 1)], name.slice(1)];
  return mark !== undefined && /^[A-Za-z]$/.test(letter) ? `${letter}${mark}`.normalize("NFC") : "";
}
