import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import {
  getTextPosition,
  scanJsonPositions,
} from "../../../../../src/assistant/agent/manifests/json-positions.ts";
import { lintManifests } from "../../../../../src/assistant/agent/manifests/lint-manifests.ts";
import { runCommandLine } from "../../../../support/run-cli.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";
import { notesManifest, withSchema } from "../../../../support/tool-manifests.ts";

let root: string;

beforeEach(() => {
  root = temporaryFolder("lint");
});

function write(path: string, text: string): string {
  const file = join(root, path);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o644);
  return file;
}

const notes = (changes = {}) => JSON.stringify(notesManifest(changes), null, 2);
const lines = async (file: string) =>
  (await lintManifests({ files: [file] })).manifests.flatMap(({ faults }) =>
    faults.map(
      ({ place, pointer, message }) => `${place?.line}:${place?.column} ${pointer} ${message}`,
    ),
  );

describe("linting a manifest", () => {
  it("reports each fault with pointer, line and column, in the order of the text", async () => {
    const text = notes({ mcp: { transport: "tcp" }, svc_manifest: 7 });
    const file = write(
      "org.example.Notes.json",
      text.replace('"maxLength": 120', '"maxlength": 120'),
    );
    expect(await lines(file)).toEqual([
      "2:3 /svc_manifest version 7 is too new: this Berth reads version 1",
      '6:5 /mcp/transport must be "unix", not "tcp"',
      '23:13 /tools/0/input_schema/properties/title/maxlength "maxlength" is not a keyword of JSON Schema 2020-12; did you mean "maxLength"?',
    ]);
  });

  it("reports a missing member at the position of its parent", async () => {
    const file = write("org.example.Notes.json", notes({ tools: [{ name: "a", tier: "read" }] }));
    expect(await lines(file)).toEqual([
      "10:5 /tools/0/description is missing: people decide by it, and tool discovery searches it",
      expect.stringMatching(/^10:5 \/tools\/0\/input_schema must be a JSON Schema, not nothing/),
    ]);
  });

  it.each([
    ['{\n  "a": 1,\n}', "3:1  the file is not JSON"],
    ['{\n  "a": 1,\n  "a": 2\n}', '3:3  the key "a" occurs twice in one object'],
    ['{\n  "a": [tru]\n}', "2:9  the file is not JSON"],
    ['{"a": "x', "1:7  the file is not JSON"],
    ['{"a": 01}', "1:7  the file is not JSON"],
    ['{"__proto__": 1}', '1:2  the key "__proto__" is not allowed'],
    ["{} {}", "1:4  the file is not JSON"],
  ])("finds the position of the syntax error in %j", async (text, expected) => {
    expect(await lines(write("org.example.Notes.json", text))).toEqual([
      expect.stringContaining(expected),
    ]);
  });

  it.each(["Dev.Berth.Apps", "dev.berth.app5", "dev.bertH.apps"])(
    "reports the app id %s, which people could take for Berth's own",
    async (id) => {
      expect(await lines(write(`${id}.json`, notes({ app_id: id })))).toEqual([
        expect.stringMatching(/ \/app_id looks like the id of an app that ships with Berth/),
      ]);
    },
  );

  it("accepts an app id that only begins like Berth's own", async () => {
    const id = "dev.berth.appstore";
    expect(await lines(write(`${id}.json`, notes({ app_id: id })))).toEqual([]);
  });

  it("reports an app id that belongs to Berth itself", async () => {
    const file = write("dev.berth.apps.json", notes({ app_id: "dev.berth.apps" }));
    expect(await lines(file)).toEqual([
      expect.stringMatching(/^3:3 \/app_id belongs to an app that ships with Berth/),
    ]);
  });

  it("reports a missing file, and accepts a file of any name", async () => {
    expect(await lines(join(root, "none.json"))).toEqual([
      "undefined:undefined  there is no such file",
    ]);
    expect(await lines(write("draft.manifest", notes()))).toEqual([]);
    expect(await lines(write("draft.json", notes()))).toEqual([
      '3:3 /app_id is "org.example.Notes", so the file must be named "org.example.Notes.json"',
    ]);
  });

  it("finds an error in every random text that JSON.parse rejects", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), fc.string({ maxLength: 2 }), (value, at, inserted) => {
        const text = JSON.stringify(value, null, 1);
        expect(scanJsonPositions(text).errorOffset === undefined).toBe(
          !text.includes('"__proto__":'),
        );
        const index = at % text.length;
        const broken = text.slice(0, index) + inserted + text.slice(index + 1);
        const isJson = isParsed(broken);
        // The random change may have created a duplicate key, which JSON.parse accepts.
        if (!isJson) expect(scanJsonPositions(broken).errorOffset).toBeDefined();
      }),
      { numRuns: 1000 },
    );
    expect(getTextPosition("a\nbc", 3)).toEqual({ line: 2, column: 2 });
  });
});

function isParsed(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function lint(words: readonly string[], environment = {}) {
  return runCommandLine(["tools", "lint", ...words], { workingDirectory: root, environment });
}

describe("berth tools lint", () => {
  it("checks the user's manifest folders in the order of their priority, and exits with 0 if there are no errors", async () => {
    const home = write("data/assistant/manifests/org.example.Notes.json", notes());
    const shared = write("usr/assistant/manifests/org.example.Notes.json", notes());
    const environment = { XDG_DATA_HOME: join(root, "data"), XDG_DATA_DIRS: join(root, "usr") };
    const { code, output, errors } = await lint([], environment);
    expect({ code, output, errors }).toEqual({
      code: 0,
      errors: "",
      output: [
        `${home}: org.example.Notes taken`,
        "  notes.create  write, undone by notes.delete",
        "  notes.delete  destructive",
        `${shared}: org.example.Notes shadowed by ${home}`,
        "  notes.create  write, undone by notes.delete",
        "  notes.delete  destructive",
        "",
      ].join("\n"),
    });
  });

  it("exits with 1 for an error and with 0 for a warning, and prints the position", async () => {
    const bad = write("org.example.Notes.json", notes({ mcp: { transport: "tcp" } }));
    expect(await lint(["-q", "org.example.Notes.json"])).toEqual({
      code: 1,
      output: "",
      errors: `${bad}:6:5: error: /mcp/transport: must be "unix", not "tcp"\n1 error\n`,
    });
    const odd = write("org.example.Notes.json", notes({ titel: 1 }));
    const { code, errors } = await lint(["org.example.Notes.json"]);
    expect([code, errors]).toEqual([
      0,
      expect.stringContaining(`${odd}:57:3: warning: /titel: "titel" is not a known field here`),
    ]);
  });

  it("prints all findings as JSON", async () => {
    write("org.example.Notes.json", JSON.stringify(withSchema({ type: "array" })));
    const { code, output } = await lint(["--json", "."]);
    expect(code).toBe(1);
    expect(JSON.parse(output)).toEqual({
      v: 1,
      directories: [root],
      problems: [],
      manifests: [
        {
          file: join(root, "org.example.Notes.json"),
          app_id: "org.example.Notes",
          status: "rejected",
          shadowed_by: null,
          tools: [{ name: "do", tier: "read", undo: null }],
          faults: [
            {
              pointer: "/tools/0/input_schema/type",
              severity: "error",
              message: 'must be "object", because arguments are an object, not "array"',
              line: 1,
              column: 186,
            },
          ],
        },
      ],
    });
  });

  it("names the folders that it searched if there is no manifest", async () => {
    const { code, errors } = await lint(["."]);
    expect([code, errors]).toEqual([0, `there is no manifest in ${root}\n`]);
  });
});
