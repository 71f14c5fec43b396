import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../../src/base/canonical-json.ts";
import { buildCaddyConfig } from "../../../../src/controller/ingress/caddy-config.ts";
import { isAtLeast, parseCaddyVersion } from "../../../../src/controller/ingress/caddy-version.ts";
import { proposeDirectRoutes } from "../../../../src/controller/ingress/direct-routes.ts";
import { isLocalSubnet } from "../../../../src/controller/ingress/host-reachability.ts";
import { PasswordHashes } from "../../../../src/controller/ingress/password-hashes.ts";
import { isInternalName, type Site } from "../../../../src/controller/ingress/site.ts";

const settings = {
  folder: "/data/ingress",
  adminSocket: "/data/ingress/admin.sock",
  httpPort: 80,
  httpsPort: 443,
  acmeEmail: "me@example.org",
  version: "2.6.2",
};

function site(app: string, changes: Partial<Site> = {}): Site {
  return {
    app,
    domains: [`${app}.localhost`],
    pathPrefix: "",
    stripPrefix: false,
    redirects: [],
    users: undefined,
    maintenance: undefined,
    https: true,
    ...changes,
  };
}

function configOf(version: string): string {
  return JSON.stringify(buildCaddyConfig({ ...settings, version }, []));
}

function hash(instance: string, ...of: [string, string, string]): Promise<string> {
  return new PasswordHashes(instance).hash(...of);
}

describe("the configuration of Caddy", () => {
  it("contains no Apps that the route table can describe completely", () => {
    const special = site("special", { pathPrefix: "/x" });
    expect(buildCaddyConfig(settings, [site("a"), special, site("b")])).toEqual(
      buildCaddyConfig(settings, [special]),
    );
  });

  it("does not depend on the order of the Apps", () => {
    const sites = [
      site("c", { pathPrefix: "/x" }),
      site("a", { pathPrefix: "/y", domains: ["shop.example.org", "a.example.org"] }),
      site("b", { maintenance: "page", https: false }),
    ];
    expect(canonicalJson(buildCaddyConfig(settings, sites))).toBe(
      canonicalJson(buildCaddyConfig(settings, sites.toReversed())),
    );
  });

  it("uses public certificate authorities for public names only", () => {
    const config = buildCaddyConfig(settings, [
      site("a", { domains: ["a.localhost", "a.example.org", "*.example.org", "nas.local"] }),
      site("b", { domains: ["b.example.org"], https: false }),
    ]);
    expect(config).toMatchObject({
      apps: {
        tls: {
          certificates: { automate: ["a.example.org"] },
          automation: {
            policies: [
              {
                subjects: ["a.example.org"],
                issuers: [{ module: "acme", email: "me@example.org" }],
              },
              { issuers: [{ module: "internal" }], on_demand: true },
            ],
            on_demand: { ask: "http://127.0.0.1:80/.well-known/berth/certificate" },
          },
        },
        pki: { certificate_authorities: { local: { install_trust: false } } },
      },
    });
  });

  it("has no TLS without an HTTPS port", () => {
    const text = JSON.stringify(
      buildCaddyConfig({ ...settings, httpsPort: undefined }, [site("a")]),
    );
    expect(text).not.toContain("tls");
    expect(text).not.toContain("https_port");
  });

  it("uses features of newer versions of Caddy only for these versions", () => {
    expect(configOf("2.6.2")).not.toContain("stream_close_delay");
    expect(configOf("2.7.0")).toContain("stream_close_delay");
    expect(configOf("2.7.0")).toContain('"ask"');
    expect(configOf("2.8.4")).toContain('"permission"');
    expect(configOf("2.10.0")).not.toContain('"ask"');
  });
});

describe("versions of Caddy", () => {
  it.each([
    ["2.6.2", "2.6.2"],
    ["v2.8.4 h1:q3pe0wpBj1OcHFZ3n/1nl4V4bxBrYoSoab7rL9BMYNk=", "2.8.4"],
    ["v2.10.0", "2.10.0"],
    ["(devel)", undefined],
  ])("are read from %j", (text, version) => {
    expect(parseCaddyVersion(text)).toBe(version);
  });

  it("are compared as numbers", () => {
    expect(isAtLeast("2.10.0", 2, 7)).toBe(true);
    expect(isAtLeast("2.7", 2, 7)).toBe(true);
    expect(isAtLeast("2.6.9", 2, 7)).toBe(false);
    expect(isAtLeast("3.0.0", 2, 7)).toBe(true);
    expect(isAtLeast("1.9.0", 1, 10)).toBe(false);
  });
});

