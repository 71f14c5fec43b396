import { describe, expect, test } from "vitest";
import {
  findAdapterProblems,
  findAssistantProblems,
  findConsoleProblems,
  findDocPathProblems,
  findEdgeProblems,
  findEnvironmentProblems,
  findImportCycles,
  findNameProblems,
  findPortProblems,
  findShapeProblems,
  getRoom,
  innerProblems,
  innerRooms,
  parseImports,
} from "../../support/tidy-rules.ts";

/** Creates a source tree from imports such as `a.ts imports b.ts`. */
function tree(...edges: [from: string, to: string][]) {
  const texts = new Map<string, string>();
  for (const [from, to] of edges) {
    const up = "../".repeat(from.split("/").length - 1) || "./";
    texts.set(from, `${texts.get(from) ?? ""}import { x } from "${up}${to}";\n`);
    if (!texts.has(to)) texts.set(to, "export const x = 1;\n");
  }
  return [...texts].map(([path, text]) => ({ path, text }));
}

const file = (text: string, path = "src/base/thing.ts") => [{ path, text }];

describe("importsOf", () => {
  test.each([
    ['import { a } from "./a.ts";', "./a.ts", false],
    ['import type { A } from "./a.ts";', "./a.ts", true],
    ['import {\n  a,\n  type B,\n} from "./a.ts";', "./a.ts", false],
    ['import * as a from "./a.ts";', "./a.ts", false],
    ['import a, { b } from "pkg";', "pkg", false],
    ['import "./a.ts";', "./a.ts", false],
    ['export { a } from "./a.ts";', "./a.ts", false],
    ['export type { A } from "./a.ts";', "./a.ts", true],
    ['export * from "./a.ts";', "./a.ts", false],
    ['const a = await import("./a.ts");', "./a.ts", false],
  ])("parses %s", (text, specifier, typeOnly) => {
    expect(parseImports(`// first\n${text}\n`)).toEqual([{ specifier, line: 2, typeOnly }]);
  });

  test("exports, and import statements in comments or strings, are not parsed as imports", () => {
    const text = 'export const a = "b";\n/** import x from "y" */\nconst t = "import";\n';
    expect(parseImports(text)).toEqual([]);
  });
});

test.each([
  ["src/api/routes/apps.ts", "api"],
  ["src/server/main.ts", "server"],
  ["src/client/bus/connect.ts", "client/bus"],
  ["src/base/clock.ts", "base"],
])("the source file %s is in the module %s", (path, room) => {
  expect(getRoom(path)).toBe(room);
});

describe("modules", () => {
  test.each([
    ["src/base/a.ts", "src/resources/b.ts"],
    ["src/resources/a.ts", "src/store/store.ts"],
    ["src/store/a.ts", "src/controller/port.ts"],
    ["src/controller/a.ts", "src/api/b.ts"],
    ["src/api/a.ts", "src/controller/controller-manager.ts"],
    ["src/api/a.ts", "src/controller/runtime/docker-runtime.ts"],
    ["src/api/a.ts", "src/controller/report.ts"],
    ["src/api/a.ts", "src/cli/b.ts"],
    ["src/cli/a.ts", "src/store/store.ts"],
    ["src/cli/verbs/get.ts", "src/server/main.ts"],
    ["src/client/rest/a.ts", "src/api/b.ts"],
    ["src/client/rest/a.ts", "src/client/bus/b.ts"],
    ["src/config/a.ts", "src/resources/b.ts"],
    ["src/assistant/a.ts", "src/resources/b.ts"],
    ["src/controller/a.ts", "src/assistant/b.ts"],
    ["src/base/a.ts", "src/server/main.ts"],
    ["src/unheard-of/a.ts", "src/base/b.ts"],
  ])("%s may not import %s", (from, to) => {
    const problems = findEdgeProblems(tree([from, to]));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(`${from}:1 imports ${to}`);
  });

  test.each([
    ["src/api/a.ts", "src/controller/port.ts"],
    ["src/api/routes/a.ts", "src/controller/runtime/port.ts"],
    ["src/api/a.ts", "src/controller/labels.ts"],
    ["src/api/a.ts", "src/store/store.ts"],
    ["src/cli/verbs/up.ts", "src/server/main.ts"],
    ["src/cli/verbs/restore.ts", "src/server/main.ts"],
    ["src/cli/a.ts", "src/client/rest/client.ts"],
    ["src/controller/a.ts", "src/controller/apps/b.ts"],
    ["src/server/main.ts", "src/store/sqlite-store.ts"],
    ["src/assistant/a.ts", "src/base/b.ts"],
  ])("%s may import %s", (from, to) => {
    expect(findEdgeProblems(tree([from, to]))).toEqual([]);
  });

  test("an import of a missing file is reported", () => {
    expect(findEdgeProblems(file('import { a } from "./gone.ts";'))[0]).toContain(
      "src/base/gone.ts",
    );
    expect(findEdgeProblems(file('import { a } from "./thing";'))[0]).toContain("end in .ts");
  });
});

