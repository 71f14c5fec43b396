import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  assessTrust,
  decideCall,
  extendChain,
  findChainProblem,
  type PolicyDecision,
  trustedProvenance,
} from "../../../../src/assistant/agent/policy.ts";
import type { Tier } from "../../../../src/assistant/agent/port.ts";

const trusted = ["user"];
const untrusted = ["user", "web:example.org"];
const unknown: string[] = [];

const cells: readonly [
  Tier,
  string,
  readonly string[],
  PolicyDecision["disposition"],
  Tier,
  number,
][] = [
  ["read", "trusted", trusted, "run", "read", 0],
  ["read", "untrusted", untrusted, "confirm-chip", "write", 0],
  ["read", "unknown", unknown, "confirm-chip", "write", 0],
  ["write", "trusted", trusted, "confirm-chip", "write", 0],
  ["write", "untrusted", untrusted, "confirm-modal", "destructive", 0],
  ["write", "unknown", unknown, "confirm-modal", "destructive", 0],
  ["destructive", "trusted", trusted, "confirm-modal", "destructive", 0],
  ["destructive", "untrusted", untrusted, "confirm-modal", "destructive", 1_500],
  ["destructive", "unknown", unknown, "confirm-modal", "destructive", 0],
];

describe("the table of confirmation rules", () => {
  it.each(cells)(
    "a %s call with %s provenance gets the decision of the documented table",
    (tier, trust, chain, disposition, effective, holdMs) => {
      expect(decideCall(tier, chain)).toEqual({ trust, disposition, effective, holdMs });
    },
  );
});

describe("provenance labels", () => {
  it.each(["user", "system", "user:", "user:voice", "system:timer:x"])(
    "%s is a trusted label",
    (label) => {
      expect(assessTrust([label])).toBe("trusted");
    },
  );

  it.each([
    "",
    ":",
    ":user",
    "User",
    " user",
    "user ",
    "users",
    "user/x",
    "app:user",
    "web",
    "us\u0435r",
  ])("%j is not a trusted label", (label) => expect(assessTrust([label])).toBe("untrusted"));

  it("have the kinds that the bus property TrustedProvenance lists", () => {
    expect(trustedProvenance).toEqual(["user", "system"]);
  });
});

const label = fc.oneof(
  fc.constantFrom("user", "system", "user:x", "", "web:a", "app:org.example.a", "User"),
  fc.string(),
);
const chains = fc.array(label, { maxLength: 6 });
const tiers = fc.constantFrom<Tier>("read", "write", "destructive");

const strengths = ["run", "confirm-chip", "confirm-modal"];

function isWeaker(one: PolicyDecision, other: PolicyDecision): boolean {
  const [a, b] = [strengths.indexOf(one.disposition), strengths.indexOf(other.disposition)];
  return a < b || one.holdMs < other.holdMs;
}

describe("a provenance chain", () => {
  it("never gets a weaker decision because of an additional label, at any position", () => {
    fc.assert(
      fc.property(
        tiers,
        fc.array(label, { minLength: 1, maxLength: 6 }),
        label,
        fc.nat(),
        (tier, chain, more, at) => {
          const place = at % (chain.length + 1);
          expect(
            isWeaker(decideCall(tier, chain.toSpliced(place, 0, more)), decideCall(tier, chain)),
          ).toBe(false);
        },
      ),
    );
  });

  it("never gets a weaker decision because the label of the calling app is added, even if the chain was empty", () => {
    fc.assert(
      fc.property(
        tiers,
        fc.option(chains, { nil: undefined }),
        fc.string(),
        (tier, claimed, app) => {
          const chain = extendChain(claimed, app);
          expect(isWeaker(decideCall(tier, chain), decideCall(tier, claimed ?? []))).toBe(false);
          expect(chain.slice(0, claimed?.length ?? 0)).toEqual(claimed ?? []);
          expect(assessTrust(chain)).toBe("untrusted");
        },
      ),
    );
  });

  it("stays unchanged if the bus has identified no app", () => {
    expect(extendChain(["web"], undefined)).toEqual(["web"]);
    expect(extendChain(undefined, undefined)).toEqual([]);
    expect(extendChain(["user"], "org.example.a")).toEqual(["user", "app:org.example.a"]);
    expect(extendChain(["app:org.example.a", "user"], "org.example.a")).toHaveLength(2);
    // The label of `org.example.ab` is not taken for that of `org.example.a`, with which it begins.
    expect(extendChain(["app:org.example.ab"], "org.example.a")).toEqual([
      "app:org.example.ab",
      "app:org.example.a",
    ]);
  });

  it("is refused if it is too long, and never truncated", () => {
    expect(findChainProblem(undefined)).toBeUndefined();
    expect(findChainProblem(Array.from({ length: 32 }, () => "x".repeat(128)))).toBeUndefined();
    expect(findChainProblem(Array.from({ length: 33 }, () => "user"))).toContain("33 labels");
    expect(findChainProblem(["user", "ä".repeat(65)])).toContain("label 2");
  });
});
