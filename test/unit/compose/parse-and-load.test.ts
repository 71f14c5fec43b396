import { describe, expect, test } from "vitest";
import { parseEnvFile } from "../../../src/compose/env-file.ts";
import { importCompose } from "../../../src/compose/import-compose.ts";
import { interpolate } from "../../../src/compose/interpolate-variables.ts";
import { splitShellWords } from "../../../src/compose/shell-words.ts";
import { parseTraefikRule } from "../../../src/compose/traefik-rule.ts";
import { collectSpecs, importTexts } from "./compose-fixtures.ts";

const variables = new Map([
  ["A", "one"],
  ["EMPTY", ""],
]);

test.each([
  ["$A and ${A}", "one and one"],
  ["${A:-x}${B:-x}${EMPTY:-x}${EMPTY-x}${B-x}", "onexxx"],
  ["${B:-${A:-y}}/${B:-${C-z}}", "one/z"],
  ["${A:+there}${B:+there}${EMPTY:+there}${EMPTY+set}", "thereset"],
  ["${A:?needed}", "one"],
  ["$$A $${A} $$$$", "$A ${A} $$"],
  ["${B:-}", ""],
  ["${B:-a}b}", "ab}"],
  ['${A:-{"a":{"b":1}}} ${B:-{"a":1}}', 'one {"a":1}'],
  ["${A:-$${X}} ${B:-$${X}}", "one ${X}"],
  ["${B:-{}!", "{!"],
  ["no dollar", "no dollar"],
  ["costs 5$ or $1, $?, $(date), $@ and $-", "costs 5$ or $1, $?, $(date), $@ and $-"],
  ["${B:-$(id)}", "$(id)"],
])("interpolate() returns the expected text for %s", (text, result) => {
  expect(interpolate(text, variables)).toEqual({ text: result, unsetVariables: [] });
});

test.each([
  ["${B:?set it}", "the variable B must be set: set it"],
  ["${EMPTY:?}", "the variable EMPTY must be set"],
  ["${A", '"${" has no closing brace'],
  ["${A:-x", '"${" has no closing brace'],
  ["${}", "${...} contains no variable name"],
  ["${A!}", "${A...} is not valid in Compose"],
  [`${"${B:-".repeat(30)}${"}".repeat(30)}`, "nested too deeply"],
])("interpolate() refuses %s", (text, message) => {
  expect(interpolate(text, variables).failure).toContain(message);
});

test("interpolation returns the names of unset variables", () => {
  expect(interpolate("${B}$C${A}", variables)).toEqual({ text: "one", unsetVariables: ["B", "C"] });
});

test("env files may have quotes, comments, variables, values of several lines, and names without a value", () => {
  const text = [
    "# a comment",
    "export PLAIN = some value # behind it",
    "HASH=a#b",
    "SINGLE='$A # kept'",
    'DOUBLE="$A\\n\\"x\\" \\$A"',
    'LONG="first',
    'second"',
    "LATER=${PLAIN}!",
    "ALONE",
    "EMPTY=",
    "not a line",
    "MONEY=5$",
    'OPEN="never closed',
  ].join("\r\n");
  const { entries, problems } = parseEnvFile(text, variables);
  expect(Object.fromEntries(entries.map(({ key, value }) => [key, value]))).toEqual({
    PLAIN: "some value",
    HASH: "a#b",
    SINGLE: "$A # kept",
    DOUBLE: 'one\n"x" $A',
    LONG: "first\nsecond",
    LATER: "some value!",
    ALONE: undefined,
    EMPTY: "",
    MONEY: "5$",
  });
  expect(problems.map(({ line }) => line)).toEqual([11, 13]);
  expect(parseEnvFile("A='x' # $B", variables, true).entries[0]?.value).toBe("'x' # $B");
});

test.each([
  ["sh -c 'a && b'", ["sh", "-c", "a && b"]],
  ['run "a \\"b\\" c"  --x=\'\'', ["run", 'a "b" c', "--x="]],
  ["a\\ b ''", ["a b", ""]],
  ["", []],
  ["'open", undefined],
  ["end\\", undefined],
])("the command line %s is split into words", (text, words) => {
  expect(splitShellWords(text)).toEqual(words);
});

describe("Traefik rules", () => {
  test.each([
    ["Host(`a`)", [clause(["a"])]],
    ["Host(`a`, `b`)", [clause(["a", "b"])]],
    ['Host("a") || Host(`b`)', [clause(["a"]), clause(["b"])]],
    [
      "(Host(`a`) || Host(`b`)) && PathPrefix(`/x`)",
      [clause(["a"], ["/x"]), clause(["b"], ["/x"])],
    ],
    ["Host(`a`) && !Path(`/x`)", [clause(["a"], [], ["!"])]],
    ["Host(`a`) &&", undefined],
    ["Host(a)", undefined],
    ["(Host(`a`)", undefined],
    ["", undefined],
  ])("are parsed: %s", (rule, clauses) => {
    expect(parseTraefikRule(rule)).toEqual(clauses);
  });

  test("a rule with too many alternatives is refused", () => {
    const either = "(Host(`a`) || Host(`b`))";
    expect(parseTraefikRule(Array.from({ length: 40 }, () => either).join(" && "))).toBeUndefined();
  });
});

