import { describe, expect, test } from "vitest";
import {
  assertListenerAddress,
  findInterface,
  type HostNetworks,
  parseClientSubnets,
} from "../../../../../src/assistant/inference/http/container-listener-address.ts";

const routes = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0102A8C0	0003	0	0	0	00000000	0	0	0
eth0	0002A8C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
tun0	0000000A	0102A8C0	0003	0	0	0	000000FF	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
br-1234	000012AC	00000000	0001	0	0	0	0000FFFF	0	0	0
`;
const machine: HostNetworks = {
  routes: async () => routes,
  isBridge: async (name) => name === "docker0" || name === "br-1234",
};

describe("the network interface of an address", () => {
  test.each([
    ["172.17.0.1", "docker0"],
    ["172.18.255.254", "br-1234"],
    ["192.168.2.7", "eth0"],
    ["192.168.3.7", undefined],
    ["172.19.0.1", undefined],
    // The address is reachable only through a gateway, so it is not an address of this machine.
    ["10.1.2.3", undefined],
  ])("of %s is %s", (address, name) => {
    expect(findInterface(address, routes)).toBe(name);
  });
});

describe("the address of a container listener", () => {
  test.each(["127.0.0.1", "127.9.9.9", "172.17.0.1", "172.18.0.1"])(
    "may be %s",
    async (address) => {
      await expect(assertListenerAddress(address, machine)).resolves.toBeUndefined();
    },
  );

  test.each([
    ["0.0.0.0", "not a private address"],
    ["8.8.8.8", "not a private address"],
    ["::", "not an IPv4 address"],
    ["localhost", "not an IPv4 address"],
    ["", "not an IPv4 address"],
    ["192.168.2.7", "not on a bridge"],
    ["10.1.2.3", "not on a bridge"],
    ["172.19.0.1", "not on a bridge"],
  ])('is refused if it is "%s", because it is %s', async (address, why) => {
    await expect(assertListenerAddress(address, machine)).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining(why),
    });
  });

  test("must be a loopback address if the system's routing table is missing", async () => {
    const other: HostNetworks = { routes: async () => "", isBridge: async () => true };
    await expect(assertListenerAddress("172.17.0.1", other)).rejects.toThrow("not on a bridge");
    await expect(assertListenerAddress("127.0.0.1", other)).resolves.toBeUndefined();
  });
});

describe("the clients of a container listener", () => {
  test("must be in the given networks", () => {
    const clients = parseClientSubnets(["172.18.0.0/16", "fd00:1::/64"]);
    expect(clients.check("172.18.3.4")).toBe(true);
    expect(clients.check("172.19.3.4")).toBe(false);
    expect(clients.check("fd00:1::5", "ipv6")).toBe(true);
    expect(clients.check("fd00:2::5", "ipv6")).toBe(false);
  });

  test.each([
    "0.0.0.0/0",
    "10.0.0.0/7",
    "8.8.8.0/24",
    "::/0",
    "2001:db8::/64",
    "172.18.0.0",
    "172.18.0.0/33",
    "fd00::/129",
    "172.18.0.0/16 ",
    "everybody",
  ])("must be given as valid networks: %j is refused", (subnet) => {
    expect(() => parseClientSubnets([subnet])).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        message: expect.stringContaining("container listener"),
      }),
    );
  });
});
