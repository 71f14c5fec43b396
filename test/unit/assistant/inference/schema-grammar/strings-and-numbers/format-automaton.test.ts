import { Ajv2020 } from "ajv/dist/2020.js";
import { fullFormats } from "ajv-formats/dist/formats.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TextLanguage } from "../../../../../../src/assistant/inference/schema-grammar/strings-and-numbers/text-language.ts";
import { stringLanguage, toStringPattern } from "../../../../../support/scalar-language.ts";

/**
 * For each format: valid texts, invalid texts, and texts that Ajv accepts although the grammar does not generate them.
 */
const cases = {
  date: {
    yes: ["2024-02-29", "2000-02-29", "1999-12-31", "0000-02-29", "2023-04-30"],
    no: ["2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-1-01", "2023-00-10", ""],
    narrower: [],
  },
  time: {
    yes: ["12:34:56Z", "00:00:00+00:00", "23:59:60Z", "23:59:59.123-11:30", "23:59:60.5+00:00"],
    no: ["24:00:00Z", "12:60:00Z", "12:34:56", "12:34Z", "22:59:60Z", "12:00:00+24:00"],
    narrower: ["12:34:56z", "12:34:56+0100", "12:00:00.1234Z", "15:59:60-08:00"],
  },
  "date-time": {
    yes: ["2024-02-29T12:34:56Z", "1985-04-12T23:20:50.52Z", "1990-12-31T23:59:60Z"],
    no: ["2023-02-29T12:34:56Z", "2024-02-29 ", "2024-02-29T12:34:56", "2024-02-29X12:34:56Z"],
    narrower: ["2024-02-29t12:34:56z", "2024-02-29 12:34:56Z"],
  },
  duration: {
    yes: ["P1Y", "P4W", "P1Y2M3DT4H5M6S", "PT36H", "P1DT12H", "PT0S", "P1YT1S"],
    no: ["P", "PT", "P1YT", "P1H", "PT1D", "1Y", "P1W2D", "P1S", "P2D1Y"],
    narrower: ["P1Y2D", "PT1H2S"],
  },
  email: {
    yes: [
      "a@b.co",
      "first.last+tag@sub.example.com",
      "o'brien@example.org",
      "x@xn-1.de",
      `${"a".repeat(15)}.${"b".repeat(14)}@c.de`,
    ],
    no: ["a@b", "@b.co", "a.@b.co", ".a@b.co", "a@-b.co", "a@b..co", "a b@c.de", "a@b.co."],
    narrower: ["a@b--c.co", "a@b.c.d.e.f.g", `${"a".repeat(31)}@c.de`],
  },
  hostname: {
    yes: [
      "localhost",
      "a.b.c.d.e.f.g",
      "example.com",
      "db-1.us-east-1.rds.amazonaws.com",
      "1.2.3.4",
    ],
    no: ["-a", "a-", "a..b", "a_b", "", "a.-b", `${"a".repeat(64)}.de`],
    narrower: ["a--b", "example.com.", `${"a".repeat(40)}.${"b".repeat(40)}`],
  },
  ipv4: {
    yes: ["0.0.0.0", "255.255.255.255", "192.168.1.10"],
    no: ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3."],
    narrower: [],
  },
  ipv6: {
    yes: ["::", "::1", "1::", "fe80::1ff:fe23:4567:890a", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1"],
    no: [":::", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::g", "1:"],
    narrower: ["1:2:3:4:5:6:1.2.3.4", "64:ff9b::1.2.3.4", "::1.2.3.4"],
  },
  uuid: {
    yes: ["123e4567-e89b-12d3-a456-426614174000", "AAAAAAAA-0000-0000-0000-000000000000"],
    no: ["123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g", ""],
    narrower: ["urn:uuid:123e4567-e89b-12d3-a456-426614174000"],
  },
  uri: {
    yes: [
      "https://example.com",
      "http://u:p@example.com:8080/a/b%20c?q=1&r=[".slice(0, -1),
      "mailto:a@example.com",
      "urn:isbn:0451450523",
      "file:///etc/hosts",
      "https://example.com/?q=%C3%A9#top",
    ],
    no: ["example.com", "//example.com", "http://exa mple.com", "1http://a", "http://a/%zz", ""],
    narrower: ["http://[::1]:80/"],
  },
} as const;

const names = Object.keys(cases);
const isFormatName = (name: string): name is keyof typeof cases => name in cases;

describe.each(names.filter(isFormatName))("the format %s", (name) => {
  const language = stringLanguage({ formats: [toStringPattern("format", name)] });
  const ajv = new Ajv2020();
  ajv.addFormat(name, fullFormats[name]);
  const isValid = ajv.compile({ type: "string", format: name });
  const { yes, no, narrower } = cases[name];

  test("accepts usual texts, and no invalid ones", () => {
    expect([...yes, ...narrower].filter((text) => !isValid(text))).toEqual([]);
    expect(no.filter((text) => isValid(text))).toEqual([]);
    expect(yes.filter((text) => language?.accepts(JSON.stringify(text)) !== true)).toEqual([]);
    expect([...no, ...narrower].filter((text) => language?.accepts(JSON.stringify(text)))).toEqual(
      [],
    );
  });

  test("generates only texts that Ajv accepts", () => {
    for (const text of language?.samples(1_500, 11) ?? []) {
      expect(`${text} ${isValid(JSON.parse(text))}`).toBe(`${text} true`);
    }
  });

  test("accepts all texts that Ajv accepts, and all texts that the grammar generates", () => {
    const wide = TextLanguage.fromFormat(name, "accepted");
    const narrow = TextLanguage.fromFormat(name, "produced");
    expect([...yes, ...narrower].filter((text) => !wide.accepts(text))).toEqual([]);
    expect(narrow.subtract(wide).isEmpty()).toBe(true);
    const check = (text: string) => {
      if (isValid(text)) expect(`${text} ${wide.accepts(text)}`).toBe(`${text} true`);
    };
    for (const text of yes) fc.assert(fc.property(changed(text), check), { numRuns: 200 });
  });
});

test("29 February exists only in leap years", () => {
  const dates = TextLanguage.fromFormat("date", "produced");
  const wrong: string[] = [];
  for (let year = 0; year < 10_000; year += 1) {
    const text = `${String(year).padStart(4, "0")}-02-29`;
    const day = new Date(0).setUTCFullYear(year, 1, 29);
    const isLeap = new Date(day).getUTCMonth() === 1;
    if (dates.accepts(text) !== isLeap) wrong.push(text);
  }
  expect(wrong).toEqual([]);
});

test("an unsupported format is refused, and the error names it", () => {
  expect(() => stringLanguage({ formats: [toStringPattern("format", "iri")] })).toThrowError(
    /"format" at #\/format .*date-time/,
  );
});

/** Changes, adds or removes one character of a text. */
function changed(text: string): fc.Arbitrary<string> {
  const characters = Array.from("0123456789abcdefABCDEFxyzZTt:-+./@%#? _~[]");
  return fc
    .tuple(fc.nat(text.length), fc.constantFrom("", ...characters), fc.nat(1))
    .map(
      ([place, character, taken]) => text.slice(0, place) + character + text.slice(place + taken),
    );
}