describe("several Compose files", () => {
  const base = `
services:
  app:
    image: a:1
    command: [run, --slow]
    environment: [LEVEL=info, MODE=old]
    ports: ["8080:80"]
    volumes: [data:/data, ./a:/a]
    depends_on: [db]
  db: { image: b:1 }
`;
  const over = `
services:
  app:
    command: [run]
    environment: { LEVEL: debug }
    volumes: [./data:/data]
    depends_on: { db: { condition: service_healthy } }
    healthcheck: { test: "true" }
    ports: !reset []
  db:
    image: !override b:2
    mem_limit: 64m
`;
  function both(text: string) {
    const files = new Map([
      ["/p/a.yaml", base],
      ["/p/sub/b.yaml", text],
    ]);
    return importCompose(
      { files: [...files.keys()], specFolder: "/p" },
      {
        read: (path) => {
          const found = files.get(path);
          return found === undefined ? { problem: "there is no such file" } : { text: found };
        },
        exists: () => true,
        displayPath: (path) => path.slice(3),
      },
    );
  }

  test("are merged; relative paths start at the folder of the first file", () => {
    const { app, db } = collectSpecs(both(over));
    expect(app).toMatchObject({
      command: ["run"],
      env: { LEVEL: "debug", MODE: "old" },
      dependsOn: ["a-db"],
      volumes: [
        { hostPath: "/p/data", path: "/data" },
        { hostPath: "/p/a", path: "/a" },
      ],
    });
    expect(app).not.toHaveProperty("port");
    expect(db).toMatchObject({ image: "b:2", resources: { memory: "64Mi" } });
  });

  test("findings name the file that contains the value", () => {
    const result = both("services:\n  app:\n    cap_add: [ALL]\n");
    expect(result.findings).toContainEqual(
      expect.objectContaining({
        file: "sub/b.yaml",
        line: 3,
        column: 5,
        key: "services.app.cap_add",
      }),
    );
  });
});

describe("invalid Compose files", () => {
  test.each([
    ["a: b: c", /^compose.yaml:1 not valid YAML/],
    ["", /^compose.yaml:1 the file is empty/],
    ["- a", /^compose.yaml:1 a Compose file must be a mapping/],
    ["services: {}", /the project declares no service/],
    ["services:\n  a: { image: x, image: y }", /^compose.yaml:2 the key "image" is duplicated/],
    ["services:\n  a: *nowhere", /^compose.yaml:2 there is no anchor &nowhere/],
    ["services:\n  a: !secret x", /^compose.yaml:2 the tag !secret is not a tag of Compose/],
    ["services:\n  a: text", /^compose.yaml:2 must be a mapping/],
    [
      "services:\n  a: { ports: ['80'] }",
      /^compose.yaml:2 this service has neither an image nor a build/,
    ],
    ["services:\n  a: { image: UPPER/x }", /^compose.yaml:2 the image "UPPER\/x"/],
    [
      "services:\n  a: { image: x, extends: { service: b } }",
      /^compose.yaml:2 there is no service "b"/,
    ],
    [
      "services:\n  a: { image: x, extends: b }\n  b: { image: x, extends: a }",
      /^compose.yaml:[23] the services extend each other in a circle/,
    ],
    [
      "include: [other.yaml]\nservices: {}",
      /^compose.yaml:1 cannot read other.yaml: there is no such/,
    ],
    [
      "include: [compose.yaml]\nservices: {}",
      /^compose.yaml:1 the files include each other in a circle/,
    ],
    ["include: ['oci://x/y']", /^compose.yaml:1 remote files are not included/],
  ])("such as %j are refused with the line of the error", (text, message) => {
    expect(failures({ "compose.yaml": text })[0] ?? "").toMatch(message);
  });

  test("aliases that refer to each other and would expand to a huge value are refused before they use much memory", () => {
    const levels = Array.from({ length: 12 }, (_, at) => {
      const refs = at === 0 ? "x" : Array.from({ length: 10 }, () => `*l${at - 1}`).join(", ");
      return `x-${at}: &l${at} [${refs}]`;
    });
    const text = `${levels.join("\n")}\nservices:\n  a: { image: x, command: *l11 }\n`;
    expect(failures({ "compose.yaml": text })).toEqual([
      "compose.yaml:1 the file is too large after its aliases are expanded",
    ]);
  });

  test("an endless chain of includes is refused", () => {
    const many = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        at === 0 ? "compose.yaml" : `${at}.yaml`,
        `include: [${at + 1}.yaml]\n`,
      ]),
    );
    expect(failures(many).join("\n")).toContain("includes are nested more than 10 files deep");
  });

  test("one invalid service does not prevent the conversion of the others", () => {
    const result = importTexts({
      "compose.yaml": "services:\n  good: { image: a:1 }\n  bad: { image: '${NEEDED:?why}' }\n",
    });
    expect(result.apps.map(({ service }) => service)).toEqual(["good"]);
  });
});

function clause(hosts: string[], prefixes: string[] = [], others: string[] = []) {
  return { hosts, prefixes, others };
}

function failures(texts: Record<string, string>): string[] {
  return importTexts(texts).findings.flatMap(({ level, file, line, message }) =>
    level === "failed" ? [`${file}:${line} ${message}`] : [],
  );
}

test("the merge key `<<` may have the tag !!merge", () => {
  const text = `x-a: &a { image: "a:1", user: "7" }
services:
  app:
    !!merge <<: *a
    user: "8"
`;
  const result = importTexts({ "compose.yaml": text });
  expect(result.findings.filter(({ level }) => level === "failed")).toEqual([]);
  expect(collectSpecs(result)["app"]).toMatchObject({ image: "a:1", user: "8" });
});
