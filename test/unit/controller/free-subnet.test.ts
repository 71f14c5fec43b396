import { BlockList } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findFreeSubnet } from "../../../src/controller/free-subnet.ts";

describe("a free subnet of a range", () => {
  it("is the first /26 that overlaps no used subnet, whatever their sizes", () => {
    expect(findFreeSubnet("10.213.0.0/16", [])).toBe("10.213.0.0/26");
    expect(findFreeSubnet("10.213.0.0/16", ["10.213.0.0/26"])).toBe("10.213.0.64/26");
    expect(findFreeSubnet("10.213.0.0/16", ["10.213.0.0/25", "10.213.0.200/32"])).toBe(
      "10.213.0.128/26",
    );
    expect(findFreeSubnet("10.213.0.0/16", ["10.213.0.0/17"])).toBe("10.213.128.0/26");
  });

  it("does not exist if one used subnet contains the range, or 1,024 networks fill it", () => {
    expect(findFreeSubnet("10.213.0.0/16", ["10.0.0.0/8"])).toBeUndefined();
    const used = Array.from(
      { length: 1023 },
      (_, index) => `10.213.${Math.floor(index / 4)}.${(index % 4) * 64}/26`,
    );
    expect(findFreeSubnet("10.213.0.0/16", used)).toBe("10.213.255.192/26");
    expect(findFreeSubnet("10.213.0.0/16", [...used, "10.213.255.192/26"])).toBeUndefined();
  });

  it("ignores texts that are not IPv4 subnets", () => {
    expect(findFreeSubnet("10.213.0.0/24", ["fd00::/64", "", "x", "10.213.0.0"])).toBe(
      "10.213.0.0/26",
    );
    expect(findFreeSubnet("fd00::/64", [])).toBeUndefined();
  });

  it("shares no address with a used subnet", () => {
    const subnets = fc.array(
      fc
        .tuple(fc.nat(255), fc.nat(255), fc.integer({ min: 18, max: 32 }))
        .map(([third, fourth, prefix]) => `10.213.${third}.${fourth}/${prefix}`),
    );
    fc.assert(
      fc.property(subnets, (used) => {
        const found = findFreeSubnet("10.213.0.0/16", used);
        if (found === undefined) return;
        const [address = ""] = found.split("/");
        const own = new BlockList();
        own.addSubnet(address, 26);
        for (const other of used) {
          const [first = "", prefix] = other.split("/");
          const block = new BlockList();
          block.addSubnet(first, Number(prefix));
          expect(block.check(address)).toBe(false);
          expect(own.check(first)).toBe(false);
        }
      }),
    );
  });
});
