import { BlockList } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  divideSubnet,
  findPairedAddress,
  findReservedAddress,
  getPlaceInPair,
} from "../../../src/controller/reserved-addresses.ts";

describe("a divided subnet", () => {
  it("leaves the lower half to the engine", () => {
    expect(divideSubnet("172.18.0.0/16")).toEqual({
      assigned: "172.18.0.0/17",
      reserved: "172.18.128.0/17",
    });
    expect(divideSubnet("192.168.16.0/20")).toEqual({
      assigned: "192.168.16.0/21",
      reserved: "192.168.24.0/21",
    });
    expect(divideSubnet("10.213.7.0/24")?.reserved).toBe("10.213.7.128/25");
    expect(divideSubnet("200.0.0.16/28")?.reserved).toBe("200.0.0.24/29");
  });

  it("does not exist for a subnet that is too small, or for a text that is not an IPv4 subnet", () => {
    for (const subnet of ["10.0.0.0/29", "10.0.0.0/32", "fd00::/64", "10.0.0.0", "", "x/16"])
      expect(divideSubnet(subnet)).toBeUndefined();
  });
});

describe("a reserved address", () => {
  const subnets = fc
    .record({ bits: fc.integer({ min: 8, max: 28 }), base: fc.nat({ max: 2 ** 32 - 1 }) })
    .map(({ bits, base }) => {
      const first = base - (base % 2 ** (32 - bits));
      const text = [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256).join(".");
      return { text, bits };
    });

  it("is in the upper half of the subnet, and forms a pair with exactly one other address", () => {
    fc.assert(
      fc.property(subnets, fc.nat({ max: 300 }), ({ text, bits }, index) => {
        const { assigned = "", reserved = "" } = divideSubnet(`${text}/${bits}`) ?? {};
        const address = findReservedAddress(reserved, index);
        if (address === undefined) {
          expect(index).toBeGreaterThanOrEqual(2 ** (31 - bits) - 2);
          return;
        }
        const whole = new BlockList();
        whole.addSubnet(text, bits);
        const lower = new BlockList();
        lower.addSubnet(text, Number(assigned.split("/")[1]));
        expect([whole.check(address), lower.check(address)]).toEqual([true, false]);
        const other = findPairedAddress(reserved, address) ?? "";
        expect(findPairedAddress(reserved, other)).toBe(address);
        expect(getPlaceInPair(address)).toBe(index % 2);
        expect(getPlaceInPair(other)).toBe(1 - (index % 2));
        expect(other).toBe(findReservedAddress(reserved, index % 2 === 0 ? index + 1 : index - 1));
      }),
    );
  });

  it("is never the broadcast address, nor the address that would form a pair with it", () => {
    expect(findReservedAddress("10.0.0.128/25", 125)).toBe("10.0.0.253");
    expect(findReservedAddress("10.0.0.128/25", 126)).toBeUndefined();
    expect(findReservedAddress("10.0.0.128/25", -1)).toBeUndefined();
    expect(findReservedAddress("", 0)).toBeUndefined();
  });

  it("is the only kind of address for which findPairedAddress() returns a result", () => {
    for (const address of ["10.0.0.2", "10.0.1.128", "10.0.0.255", "app.internal", "fd00::1"])
      expect(findPairedAddress("10.0.0.128/25", address)).toBeUndefined();
  });
});
