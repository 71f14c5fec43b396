import { afterAll, describe, expect, test } from "vitest";
import type { Expression } from "../../../../../src/assistant/inference/schema-grammar/expression.ts";
import { GrammarCompiler } from "../../../../../src/assistant/inference/schema-grammar/grammar-compiler.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { GbnfAcceptor } from "../../../../support/gbnf-acceptor.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";

const compiler = new GrammarCompiler({ logger: silentLogger });
const { signal } = new AbortController();

afterAll(() => compiler[Symbol.asyncDispose]());

const person = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer", minimum: 0 } },
  required: ["name"],
};

describe("the grammar compiler", () => {
  test("returns a grammar, a short example document and a validator", async () => {
    const compiled = await compiler.compile(person, signal);
    const acceptor = new GbnfAcceptor(parseGbnf(compiled.gbnf));
    expect(acceptor.accepts('{"name":"Ada","age":36}')).toBe(true);
    expect(acceptor.accepts('{"age":36}')).toBe(false);
    expect(compiled.example).toBe('{"name":""}');
    expect(await compiled.validate({ name: "Ada" })).toEqual([]);
    expect(await compiled.validate({ age: -1 })).toEqual([
      "the document must have required property 'name'",
    ]);
  });

  test("compiles the same schema once, also for concurrent requests", async () => {
    const schema = { type: "array", items: { enum: ["only", "here"] } };
    const [one, other] = await Promise.all([
      compiler.compile(schema, signal),
      compiler.compile({ ...schema }, signal),
    ]);
    const later = await compiler.compile(structuredClone(schema), signal);
    expect([other.gbnf === one.gbnf, later.gbnf === one.gbnf]).toEqual([true, true]);
    expect(compiler.compilations).toBe(2);
  });

  test("treats another order of properties as another schema", async () => {
    const swapped = {
      ...person,
      properties: { age: { type: "integer" }, name: { type: "string" } },
    };
    const { gbnf } = await compiler.compile(swapped, signal);
    expect(new GbnfAcceptor(parseGbnf(gbnf)).accepts('{"age":36,"name":"Ada"}')).toBe(true);
  });

  test("names the keyword and its pointer in a refusal", async () => {
    await expect(
      compiler.compile({ properties: { a: { $dynamicRef: "#x" } } }, signal),
    ).rejects.toMatchObject({
      code: "unsupported_schema",
      message: expect.stringContaining('"$dynamicRef" at #/properties/a/$dynamicRef'),
    });
  });

  test("rejects a request that is aborted", async () => {
    const controller = new AbortController();
    const compiling = compiler.compile(
      { type: "string", pattern: "^unheard of$" },
      controller.signal,
    );
    controller.abort(new Error("the client left"));
    await expect(compiling).rejects.toThrow("the client left");
  });

  test("drops the least recently used grammar if its cache is full", async () => {
    await using small = new GrammarCompiler({ logger: silentLogger, cacheBytesMax: 900 });
    const schemas = [
      { const: "a" },
      { const: "b" },
      { const: "c" },
      { const: "d" },
      { const: "e" },
    ];
    for (const schema of schemas) await small.compile(schema, signal);
    await small.compile({ const: "e" }, signal);
    expect(small.compilations).toBe(5);
    await small.compile({ const: "a" }, signal);
    expect(small.compilations).toBe(6);
  });
});

test("the grammar of json_object accepts any JSON object", async () => {
  const anyObject = compiler.jsonObject();
  const { gbnf, example } = anyObject;
  const acceptor = new GbnfAcceptor(parseGbnf(gbnf));
  expect(acceptor.accepts('{"a":[1,{"b":null}],"c":"é"}')).toBe(true);
  expect(acceptor.accepts("[]")).toBe(false);
  expect(example).toBe("{}");
  expect(await anyObject.validate({})).toEqual([]);
  expect(await anyObject.validate([])).not.toEqual([]);
});

function text(value: string): Expression {
  return { kind: "literal", text: value };
}

test("compileLayout combines the grammars of several schemas into one grammar", async () => {
  const { gbnf, example } = await compiler.compileLayout(
    {
      root: {
        kind: "choice",
        options: [
          {
            kind: "sequence",
            items: [text("<one>"), { kind: "rule", name: "first" }, text("</one>")],
          },
          { kind: "sequence", items: [text("<two>"), { kind: "rule", name: "second" }] },
        ],
      },
      schemas: { first: person, second: { type: "boolean" } },
    },
    signal,
  );
  const acceptor = new GbnfAcceptor(parseGbnf(gbnf));
  expect(acceptor.accepts('<one>{"name":"x"}</one>')).toBe(true);
  expect(acceptor.accepts("<two>true")).toBe(true);
  expect(acceptor.accepts("<one>true</one>")).toBe(false);
  expect(example).toBe("<two>true");
});

test("a document that takes too long to validate counts as invalid, and later documents are validated", async () => {
  await using impatient = new GrammarCompiler({ logger: silentLogger, validateMs: 100 });
  const compiled = await impatient.compile({ type: "string", pattern: "^(a+)+$" }, signal);
  expect(await compiled.validate(`${"a".repeat(60)}b`)).toEqual([
    "the document could not be validated against the schema in time",
  ]);
  expect(await compiled.validate("aaa")).toEqual([]);
});

test("the grammar compiler rejects requests after its disposal", async () => {
  const closed = new GrammarCompiler({ logger: silentLogger });
  const compiling = closed.compile({ const: 1 }, signal);
  await Promise.all([
    expect(compiling).rejects.toMatchObject({ code: "internal" }),
    closed[Symbol.asyncDispose](),
  ]);
  await expect(closed.compile({ const: 2 }, signal)).rejects.toMatchObject({ code: "internal" });
});
