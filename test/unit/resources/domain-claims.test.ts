import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import {
  areClaimsInConflict,
  type ClaimingApp,
  describeLostClaim,
  findLostClaims,
  listClaims,
} from "../../../src/resources/domain-claims.ts";

function app(name: string, createdDay: number, spec: Partial<AppSpec> = {}): ClaimingApp {
  const creationTimestamp = `2030-01-${String(createdDay).padStart(2, "0")}T00:00:00.000Z`;
  return {
    metadata: { name, creationTimestamp, deletionTimestamp: null },
    spec: { image: "web:1", port: 80, ...spec },
  };
}

const domains = { baseDomain: "localhost", apiDomain: "berth.localhost" };

const losers = (...apps: readonly ClaimingApp[]) => [...findLostClaims(apps, domains).keys()];

function messageForB(...apps: readonly ClaimingApp[]): string | undefined {
  const claim = findLostClaims(apps, domains).get("b");
  return claim && describeLostClaim(claim);
}

describe("the domain claims of an App", () => {
  it("are the App's own domain, further domains and redirected hosts, without duplicates", () => {
    const spec: AppSpec = {
      image: "web:1",
      port: 80,
      ingress: {
        domains: ["b.test", "a.localhost"],
        redirects: [{ from: "c.test" }],
        pathPrefix: "/api",
      },
    };
    expect(listClaims("a", spec, "localhost")).toEqual([
      { domain: "a.localhost", pathPrefix: "/api" },
      { domain: "b.test", pathPrefix: "/api" },
      { domain: "c.test", pathPrefix: "", redirects: true },
    ]);
  });

  it("are empty for an App with `domain: none`", () => {
    expect(listClaims("a", { image: "web:1", port: 80, domain: "none" }, "localhost")).toEqual([]);
  });

  it("are empty for an App without a port, unless the spec has a domain", () => {
    expect(listClaims("a", { image: "web:1" }, "localhost")).toEqual([]);
    expect(listClaims("a", { image: "web:1", domain: "a.test" }, "localhost")).toHaveLength(1);
  });
});

describe("a domain of two Apps", () => {
  const domain = "x.test";

  it("belongs to the older App, whatever the order of the list", () => {
    const [old, young] = [app("z", 1, { domain }), app("a", 2, { domain })];
    expect(losers(old, young)).toEqual(["a"]);
    expect(losers(young, old)).toEqual(["a"]);
  });

  it("belongs to the App whose name sorts first if both have the same age", () => {
    expect(losers(app("b", 1, { domain }), app("a", 1, { domain }))).toEqual(["b"]);
  });

  it("can be shared if the paths differ", () => {
    const below = { domain, ingress: { pathPrefix: "/api" } };
    expect(losers(app("a", 1, { domain }), app("b", 2, below))).toEqual([]);
    expect(losers(app("a", 1, below), app("b", 2, below))).toEqual(["b"]);
  });

  it("that one App redirects cannot be shared by path, even if that App is younger", () => {
    const redirecting = { ingress: { redirects: [{ from: domain }] } };
    const below = { domain, ingress: { pathPrefix: "/api" } };
    expect(messageForB(app("a", 1, redirecting), app("b", 2, below))).toBe(
      "x.test/api belongs to the app a, which is older and redirects all of x.test: choose another domain, or remove the redirect from a",
    );
    expect(messageForB(app("a", 1, below), app("b", 2, redirecting))).toBe(
      "x.test cannot be redirected: x.test/api belongs to the app a, which is older. Redirect another domain, or remove the domain from the spec of a",
    );
    expect(
      losers(app("a", 1, { ...below, ingress: { ...below.ingress, ...redirecting.ingress } })),
    ).toEqual([]);
  });

  it("may be the default domain of one App and a further domain of the other", () => {
    const claiming = app("b", 1, { ingress: { domains: ["a.localhost"] } });
    expect(losers(claiming, app("a", 2))).toEqual(["a"]);
  });

  it("is free as soon as its owner is being deleted", () => {
    const old = app("a", 1, { domain });
    const leaving = { ...old, metadata: { ...old.metadata, deletionTimestamp: "2030-02-01" } };
    expect(losers(leaving, app("b", 2, { domain }))).toEqual([]);
  });

  it("does not reserve further domains for the App that does not get it", () => {
    const both = app("b", 2, { domain, ingress: { domains: ["y.test"] } });
    expect(losers(app("a", 1, { domain }), both, app("c", 3, { domain: "y.test" }))).toEqual(["b"]);
  });

  it("is reported with the name of its owner and a remedy", () => {
    const lost = findLostClaims([app("a", 1, { domain }), app("b", 2, { domain })], domains);
    expect(lost.get("b")).toEqual({ domain, pathPrefix: "", owner: "a" });
    const claim = { domain, pathPrefix: "/api", owner: "a" };
    expect(describeLostClaim(claim)).toBe(
      "x.test/api belongs to the app a, which is older: choose another domain or pathPrefix, or delete a",
    );
  });
});

describe("the domain of the API", () => {
  it("belongs to no App, with any path or as a redirect, and the message explains this", () => {
    const domain = "berth.localhost";
    expect(losers(app("a", 1, { domain }), app("b", 2, { domain: "b.test" }))).toEqual(["a"]);
    expect(losers(app("berth", 1))).toEqual(["berth"]);
    expect(losers(app("b", 1, { domain, ingress: { pathPrefix: "/b" } }))).toEqual(["b"]);
    expect(losers(app("b", 1, { ingress: { redirects: [{ from: domain }] } }))).toEqual(["b"]);
    expect(messageForB(app("b", 1, { domain }))).toBe(
      "berth.localhost is the address of Berth's own API (the setting api_domain): choose another domain",
    );
  });
});

it("a domain never belongs to two Apps that both keep their domains", () => {
  const names = fc.constantFrom("a.test", "b.test", "c.test", "d.test");
  const apps = fc.uniqueArray(
    fc.record({
      name: fc.stringMatching(/^[a-z]{1,3}$/),
      day: fc.integer({ min: 1, max: 5 }),
      domain: names,
      more: fc.array(names, { maxLength: 3 }),
      path: fc.constantFrom(undefined, "/x"),
      from: fc.array(names, { maxLength: 1 }),
    }),
    { selector: ({ name }) => name, maxLength: 12 },
  );
  fc.assert(
    fc.property(apps, (list) => {
      const all = list.map(({ name, day, domain, more, path, from: redirected }) =>
        app(name, day, {
          domain,
          ingress: {
            domains: more,
            redirects: redirected.map((from) => ({ from })),
            ...(path === undefined ? {} : { pathPrefix: path }),
          },
        }),
      );
      const lost = findLostClaims(all, domains);
      const held = all
        .filter(({ metadata }) => !lost.has(metadata.name))
        .flatMap(({ metadata: { name }, spec }) =>
          listClaims(name, spec, "localhost").map((claim) => ({ name, claim })),
        );
      for (const { name, claim } of held)
        for (const other of held)
          expect(name !== other.name && areClaimsInConflict(claim, other.claim)).toBe(false);
      for (const { owner } of lost.values()) expect(lost.has(owner ?? "")).toBe(false);
    }),
  );
});
