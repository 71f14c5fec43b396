import * as fc from "fast-check";
import { expect, it } from "vitest";
import { parseBaseUrl } from "../../../../../src/assistant/remote/address/base-url.ts";
import { classifyIp } from "../../../../../src/assistant/remote/address/ip-class.ts";
import { ProviderAddresses } from "../../../../../src/assistant/remote/address/provider-addresses.ts";

type Four = readonly [number, number, number, number];

const byte = fc.nat(255);
/** Generates IPv4 addresses, many of them at the edges of special ranges. */
const four: fc.Arbitrary<Four> = fc.oneof(
  fc.tuple(byte, byte, byte, byte),
  fc
    .tuple(
      fc.constantFrom<readonly [number, number]>(
        [0, 0],
        [10, 0],
        [100, 64],
        [100, 127],
        [100, 100],
        [127, 0],
        [168, 63],
        [169, 254],
        [172, 16],
        [172, 31],
        [172, 32],
        [192, 0],
        [192, 88],
        [192, 168],
        [198, 18],
        [198, 51],
        [203, 0],
        [224, 0],
        [255, 255],
      ),
      byte,
      byte,
    )
    .map(([[a, b], c, d]): Four => [a, b, c, d]),
);

const dotted = (bytes: Four) => bytes.join(".");
const whole = (bytes: readonly number[]) => bytes.reduce((sum, part) => sum * 256 + part, 0);
const hex = (bytes: readonly number[]) =>
  bytes.map((part) => part.toString(16).padStart(2, "0")).join("");
const groups = (bytes: Four) => `${hex(bytes.slice(0, 2))}:${hex(bytes.slice(2))}`;

/** Notations of a number that people and attackers use. */
const written = (value: number): fc.Arbitrary<string> =>
  fc.constantFrom(
    String(value),
    `0x${value.toString(16)}`,
    `0X${value.toString(16).toUpperCase()}`,
    `0x000${value.toString(16)}`,
    `0${value.toString(8)}`,
    `000${value.toString(8)}`,
  );

/** Generates notations that the URL standard parses as the given address. */
const notation = (bytes: Four): fc.Arbitrary<string> =>
  fc
    .integer({ min: 1, max: 4 })
    .chain((count) =>
      fc.tuple(...bytes.slice(0, count - 1).map(written), written(whole(bytes.slice(count - 1)))),
    )
    .chain((parts) => disguised(parts.join(".")));

const disguised = (text: string): fc.Arbitrary<string> =>
  fc.constantFrom(
    text,
    `${text}.`,
    text.replaceAll(/[0-9]/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
    text.replaceAll(".", "。"),
    text.replaceAll(/./g, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  );

it("every notation of an IPv4 address is read as that address", () => {
  fc.assert(
    fc.property(
      four.chain((bytes) => fc.tuple(fc.constant(bytes), notation(bytes))),
      ([bytes, host]) => {
        expect(parseBaseUrl(`http://${host}:9000/v1`).host).toBe(dotted(bytes));
      },
    ),
    { numRuns: 2_000 },
  );
});

it("an IPv4 address that is mapped into IPv6 is classified as the IPv4 address", () => {
  fc.assert(
    fc.property(four, (bytes) => {
      const verdict = classifyIp(dotted(bytes));
      expect(classifyIp(`::ffff:${dotted(bytes)}`)).toEqual(verdict);
      expect(classifyIp(`::FFFF:${groups(bytes)}`)).toEqual(verdict);
      expect(classifyIp(`0:0:0:0:0:ffff:${groups(bytes)}`)).toEqual(verdict);
      expect(classifyIp(parseBaseUrl(`http://[::ffff:${dotted(bytes)}]`).host)).toEqual(verdict);
    }),
    { numRuns: 1_000 },
  );
});

it("a tunnel or translation address is classified as the public IPv4 address that it contains, and is refused if it contains no public one", () => {
  const rest = fc.tuple(byte, byte, byte, byte).map(groups);
  fc.assert(
    fc.property(four, rest, (bytes, other) => {
      // `::` and `::1` are the unspecified and the loopback address of IPv6, and contain no IPv4 address.
      fc.pre(whole(bytes) > 1);
      const wanted = classifyIp(dotted(bytes)).kind === "public" ? "public" : "refused";
      const inverted: Four = [255 - bytes[0], 255 - bytes[1], 255 - bytes[2], 255 - bytes[3]];
      const ways = [
        `64:ff9b::${dotted(bytes)}`,
        `64:ff9b::${groups(bytes)}`,
        `::${dotted(bytes)}`,
        `::${groups(bytes)}`,
        `::ffff:0:${groups(bytes)}`,
        `2002:${groups(bytes)}:${other}::1`,
        `2001:0:${other}:${other}:${groups(inverted)}`,
      ];
      for (const way of ways) expect([way, classifyIp(way).kind]).toEqual([way, wanted]);
    }),
    { numRuns: 1_000 },
  );
});

it("a host name is refused if any of its addresses is forbidden, or if they differ in class (public, private, loopback)", async () => {
  const six = fc.ipV6().filter((ip) => classifyIp(ip).kind !== undefined);
  const list = fc.array(fc.oneof(four.map(dotted), six), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(list, async (found) => {
      const addresses = new ProviderAddresses({
        ownPorts: () => new Set(),
        resolve: async () => found,
      });
      const kinds = new Set(found.map((ip) => classifyIp(ip).kind));
      const [only] = kinds;
      const isFine = kinds.size === 1 && only !== "refused";
      const check = addresses.check("https://any.example", new AbortController().signal);
      if (isFine) expect(await check).toMatchObject({ addressClass: only });
      else await expect(check).rejects.toMatchObject({ code: "forbidden" });
    }),
    { numRuns: 1_000 },
  );
});

it("a normalised base URL stays the same, and any other input causes invalid_request", () => {
  const text = fc.oneof(
    fc.webUrl({ withFragments: true, withQueryParameters: true }),
    fc.string().map((rest) => `https://${rest}`),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(text, (given) => {
      try {
        const { href } = parseBaseUrl(given);
        expect(parseBaseUrl(href).href).toBe(href);
        expect(new URL(href).username + new URL(href).search + new URL(href).hash).toBe("");
        expect(href).not.toMatch(/\/$/);
      } catch (error) {
        expect(error).toMatchObject({ code: "invalid_request", param: "base_url" });
      }
    }),
    { numRuns: 2_000 },
  );
});