describe("the folders of controller/ and cli/", () => {
  test.each([
    ["src/controller/git/a.ts", "src/controller/apps/b.ts"],
    ["src/controller/apps/a.ts", "src/controller/controller-manager.ts"],
    ["src/controller/labels.ts", "src/controller/apps/b.ts"],
    ["src/controller/unheard-of/a.ts", "src/controller/labels.ts"],
    ["src/cli/output/a.ts", "src/cli/verbs/b.ts"],
    ["src/cli/io.ts", "src/cli/output/b.ts"],
  ])("%s may not import %s", (from, to) => {
    const problems = innerProblems(tree([from, to]));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(from);
  });

  test.each([
    ["src/controller/controller-manager.ts", "src/controller/apps/b.ts"],
    ["src/controller/apps/a.ts", "src/controller/labels.ts"],
    ["src/controller/apps/a.ts", "src/controller/secrets/b.ts"],
    ["src/controller/git/a.ts", "src/controller/runtime/port.ts"],
    ["src/controller/apps/plan/a.ts", "src/controller/apps/b.ts"],
    ["src/cli/verbs/a.ts", "src/cli/chat/b.ts"],
    ["src/cli/program.ts", "src/cli/verbs/b.ts"],
    ["src/api/a.ts", "src/api/routes/b.ts"],
  ])("%s may import %s", (from, to) => {
    expect(innerProblems(tree([from, to]))).toEqual([]);
  });

  test("of two folders, at most one may import the other", () => {
    for (const { folders } of Object.values(innerRooms))
      for (const [folder, others] of Object.entries(folders))
        for (const other of others)
          expect(folders[other], `${folder} and ${other}`).not.toContain(folder);
  });
});

describe("adapters and ports", () => {
  test.each([
    ["src/controller/controller-manager.ts", "src/controller/runtime/docker-runtime.ts"],
    ["src/controller/apps/a.ts", "src/store/sqlite-store.ts"],
    ["src/api/a.ts", "src/store/tokens.ts"],
    ["src/cli/verbs/up.ts", "src/controller/ingress/caddy.ts"],
  ])("%s may not import %s", (from, to) => {
    expect(findAdapterProblems(tree([from, to]))).toHaveLength(1);
  });

  test.each([
    ["src/server/main.ts", "src/controller/runtime/docker-runtime.ts"],
    ["src/controller/runtime/docker-runtime.ts", "src/controller/runtime/docker-logs.ts"],
    ["src/controller/apps/a.ts", "src/controller/runtime/port.ts"],
    ["src/store/sqlite-store.ts", "src/store/tokens.ts"],
    ["src/controller/a.ts", "src/store/store.ts"],
  ])("%s may import %s", (from, to) => {
    expect(findAdapterProblems(tree([from, to]))).toEqual([]);
  });

  test("a port may not import a package", () => {
    const text = 'import type Docker from "dockerode";';
    expect(findPortProblems(file(text, "src/controller/runtime/port.ts"))).toHaveLength(1);
    expect(findPortProblems(file(text, "src/store/store.ts"))).toHaveLength(1);
    expect(findPortProblems(file(text, "src/controller/runtime/docker-runtime.ts"))).toEqual([]);
  });
});

describe("the modules of the assistant", () => {
  test.each([
    ["src/assistant/ledger/a.ts", "src/assistant/inference/inference-engine.ts"],
    ["src/assistant/inference/http/a.ts", "src/assistant/inference/service/inference-service.ts"],
    ["src/assistant/inference/service/a.ts", "src/assistant/ledger/open-ledger.ts"],
    ["src/assistant/inference/models/a.ts", "src/assistant/inference/service-port.ts"],
  ])("the module %s may not import %s", (from, to) => {
    expect(findAssistantProblems(tree([from, to]))).toHaveLength(1);
  });

  test.each([
    [
      "src/assistant/daemons/system-instance.ts",
      "src/assistant/inference/service/inference-service.ts",
    ],
    ["src/assistant/inference/service/a.ts", "src/assistant/ledger/port.ts"],
    ["src/assistant/inference/http/routes/a.ts", "src/assistant/inference/service-port.ts"],
    ["src/assistant/inference/http/routes/a.ts", "src/assistant/inference/http/b.ts"],
  ])("the module %s may import %s", (from, to) => {
    expect(findAssistantProblems(tree([from, to]))).toEqual([]);
  });
});

