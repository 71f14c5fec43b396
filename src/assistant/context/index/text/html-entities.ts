/** The names that texts really have; everything else is written as a number, or stays as it stands. */
const named: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  shy: "",
  ndash: "–",
  mdash: "—",
  hellip: "…",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  laquo: "«",
  raquo: "»",
  bull: "•",
  middot: "·",
  copy: "©",
  reg: "®",
  trade: "™",
  euro: "€",
  pound: "£",
  sect: "§",
  deg: "°",
  times: "×",
  rarr: "→",
  larr: "←",
  szlig: "ß",
  aelig: "æ",
  AElig: "Æ",
  oslash: "ø",
  Oslash: "Ø",
};
const accents: Readonly<Record<string, string>> = {
  grave: "\u0300",
  acute: "\u0301",
  circ: "\u0302",
  tilde: "\u0303",
  uml: "\u0308",
  ring: "\u030a",
  cedil: "\u0327",
};

export function decodeEntities(text: string): string {
  return text.replaceAll(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,12}));/g,
    (whole, decimal?: string, hexadecimal?: string, name?: string) => {
      if (name !== undefined) return named[name] ?? accented(name) ?? whole;
      const code = decimal === undefined ? Number.parseInt(hexadecimal ?? "", 16) : Number(decimal);
      const isCharacter = code > 0 && code <= 0x10_ffff && !(code >= 0xd800 && code <= 0xdfff);
      return isCharacter ? String.fromCodePoint(code) : "";
    },
  );
}

/** `eacute` is a letter and a mark on it. */
function accented(name: string): string | undefined {
  const mark = accents[name.slice(1)];
  return mark === undefined ? undefined : `${name.slice(0, 1)}${mark}`.normalize("NFC");
}
