import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { UNBOUNDED_AFTER_MS } from "../../support/wait-limits.ts";

const head = (name = "hello", kind = "App") =>
  `apiVersion: berth.dev/v1\nkind: ${kind}\nmetadata: { name: ${name} }\n`;
const app = (name = "hello") => `${head(name)}spec:\n  image: nginx\n`;

/** Returns a short text that becomes very long when its aliases are expanded. */
function bomb(): string {
  const lines = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (const [index, key] of "bcdefghij".split("").entries()) {
    const before = "abcdefghij"[index] ?? "a";
    lines.push(`${key}: &${key} [${Array.from({ length: 9 }, () => `*${before}`).join(", ")}]`);
  }
  return lines.join("\n");
}

/** Formats errors as a compiler does. */
function errorsOf(input: string | Uint8Array): string[] {
  return parseManifests(input).errors.map(
    ({ line, column, message }) => `${line}:${column} ${message}`,
  );
}

describe("parseManifests", () => {
  it("reads one document", () => {
    const { documents, errors } = parseManifests(app());
    expect(errors).toEqual([]);
    expect(documents.map(({ manifest }) => manifest)).toEqual([
      {
        apiVersion: "berth.dev/v1",
        kind: "App",
        metadata: { name: "hello" },
        spec: { image: "nginx" },
      },
    ]);
    expect(documents[0]).toMatchObject({ line: 1, column: 1 });
  });

  it("reads several documents, and skips empty ones", () => {
    const text = `# a file\n---\n---\n${app("one")}---\n# nothing\n---\nnull\n---\n${app("two")}---\n`;
    const { documents, errors } = parseManifests(text);
    expect(errors).toEqual([]);
    expect(documents.map(({ manifest, line }) => [manifest.metadata.name, line])).toEqual([
      ["one", 4],
      ["two", 14],
    ]);
  });

  it.each(["", "\n", "# only a comment\n", "---\n", "---\n...\n", "\uFEFF"])(
    "returns no document and no error for %j",
    (text) => {
      expect(parseManifests(text)).toEqual({ documents: [], errors: [] });
    },
  );

  it("reads JSON, also with tabs, and text with a byte order mark or CRLF", () => {
    const value = {
      apiVersion: "berth.dev/v1",
      kind: "App",
      metadata: { name: "x" },
      spec: { image: "a" },
    };
    for (const text of [
      JSON.stringify(value),
      JSON.stringify(value, null, "\t"),
      `\uFEFF${JSON.stringify(value, null, 2)}`,
      app("x").replace("nginx", "a").replaceAll("\n", "\r\n"),
    ]) {
      expect(parseManifests(Buffer.from(text)).documents[0]?.manifest).toEqual(value);
    }
  });

  it("follows YAML 1.2: yes and no are strings, and strings need no quotes", () => {
    const { documents } = parseManifests(
      `${app()}  env: { A: yes, B: no, C: 12:30, D: 8080, E: true }\n`,
    );
    expect(documents[0]?.manifest.spec).toMatchObject({
      env: { A: "yes", B: "no", C: "12:30", D: 8080, E: true },
    });
  });

  it("expands aliases", () => {
    const { documents, errors } = parseManifests(
      `${head()}spec:\n  image: &i nginx\n  env: { A: &a x, B: *a, C: *i }\n`,
    );
    expect(errors).toEqual([]);
    expect(documents[0]?.manifest.spec).toMatchObject({ env: { A: "x", B: "x", C: "nginx" } });
  });

  it("locates each issue at its key, and the issue of a missing key at the parent", () => {
    const text = `${head()}spec:\n  imgae: nginx\n  port: eighty\n  volumes:\n    - name: data\n      path: data\n    - name: logs\n  env:\n    TOKEN:\n      key: x\n`;
    expect(errorsOf(text)).toEqual([
      '5:3 spec.imgae: unknown key "imgae"; did you mean "image"?',
      '6:3 spec.port: expected a whole number from 1 to 65535, found "eighty"',
      '9:7 spec.volumes[0].path: expected an absolute path, found "data"',
      '10:7 spec.volumes[1]: missing key "path" (an absolute path)',
      expect.stringMatching(/^12:5 spec\.env\.TOKEN: missing key "secret"/),
    ]);
  });

  it("locates issues in flow style, in the second document, and with CRLF", () => {
    const second = `${app("one")}---\n${head("two")}spec: { image: a, prot: 80 }\n`;
    const expected = ['10:19 spec.prot: unknown key "prot"; did you mean "port"?'];
    expect(errorsOf(second)).toEqual(expected);
    expect(errorsOf(second.replaceAll("\n", "\r\n"))).toEqual(expected);
  });

  it("locates any field of a document, and locates a missing field at its nearest parent", () => {
    const document = parseManifests(`${app()}  env:\n    A: b\n`).documents[0];
    expect(document?.locate("/spec/image")).toEqual({ line: 5, column: 3 });
    expect(document?.locate("/spec/env/A")).toEqual({ line: 7, column: 5 });
    expect(document?.locate("/spec/env/B/c")).toEqual({ line: 6, column: 3 });
    expect(document?.locate("/spec/ports/0")).toEqual({ line: 4, column: 1 });
    expect(document?.locate("")).toEqual({ line: 1, column: 1 });
  });

  it("returns the valid documents, and the errors of the others", () => {
    const { documents, errors } = parseManifests(`${app("good")}---\n${head("bad")}spec: {}\n`);
    expect(documents.map(({ manifest }) => manifest.metadata.name)).toEqual(["good"]);
    expect(errors).toHaveLength(1);
  });

  it.each([
    "!hunter2",
    "!hunter2!x",
    "!<hunter2> x",
    "!!hunter2 x",
    "*hunter2",
    "|hunter2",
    ">hunter2 x",
    '"\\hunter2"',
    '"\\uhunter2"',
    "[hunter2",
    "{ hunter2: ",
    '"x" hunter2',
    "hunter2: x",
    "@hunter2",
    "`hunter2",
    "%hunter2",
    "[hunter2]",
    "- hunter2",
    "x\n%hunter2",
    "x\n--- hunter2",
    "x\n}hunter2",
  ])("shows no part of a value that lacks the quotes that YAML requires: %s", (value) => {
    const errors = errorsOf(`${head("db", "Secret")}spec:\n  data:\n    PASSWORD: ${value}\n`);
    expect(errors).not.toEqual([]);
    expect(errors.join("\n")).not.toMatch(/hunter|hunt|ter2/);
  });

  it("refuses a duplicate resource, but not two kinds with the same name", () => {
    expect(errorsOf(`${app()}---\n${app()}`)).toEqual([
      '9:13 App "hello" is declared already in line 1 of this file',
    ]);
    const secret = `${head("hello", "Secret")}spec: { data: {} }\n`;
    expect(errorsOf(`${app()}---\n${secret}`)).toEqual([]);
  });

  it.each<[string, string, string]>([
    [
      "an unknown kind",
      app().replace("App", "Deployment"),
      '2:1 kind: unknown kind "Deployment"; known kinds: App, Model, Template, Secret',
    ],
    [
      "another version",
      app().replace("/v1", "/v2"),
      '1:1 apiVersion: expected "berth.dev/v1", found "berth.dev/v2"',
    ],
    ["plain text", "hello", "1:1 expected a mapping with apiVersion, kind, metadata and spec"],
    ["a key twice", `${app()}  image: b\n`, '6:3 the key "image" occurs twice'],
    [
      "a key twice in flow style",
      `${head()}spec: { image: a, "image": b }\n`,
      '4:19 the key "image" occurs twice',
    ],
    ["__proto__", `${app()}  env: { __proto__: x }\n`, '6:10 the key "__proto__" is not allowed'],
    [
      "constructor",
      `${app()}  env: { constructor: x }\n`,
      '6:10 the key "constructor" is not allowed',
    ],
    [
      "a foreign tag",
      `${app()}  env: { A: !foo b }\n`,
      '6:13 tags are not supported here; put a text that begins with "!" in quotes',
    ],
    [
      "a tag of YAML 1.1",
      `${app()}  env: { A: !!binary aGk= }\n`,
      '6:13 tags are not supported here; put a text that begins with "!" in quotes',
    ],
    ["YAML 1.1", `%YAML 1.1\n---\n${app()}`, "2:1 write YAML 1.2: leave the %YAML directive out"],
    [
      "an alias to nothing",
      `${app()}  env: { A: *b }\n`,
      '6:13 there is no anchor of this name before this alias; put a text that begins with "*" in quotes',
    ],
    [
      "an alias that contains itself",
      `${head()}spec: &s\n  image: a\n  env: *s\n`,
      "6:8 the alias *s would contain itself",
    ],
    [
      "a merge key",
      `${head()}spec:\n  image: a\n  <<: { port: 1 }\n`,
      '6:3 spec["<<"]: unknown key "<<": YAML 1.2 has no merge keys; repeat the values',
    ],
    [
      "a number with its zeros",
      `${app()}  env: { VERSION: 1.10 }\n`,
      "6:19 YAML reads this as a number or a truth value, which would change its text; put it in quotes",
    ],
    [
      "a number in another base",
      `${app()}  env: { MODE: 0x1F }\n`,
      "6:16 YAML reads this as a number or a truth value, which would change its text; put it in quotes",
    ],
    [
      "a number too long",
      `${app()}  env: { ID: 12345678901234567890 }\n`,
      "6:14 YAML reads this as a number or a truth value, which would change its text; put it in quotes",
    ],
    [
      "infinity",
      `${app()}  port: .inf\n`,
      "6:3 spec.port: Infinity is not a number that can be stored",
    ],
    ["a NUL", `${app()}  # \0\n`, "6:5 contains a NUL character"],
    [
      "a half-written map",
      `${app()}  env: { A: `,
      "6:13 not valid YAML: Flow map in block collection must be sufficiently indented and end with a }",
    ],
    [
      "half-written quotes",
      `${head()}spec:\n  image: "ngi`,
      '5:14 not valid YAML: Missing closing "quote',
    ],
    [
      "tabs",
      `${head()}spec:\n\timage: a\n`,
      "5:1 not valid YAML: Tabs are not allowed as indentation",
    ],
  ])("refuses %s", (_what, text, expected) => {
    const errors = errorsOf(text);
    expect(errors[0]).toBe(expected);
    expect(parseManifests(text).documents).toEqual([]);
  });

  it("refuses text that is not UTF-8, with the position", () => {
    expect(errorsOf(Buffer.from(`${app()}# caf\xe9\n`, "latin1"))).toEqual(["6:6 not UTF-8 text"]);
    expect(errorsOf(Buffer.from(`\uFEFF${app()}`, "utf16le"))).toEqual(["1:1 not UTF-8 text"]);
  });

  it("never shows the value of a variable or secret", () => {
    const texts = [
      ...errorsOf(`${app()}  env: { A: 0077123, B: [hunter2] }\n`),
      ...errorsOf(`${app()}  env: { B: [hunter2] }\n`),
      ...errorsOf(`${head("s", "Secret")}spec: { data: { a: 77123, b: [hunter2] } }\n`),
    ];
    expect(texts.length).toBeGreaterThanOrEqual(4);
    expect(texts.join("\n")).not.toMatch(/hunter2|77123/);
  });

  describe("malicious text", () => {
    it.each<[string, string, RegExp]>([
      ["too large a file", "#".repeat(1_048_577), /^1:1 larger than 1 MiB/],
      ["an alias bomb", bomb(), /too large once its aliases are expanded$/],
      ["aliases without end", `a: &a x\nb: [${"*a,".repeat(2000)}]`, /more than 1000 aliases$/],
      ["brackets without end", "[".repeat(1_000_000), /nested deeper than 64 levels$/],
      ["maps without end", "{a: ".repeat(250_000), /nested deeper than 64 levels$/],
      ["lists without end", "- ".repeat(500_000), /nested deeper than 64 levels$/],
      ["keys without end", "? ".repeat(500_000), /nested deeper than 64 levels$/],
      [
        "indentation without end",
        Array.from({ length: 1000 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"),
        /nested deeper than 64 levels$/,
      ],
      [
        "a value one level too deep",
        `${app()}  env: ${"[".repeat(65)}${"]".repeat(65)}\n`,
        /nested deeper than 64 levels$/,
      ],
      ["documents without end", "--- {a: 1}\n".repeat(1001), /more than 1000 documents$/],
      ["anchors without end", "&a ".repeat(100_000), /not valid YAML/],
      ["quotes without end", '"'.repeat(1_000_000), /too many parts for one file; split it$/],
      [
        "keys that are all alike",
        `${app()}${"  image: a\n".repeat(20_000)}`,
        /the key "image" occurs twice$/,
      ],
    ])("is refused quickly with a short message: %s", (_what, text, expected) => {
      const started = performance.now();
      const errors = errorsOf(text);
      expect(performance.now() - started).toBeLessThan(UNBOUNDED_AFTER_MS);
      expect(errors[0]).toMatch(expected);
      expect(errors.length).toBeLessThanOrEqual(50);
    });

    it("is parsed without errors if it has a thousand valid documents", () => {
      const text = Array.from({ length: 1000 }, (_, index) => app(`a${index}`)).join("---\n");
      const { documents, errors } = parseManifests(text);
      expect(errors).toEqual([]);
      expect(documents).toHaveLength(1000);
    });

    it("never makes the parser throw", () => {
      const fragments = fc.constantFrom(
        ..."\n \t:-,[]{}&a*a!?|>'\"#%@`".split(""),
        "---\n",
        "...\n",
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a ",
        "!!str ",
        "%YAML 1.1\n",
        "<<: ",
        "__proto__: ",
        "\r\n",
        "\uFEFF",
        "\ud800",
        app(),
        head(),
        "spec:\n  ",
        "null",
        "1.10",
      );
      const text = fc
        .array(fc.oneof(fragments, fc.string({ maxLength: 5 })), { maxLength: 40 })
        .map((parts) => parts.join(""));
      fc.assert(
        fc.property(text, (input) => {
          const { errors } = parseManifests(input);
          for (const { line, column } of errors) {
            expect(line).toBeGreaterThan(0);
            expect(column).toBeGreaterThan(0);
          }
        }),
        { numRuns: 1000 },
      );
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
          parseManifests(bytes);
        }),
        { numRuns: 300 },
      );
    });
  });
});
