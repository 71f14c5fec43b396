import { afterAll, describe, expect, it } from "vitest";
import { createArgumentValidator } from "../../../../../src/assistant/agent/manifests/argument-validator.ts";
import type { JsonObject } from "../../../../../src/assistant/agent/port.ts";
import { GrammarCompiler } from "../../../../../src/assistant/inference/schema-grammar/grammar-compiler.ts";
import { buildChoiceGuide } from "../../../../../src/assistant/overlay/agent-pass/choice-guide.ts";
import type { ToolCandidate } from "../../../../../src/assistant/overlay/agent-pass/tool-candidates.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { corpusApps } from "../../../../support/discover-corpus.ts";
import { GbnfAcceptor } from "../../../../support/gbnf-acceptor.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";
import { GbnfSampler } from "../../../../support/gbnf-sampler.ts";
import { candidatesOf, writtenApps } from "../../../../support/guided-tools.ts";
import { seededRandom } from "../../../../support/random.ts";

const compiler = new GrammarCompiler({ logger: silentLogger });
const { signal } = new AbortController();

afterAll(() => compiler[Symbol.asyncDispose]());

async function compileGuide(candidates: readonly ToolCandidate[], enforced = candidates) {
  const guide = buildChoiceGuide(candidates, new Set(enforced));
  if (guide.kind !== "json_schema") throw new Error("no schema");
  return compiler.compile(guide.schema, signal);
}

function withSchema(name: string, inputSchema: ToolCandidate["inputSchema"]): ToolCandidate {
  const shared = { appId: "a.b", tier: "read", description: "d", digest: name } as const;
  return { ...shared, name: `a.b/${name}`, tool: name, inputSchema };
}

/** The tools of an app as the agent pass shows them to the model, at most eight. */
const shown = writtenApps().flatMap((app) => {
  const all = candidatesOf(app);
  const first = all.slice(0, 8);
  const last = all.slice(-8);
  return [
    { what: `${app.appId}, the first`, candidates: first },
    ...(all.length > 8 ? [{ what: `${app.appId}, the last`, candidates: last }] : []),
  ];
});

const inFixtures = corpusApps().map((app) => ({ candidates: candidatesOf(app).slice(0, 8) }));

describe("the guide that restricts the model's choice of a tool", () => {
  it.each(shown)("can be enforced for the tools of $what", async ({ candidates }) => {
    const guide = await compileGuide(candidates);
    const validators = new Map(
      candidates.map(({ name, inputSchema }) => [name, createArgumentValidator(inputSchema)]),
    );
    const sampler = new GbnfSampler(parseGbnf(guide.gbnf));
    const random = seededRandom(11);
    const chosen = new Set<string>();
    for (let count = 0; count < 15; count += 1) {
      const choice: { tool: string; args?: JsonObject } = JSON.parse(sampler.sample(random, 60));
      expect(await guide.validate(choice)).toEqual([]);
      const { tool, args } = choice;
      chosen.add(tool);
      if (tool !== "none") expect(validators.get(tool)?.(args ?? {})).toEqual([]);
    }
    expect(chosen.size).toBeGreaterThan(1);
  });

  it("can be enforced for every app of the discovery fixtures", async () => {
    for (const { candidates } of inFixtures) {
      const guide = await compileGuide(candidates);
      expect(await guide.validate(JSON.parse(guide.example))).toEqual([]);
    }
  });

  it("accepts one call of any of the tools, or the choice `none`, and nothing else", async () => {
    const tools = ["one", "two"].map((name) =>
      withSchema(name, {
        type: "object",
        properties: { a: { type: "string", maxLength: 3 } },
        required: ["a"],
        additionalProperties: false,
      }),
    );
    const acceptor = new GbnfAcceptor(parseGbnf((await compileGuide(tools)).gbnf));
    const accepts = (document: unknown) => acceptor.accepts(JSON.stringify(document));
    expect(accepts({ tool: "none" })).toBe(true);
    expect(accepts({ tool: "a.b/one", args: { a: "x" } })).toBe(true);
    expect(accepts({ tool: "a.b/two", args: { a: "xyz" } })).toBe(true);
    expect(accepts({ tool: "a.b/one" })).toBe(false);
    expect(accepts({ tool: "a.b/one", args: {} })).toBe(false);
    expect(accepts({ tool: "a.b/one", args: { a: "long" } })).toBe(false);
    expect(accepts({ tool: "a.b/three", args: { a: "x" } })).toBe(false);
    expect(accepts({ tool: "none", args: {} })).toBe(false);
  });

  it("keeps the references of each tool's schema inside that schema, in JSON Schema 2020-12 and draft-07", async () => {
    const modern = withSchema("modern", {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: { x: { $ref: "#/$defs/short" } },
      required: ["x"],
      additionalProperties: false,
      $defs: { short: { type: "string", maxLength: 1 } },
    });
    const old = withSchema("old", {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { x: { $ref: "#/definitions/short" } },
      required: ["x"],
      additionalProperties: false,
      definitions: { short: { type: "array", items: [{ const: 1 }], additionalItems: false } },
    });
    const guide = await compileGuide([modern, old]);
    const acceptor = new GbnfAcceptor(parseGbnf(guide.gbnf));
    const cases = [
      [{ tool: "a.b/modern", args: { x: "s" } }, true],
      [{ tool: "a.b/modern", args: { x: [1] } }, false],
      [{ tool: "a.b/old", args: { x: [1] } }, true],
      [{ tool: "a.b/old", args: { x: "s" } }, false],
    ] as const;
    for (const [choice, isGood] of cases) {
      expect(acceptor.accepts(JSON.stringify(choice))).toBe(isGood);
      expect((await guide.validate(choice)).length === 0).toBe(isGood);
    }
  });

  it("accepts any object as the arguments of a tool whose schema is not enforced", async () => {
    const odd = withSchema("odd", {
      type: "object",
      properties: { a: { type: "array", items: { type: "string" }, uniqueItems: true } },
      patternProperties: { "(?<=x)y": { type: "integer" } },
    });
    const good = withSchema("good", { type: "object", additionalProperties: false });
    await expect(compileGuide([odd, good])).rejects.toMatchObject({ code: "unsupported_schema" });
    const acceptor = new GbnfAcceptor(parseGbnf((await compileGuide([odd, good], [good])).gbnf));
    expect(acceptor.accepts('{"tool":"a.b/odd","args":{"a":[{}]}}')).toBe(true);
    expect(acceptor.accepts('{"tool":"a.b/odd","args":7}')).toBe(false);
    expect(acceptor.accepts('{"tool":"a.b/good","args":{"a":1}}')).toBe(false);
  });
});
