import { expect, it } from "vitest";
import { ProviderAddresses } from "../../../../../src/assistant/remote/address/provider-addresses.ts";
import { catchAssistantError } from "../../../../support/provider/catch-assistant-error.ts";

const waiting = new AbortController().signal;
const noPorts = () => new Set<number>();

function resolvingTo(...answers: readonly (readonly string[])[]): ProviderAddresses {
  const left = [...answers];
  return new ProviderAddresses({ ownPorts: noPorts, resolve: async () => left.shift() ?? [] });
}

it("an address of a provider is refused if its port is one of Berth's own ports at the time of the check", async () => {
  const ports = new Set<number>();
  const addresses = new ProviderAddresses({ ownPorts: () => ports });
  const check = () => addresses.check("http://127.0.0.1:9000", waiting);

  await expect(check()).resolves.toMatchObject({ addressClass: "loopback" });
  ports.add(9000);
  await expect(check()).rejects.toMatchObject({ code: "forbidden" });
});

it("the addresses of this machine's interfaces count as addresses of the machine itself", async () => {
  const addresses = new ProviderAddresses({
    ownPorts: () => new Set([7777]),
    ownAddresses: () => new Set(["10.1.2.3"]),
  });

  await expect(addresses.check("http://10.1.2.3:7777", waiting)).rejects.toMatchObject({
    code: "forbidden",
  });
  await expect(addresses.check("http://10.1.2.4:7777", waiting)).resolves.toMatchObject({
    addressClass: "private",
  });
});

it("names are resolved by the system's resolver by default", async () => {
  const addresses = new ProviderAddresses({ ownPorts: noPorts });

  await expect(addresses.check("http://localhost:9000/v1/", waiting)).resolves.toEqual({
    baseUrl: "http://localhost:9000/v1",
    addressClass: "loopback",
  });
});

it.each([
  ["is not known", () => Promise.reject(Object.assign(new Error("x"), { code: "ENOTFOUND" }))],
  ["has no address", () => Promise.resolve([])],
  ["fails in its own way", () => Promise.reject(new Error("/etc/resolv.conf: secret"))],
])("a provider whose host name %s is reported as unreachable", async (_, resolve) => {
  const addresses = new ProviderAddresses({ ownPorts: noPorts, resolve });
  const error = await catchAssistantError(addresses.check("https://nowhere.example", waiting));

  expect(error).toMatchObject({ code: "unreachable", param: "base_url" });
  expect(error.message).toContain("nowhere.example");
  expect(error.message).not.toContain("secret");
});

it("the check stops waiting for the resolver when the caller aborts", async () => {
  const left = new AbortController();
  const addresses = new ProviderAddresses({
    ownPorts: noPorts,
    resolve: () => new Promise(() => {}),
  });
  const check = addresses.check("https://slow.example", left.signal);
  left.abort(new Error("gone"));

  await expect(check).rejects.toThrow("gone");
  await expect(addresses.check("https://slow.example", left.signal)).rejects.toThrow("gone");
});

it.each(["no address", "1.2.3", "0x7f.0.0.1", "127.1", "::1::", ""])(
  "a resolver result that is not an address is refused: %j",
  async (answer) => {
    await expect(resolvingTo([answer]).check("https://odd.example", waiting)).rejects.toMatchObject(
      { code: "forbidden" },
    );
  },
);

it("a host name is refused if its class (public, private, loopback) has changed since the provider was added", async () => {
  const host = { host: "moving.example", port: 443 };
  const addresses = resolvingTo(["8.8.8.8", "1.1.1.1"], ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"]);

  expect(await addresses.resolveConnectable(host, "public", waiting)).toEqual([
    "8.8.8.8",
    "1.1.1.1",
  ]);
  const moved = await catchAssistantError(addresses.resolveConnectable(host, "public", waiting));
  expect(moved).toMatchObject({ code: "unreachable" });
  expect(moved.message).toContain(
    "moving.example is now an address of this machine, and was an address of the internet",
  );
  const mixed = await catchAssistantError(addresses.resolveConnectable(host, "public", waiting));
  expect(mixed).toMatchObject({ code: "unreachable" });
  expect(mixed.message).toContain("both");
});

it("a mapped address is returned as its IPv4 address", async () => {
  expect(
    await resolvingTo(["::ffff:10.0.0.7"]).resolveConnectable(
      { host: "nas.home", port: 80 },
      "private",
      waiting,
    ),
  ).toEqual(["10.0.0.7"]);
});