describe("import cycles", () => {
  test("of two files, of three files, and of a file with itself are found", () => {
    expect(
      findImportCycles(tree(["src/a/a.ts", "src/a/b.ts"], ["src/a/b.ts", "src/a/a.ts"])),
    ).toEqual(["a circle: src/a/a.ts -> src/a/b.ts -> src/a/a.ts"]);
    expect(
      findImportCycles(
        tree(["src/a.ts", "src/b.ts"], ["src/b.ts", "src/c.ts"], ["src/c.ts", "src/a.ts"]),
      ),
    ).toHaveLength(1);
    expect(findImportCycles(file('import "./thing.ts";'))).toHaveLength(1);
  });

  test("are not found in a diamond of imports", () => {
    expect(
      findImportCycles(
        tree(
          ["src/a.ts", "src/b.ts"],
          ["src/a.ts", "src/c.ts"],
          ["src/b.ts", "src/d.ts"],
          ["src/c.ts", "src/d.ts"],
        ),
      ),
    ).toEqual([]);
  });
});

describe("names and shape", () => {
  test.each(["utils.ts", "helpers.ts", "index.ts", "camelCase.ts", "under_score.ts", "Big.ts"])(
    "the file name %s is refused",
    (name) => {
      expect(findNameProblems(file("", `src/api/${name}`))).toHaveLength(1);
    },
  );

  test.each(["app-defaults.ts", "app.ts", "x509.ts"])("the file name %s is accepted", (name) => {
    expect(findNameProblems(file("", `src/api/${name}`))).toEqual([]);
  });

  test("a file of more than 400 lines is refused", () => {
    expect(findShapeProblems(file("const a = 1;\n".repeat(400)))).toEqual([]);
    expect(findShapeProblems(file("const a = 1;\n".repeat(401)))[0]).toContain("401 lines");
  });

  test("a barrel is refused, but not a file that has code of its own and re-exports", () => {
    const barrel = '/** All of it. */\nexport * from "./a.ts";\nexport { b } from "./b.ts";\n';
    expect(findShapeProblems(file(barrel))[0]).toContain("only passes on");
    expect(findShapeProblems(file(`${barrel}export const c = 1;\n`))).toEqual([]);
  });

  test("a default export is refused", () => {
    expect(findShapeProblems(file("export default function f() {}\n"))).toHaveLength(1);
    expect(findShapeProblems(file("// export default\nexport const a = 1;\n"))).toEqual([]);
  });
});

describe("environment and printing", () => {
  const accesses = [
    "const a = process.env.HOME;",
    'const a = process.env["HOME"];',
    'const a = process["env"];',
    'import { env } from "node:process";',
    "/** doc */ const { HOME } = process.env;",
  ];
  test.each(accesses)("%s is refused outside of config/config.ts", (text) => {
    expect(findEnvironmentProblems(file(text))).toHaveLength(1);
    expect(findEnvironmentProblems(file(text, "src/config/config.ts"))).toEqual([]);
  });

  test("comments may mention process.env", () => {
    const text = "// process.env\n/* process.env\n process.env */\nconst a = 1; // process.env\n";
    expect(findEnvironmentProblems(file(text))).toEqual([]);
  });

  test("an access to process.env after a comment of several lines is reported with its own line", () => {
    expect(findEnvironmentProblems(file("/* a\n b */ f(process.env);\n"))[0]).toContain(":2 ");
  });

  test("only the source files below src/cli may use console", () => {
    expect(findConsoleProblems(file('console.log("x");', "src/api/a.ts"))).toHaveLength(1);
    expect(findConsoleProblems(file('console.log("x");', "src/cli/a.ts"))).toEqual([]);
  });
});

describe("paths in documents", () => {
  const there = new Set(["src/base", "src/base/clock.ts", "docs/kinds", "test"]);
  const problems = (text: string) =>
    findDocPathProblems({ path: "README.md", text }, (path) => there.has(path));

  test("a path that does not exist is reported with its line", () => {
    expect(problems("ok `src/base/clock.ts`\nsee `src/base/gone.ts`.")).toEqual([
      "README.md:2 names `src/base/gone.ts`, which is not there",
    ]);
  });

  test.each(["`src/base/`", "`src/base/clock.ts:12`", "`docs/kinds/<Kind>.md`", "`src/base/*.ts`"])(
    "the document path %s is accepted",
    (text) => {
      expect(problems(text)).toEqual([]);
    },
  );

  test("a pattern is refused if its folder does not exist", () => {
    expect(problems("`src/gone/*.ts`")).toHaveLength(1);
  });

  test("fenced code and words that are not paths are ignored", () => {
    expect(problems("```sh\ncat `src/gone.ts`\n```\n`npm run src` and `etc/gone`")).toEqual([]);
  });
});
