import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { completeLock, type Lock } from "../scripts/complete-lock.mjs";
import { proseOf, proseProblems } from "./support/prose-rules.ts";
import {
  allowedRooms,
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
  parseImports,
  type SourceFile,
} from "./support/tidy-rules.ts";

const root = join(import.meta.dirname, "..");
const sources = filesBelow("src", ".ts");
const docs = [
  ...filesBelow("docs", ".md"),
  ...readdirSync(root)
    .filter((name) => name.endsWith(".md"))
    .map((name) => read(name)),
];

describe("src", () => {
  test("contains more than 40 files and 100 imports, so that no rule is checked on an empty list", () => {
    expect(sources.length).toBeGreaterThan(40);
    expect(sources.flatMap((file) => parseImports(file.text)).length).toBeGreaterThan(100);
  });

  test("has an entry in the table of allowed imports for every folder", () => {
    const rooms = new Set(sources.map((file) => getRoom(file.path)));
    expect([...rooms].filter((room) => !(room in allowedRooms) && room !== "server")).toEqual([]);
  });

  test.each([
    ["each folder imports only what its entry in the table allows", findEdgeProblems],
    ["the assistant's modules import only what their table allows", findAssistantProblems],
    ["the folders of controller/ and cli/ import only what their tables allow", innerProblems],
    ["only the files that construct adapters import them", findAdapterProblems],
    ["ports import no libraries", findPortProblems],
    ["imports form no cycles", findImportCycles],
    ["file names are in kebab-case and say what is inside", findNameProblems],
    ["files are short, export by name, and do not only re-export other files", findShapeProblems],
    ["process.env is read in config/config.ts only", findEnvironmentProblems],
    ["only the command line prints", findConsoleProblems],
  ])("follows the rule: %s", (_, problems) => {
    expect(problems(sources)).toEqual([]);
  });
});

test("URLs are read by URL.parse: on Node.js 22 URL.canParse refuses names with umlauts after V8 has optimised it", () => {
  expect(sources.filter(({ text }) => text.includes("URL.canParse"))).toEqual([]);
});

describe("documents", () => {
  test("include the reference pages in docs/kinds/", () => {
    expect(docs.map((doc) => doc.path)).toContain("docs/kinds/App.md");
  });

  test("paths in backticks exist", () => {
    expect(docs.flatMap((doc) => findDocPathProblems(doc, exists))).toEqual([]);
  });
});

describe("plain English", () => {
  const texts = [
    ...sources,
    ...docs,
    ...["test", "bench"].flatMap((folder) => filesBelow(folder, ".ts")),
  ];

  test("is checked in comments and in titles of tests", () => {
    expect(texts.flatMap((file) => proseOf(file)).length).toBeGreaterThan(5_000);
  });

  test("no text uses a banned wording (CONTRIBUTING.md, Language)", () => {
    // The tests of these rules are excluded, because they contain examples of all banned wordings.
    const others = texts.filter(({ path }) => !path.startsWith("test/unit/tidy/prose-rules"));
    expect(others.flatMap((file) => proseProblems(file))).toEqual([]);
  });
});

describe("package-lock.json", () => {
  const lock: Lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const entries = Object.entries(lock.packages);

  test("every optional dependency has an entry; otherwise run `npm run lock`", () => {
    expect(entries.length).toBeGreaterThan(400);
    expect(completeLock(lock).packages).toEqual(lock.packages);
  });

  test("every package that supports only one platform declares that platform", () => {
    const platforms = entries.filter(([location]) =>
      /[/-](x64|arm64|arm|ia32|riscv64)(-|$)/.test(location),
    );
    expect(platforms.length).toBeGreaterThan(50);
    expect(platforms.filter(([, { os, cpu }]) => !os?.length || !cpu?.length)).toEqual([]);
  });

  test("no install script is allowed to run", () => {
    const { allowScripts }: { allowScripts: Record<string, boolean> } = JSON.parse(
      readFileSync(join(root, "package.json"), "utf8"),
    );
    const scripts = entries.filter(([, entry]) => entry.hasInstallScript);
    // better-sqlite3 has a binding.gyp but no install script, so npm would compile it if allowScripts did not forbid
    // this.
    expect(allowScripts).toEqual({
      "better-sqlite3": false,
      ...Object.fromEntries(
        scripts.map(([location]) => [location.replace("node_modules/", ""), false]),
      ),
    });
  });

  test("an optional dependency without an entry gets one, with the os, cpu and libc that its name contains", () => {
    const before: Lock = {
      packages: {
        "": { dependencies: { tool: "1.0.0" } },
        "node_modules/tool": {
          version: "1.0.0",
          dev: true,
          optionalDependencies: {
            "@tool/linux-x64-musl": "1.0.0",
            "@tool/win32-arm64-msvc": "1.0.0",
            "cpu-features": "1.0.0",
          },
        },
        "node_modules/cpu-features": { version: "1.0.0", dependencies: { compiler: "1.0.0" } },
        "node_modules/compiler": { version: "1.0.0", hasInstallScript: true },
      },
    };
    const { packages } = completeLock(before);
    expect(packages).toMatchObject({
      "node_modules/@tool/linux-x64-musl": {
        dev: true,
        os: ["linux"],
        cpu: ["x64"],
        libc: ["musl"],
      },
      "node_modules/@tool/win32-arm64-msvc": { version: "1.0.0", os: ["win32"], cpu: ["arm64"] },
      "node_modules/cpu-features": { os: ["none"] },
    });
    expect(Object.keys(packages)).not.toContain("node_modules/compiler");
    expect(completeLock({ packages })).toEqual({ packages });
  });

  test("a package whose platform cannot be determined is refused", () => {
    const packages = { "": { optionalDependencies: { "some-thing": "1.0.0" } } };
    expect(() => completeLock({ packages })).toThrow("some-thing");
  });
});

function filesBelow(folder: string, ending: string): SourceFile[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => read(join(folder, name)));
}

function exists(path: string): boolean {
  return existsSync(join(root, path));
}

function read(path: string): SourceFile {
  return { path: path.replaceAll("\\", "/"), text: readFileSync(join(root, path), "utf8") };
}
