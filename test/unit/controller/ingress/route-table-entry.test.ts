import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeTableEntry,
  encodeTableEntry,
  LONG_LEVELS,
  longPattern,
  SLOTS,
  shortPattern,
} from "../../../../src/controller/ingress/route-table-entry.ts";

const byte = fc.integer({ min: 0, max: 255 });
const port = fc.integer({ min: 1, max: 65_535 });
const replicas = fc.oneof(
  // Addresses on an instance's network, all with the same port, are the targets if Caddy reaches the containers
  // directly.
  fc
    .tuple(fc.uniqueArray(fc.tuple(byte, byte), { maxLength: 50, selector: String }), port)
    .map(([ends, at]) => ends.map(([a, b]) => `172.18.${a}.${b}:${at}`)),
  // Ports of the loopback interface are the targets if the containers publish their ports.
  fc
    .uniqueArray(port, { maxLength: 50 })
    .map((ports) => ports.map((number) => `127.0.0.1:${number}`)),
  fc.constantFrom<string[]>(
    ["[fd00::5]:80"],
    ["[fd00::5]:80", "[fd00::15]:80"],
    ["db.example.org:1"],
  ),
);
const entries = fc.record({
  order: fc.integer({ min: 0, max: 999_999_999_999 }),
  route: fc.record({
    version: fc.stringMatching(/^[0-9a-f]{16}$/),
    sinceMs: fc.integer({ min: 0, max: 8_640_000_000_000_000 }),
    targets: replicas,
  }),
});

/** Returns the addresses of Caddy's upstreams for an entry. */
function dials(names: readonly string[]): string[] {
  // A path of two names belongs to an entry with a single target: the second name is the address of the target.
  if (names.length === 2) return names.slice(1);
  const match = new RegExp(names.length > 1 ? longPattern : shortPattern).exec(
    `/hosts/x.localhost/${names.join("/")}`,
  );
  const [, before = "", after = "", ...slots] = match ?? [];
  return slots.map((slot) => `${before}${slot}${after}`);
}

describe("an entry of the route table", () => {
  it("is the same after encoding and decoding", () => {
    fc.assert(
      fc.property(entries, (entry) => {
        expect(decodeTableEntry(encodeTableEntry(entry))).toEqual(entry);
      }),
    );
  });

  it("consists of valid file names", () => {
    fc.assert(
      fc.property(entries, (entry) => {
        for (const name of encodeTableEntry(entry)) {
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
          expect(name).not.toMatch(/[/\0*?]/);
        }
      }),
    );
  });

  it("names each target about equally often, and no other target", () => {
    fc.assert(
      fc.property(entries, (entry) => {
        const { targets } = entry.route;
        const names = encodeTableEntry(entry);
        const found = dials(names);
        expect(new Set(found)).toEqual(new Set(targets));
        if (targets.length === 0) return;
        const slots = names.length === 1 ? SLOTS : SLOTS * LONG_LEVELS;
        expect(found).toHaveLength(targets.length === 1 ? 1 : slots);
        const counts = targets.map((target) => found.filter((dial) => dial === target).length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("sorts before older entries", () => {
    const route = { version: "v", sinceMs: 0, targets: ["a:1"] };
    const [newer = ""] = encodeTableEntry({ order: 99, route });
    const [older = ""] = encodeTableEntry({ order: 100, route });
    expect(newer < older).toBe(true);
  });

  it.each([
    { version: "a~b", targets: ["a:1"] },
    { version: "../x", targets: ["a:1"] },
    { version: "", targets: ["a:1"] },
    { version: "v", targets: ["a:1~b:1"] },
    { version: "v", targets: ["a/b:1"] },
    { version: "v", targets: [".."] },
    { version: "v", targets: ["a"] },
    { version: "v", targets: Array.from({ length: 61 }, (_, index) => `a:${index}`) },
    {
      version: "v",
      targets: Array.from({ length: 9 }, (_, index) => `${index}${"x".repeat(40)}${index}:1`),
    },
  ])("refuses a route that does not fit into a file name: %j", (route) => {
    expect(() => encodeTableEntry({ order: 1, route: { ...route, sinceMs: 0 } })).toThrow(
      expect.objectContaining({ code: "internal" }),
    );
  });

  it("is not decoded from file names of other programs", () => {
    for (const name of ["", "readme.txt", "000000000001~v", "1~v~0~a~b~1~c", "~~~~~~~"])
      expect(decodeTableEntry([name])).toBeUndefined();
  });
});