describe("host names", () => {
  it.each([
    "localhost",
    "a.localhost",
    "nas",
    "printer.local",
    "x.home.arpa",
    "*.a.test",
    "a.internal",
  ])("such as %s are internal", (name) => expect(isInternalName(name)).toBe(true));

  it.each([
    "example.org",
    "local.example.org",
    "*.example.org",
    "mylocalhost.org",
    "a.localhost.org",
  ])("such as %s are public", (name) => expect(isInternalName(name)).toBe(false));
});

describe("hashed passwords of the ingress", () => {
  it("are the same at each start, and differ by instance, App, user and password", async () => {
    const first = await hash("one", "web", "ann", "secret");
    expect(await hash("one", "web", "ann", "secret")).toBe(first);
    const others = await Promise.all([
      hash("two", "web", "ann", "secret"),
      hash("one", "api", "ann", "secret"),
      hash("one", "web", "bob", "secret"),
      hash("one", "web", "ann", "Secret"),
    ]);
    expect(new Set([first, ...others]).size).toBe(5);
  });

  it("have a salt that does not depend on the password", async () => {
    const [a, b] = [await hash("one", "web", "ann", "a"), await hash("one", "web", "ann", "b")];
    expect(a.slice(0, 29)).toBe(b.slice(0, 29));
    expect(a).not.toBe(b);
  });
});

describe("a network of the machine", () => {
  const table = [
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
    "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0",
    "br-1a2b\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
    "tun0\t000013AC\t010013AC\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0",
    "br-3c4d\t8000D50A\t00000000\t0001\t0\t0\t0\t80FFFFFF\t0\t0\t0",
  ].join("\n");

  it.each([
    ["172.18.0.0/16", true],
    ["10.213.0.128/25", true],
    ["172.18.0.0/24", false],
    // The network 172.19.0.0/16 is reached through a gateway, as from within a virtual machine.
    ["172.19.0.0/16", false],
    ["172.20.0.0/16", false],
    ["0.0.0.0/0", false],
    ["fd00::/64", false],
    ["", false],
  ])("is recognised as a network of this machine or not: %s gives %s", (subnet, own) => {
    expect(isLocalSubnet(subnet, table)).toBe(own);
  });
});

/** Proposes direct routes for `sites`. Each App has one known target, except the App "new", which has none. */
function propose(...sites: Site[]) {
  return proposeDirectRoutes(sites, (app) => Promise.resolve(app === "new" ? [] : [[`${app}:80`]]));
}

describe("direct routes", () => {
  it("exist for Apps without options if their targets are known and no other App shares the host", async () => {
    const { routes } = await propose(
      site("plain", { domains: ["plain.localhost", "shared.localhost", "127.0.0.1"] }),
      site("api", { domains: ["shared.localhost"], pathPrefix: "/api" }),
      site("new"),
    );
    expect(routes).toEqual([{ app: "plain", hosts: ["plain.localhost"], slots: [["plain:80"]] }]);
  });

  it("do not exist for hosts that are redirected to HTTPS", async () => {
    const sites = [site("shop", { domains: ["shop.example.org", "shop.localhost"] })];
    const config = buildCaddyConfig(settings, sites, await propose(...sites));
    const hosts = ["http", "https"].map(
      (scheme) =>
        canonicalJson(config).match(
          new RegExp(`"${scheme}":{.*?"group":"direct".*?"host":(\\[[^\\]]*\\])`),
        )?.[1],
    );
    expect(hosts).toEqual(['["shop.localhost"]', '["shop.example.org","shop.localhost"]']);
  });

  it("have a generation that is the same for equal sets of routes and different for other sets", async () => {
    const sets = [await propose(site("a")), await propose(site("b")), await propose(site("a"))];
    const generations = sets.map(({ generation }) => generation);
    expect(new Set(generations).size).toBe(2);
    expect(generations[2]).toBe(generations[0]);
  });

  it("are grouped if there are many routes, so that a request tries only few of them", async () => {
    const sites = Array.from({ length: 100 }, (_, index) => site(`app-${index}`));
    const config = canonicalJson(buildCaddyConfig(settings, sites, await propose(...sites)));
    expect(config.match(/"host":\["app-0\.localhost","app-1\.localhost",/g)).toHaveLength(2);
  });
});
