import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseManifest } from "../../../../../src/assistant/agent/manifests/parse-manifest.ts";
import { hashJson } from "../../../../../src/base/canonical-json.ts";
import {
  type Document,
  noArguments,
  notesManifest,
  objectSchema,
} from "../../../../support/tool-manifests.ts";

function parse(document: unknown, expected = "org.example.Notes") {
  return parseText(JSON.stringify(document), expected);
}

function parseText(text: string, expected = "org.example.Notes") {
  return parseManifest(Buffer.from(text), expected);
}

const errorsOf = (document: unknown) =>
  parse(document).faults.flatMap(({ pointer, message, severity }) =>
    severity === "error" ? [`${pointer}: ${message}`] : [],
  );
const warningsOf = (document: unknown) => {
  const { faults, manifest } = parse(document);
  expect(manifest).toBeDefined();
  return faults.map(({ pointer, message }) => `${pointer}: ${message}`);
};

function tool(changes: Document): Document {
  return {
    name: "a",
    tier: "write",
    description: "Does a.",
    input_schema: noArguments,
    ...changes,
  };
}
const withTools = (...tools: Document[]) => notesManifest({ tools });

describe("a valid manifest", () => {
  it("gets default values", () => {
    const { manifest, faults } = parse(notesManifest());
    expect(faults).toEqual([]);
    expect(manifest).toMatchObject({
      appId: "org.example.Notes",
      name: "Notes",
      isActivatable: true,
      tools: [
        { name: "notes.create", title: "Create a note", tier: "write" },
        { name: "notes.delete", title: "notes.delete", tier: "destructive", undo: undefined },
      ],
    });
    expect(manifest?.tools[0]?.undo?.map.get("id")).toEqual({ from: "result", fields: ["id"] });
  });

  it("has a digest of its canonical declaration, whatever the order of its keys", () => {
    const declared = tool({});
    const reversed = Object.fromEntries(Object.entries(declared).toReversed());
    const digest = parse(withTools(declared)).manifest?.tools[0]?.digest;
    expect(digest).toBe(hashJson(declared));
    expect(parse(withTools(reversed)).manifest?.tools[0]?.digest).toBe(digest);
    const changed = parse(withTools(tool({ description: "Does b." })));
    expect(changed.manifest?.tools[0]?.digest).not.toBe(digest);
  });

  it("uses its app id as its name if it has no name", () => {
    const { name: _, ...unnamed } = notesManifest();
    expect(parse(unnamed).manifest?.name).toBe("org.example.Notes");
  });

  it("may have keywords and examples for each tool", () => {
    const texts = { keywords: ["memo", "jot"], examples: ["write this down"] };
    const [declared] = parse(withTools(tool(texts))).manifest?.tools ?? [];
    expect(declared).toMatchObject(texts);
    const [bare] = parse(withTools(tool({}))).manifest?.tools ?? [];
    expect(bare).toMatchObject({ keywords: [], examples: [] });
    expect(warningsOf(withTools(tool({ keywords: ["memo", "memo"] })))).toEqual([
      '/tools/0/keywords/1: repeats "memo"',
    ]);
  });

  it("without a tier counts as destructive, with a warning", () => {
    const { tier: _, ...untiered } = tool({});
    expect(warningsOf(withTools(untiered))).toEqual([
      "/tools/0/tier: is missing, so the tool counts as destructive",
    ]);
    expect(parse(withTools(untiered)).manifest?.tools[0]?.tier).toBe("destructive");
  });

  it("may have unknown fields, with a warning that suggests the nearest known field", () => {
    const document = notesManifest({ appid: "x", mcp: { transport: "unix", activateable: true } });
    expect(warningsOf(document)).toEqual([
      '/appid: "appid" is not a known field here; it is ignored; did you mean "app_id"?',
      '/mcp/activateable: "activateable" is not a known field here; it is ignored; did you mean "activatable"?',
    ]);
    expect(warningsOf(withTools(tool({ inputSchema: {}, constructor: 1 })))).toEqual([
      '/tools/0/inputSchema: "inputSchema" is not a known field here; it is ignored; did you mean "input_schema"?',
      '/tools/0/constructor: "constructor" is not a known field here; it is ignored',
    ]);
  });
});

describe("an invalid manifest", () => {
  it("is rejected as a whole, with a pointer for every fault", () => {
    const { manifest, faults } = parse({
      svc_manifest: 2,
      app_id: "Notes",
      mcp: { transport: "tcp", activatable: "yes" },
      tools: [tool({}), tool({ name: "b c", tier: "wirte" }), tool({})],
    });
    expect(manifest).toBeUndefined();
    expect(faults.map(({ pointer }) => pointer)).toEqual([
      "/svc_manifest",
      "/app_id",
      "/mcp/transport",
      "/mcp/activatable",
      "/tools/1/name",
      "/tools/1/tier",
      "/tools/2/name",
    ]);
    expect(faults.map(({ message }) => message)).toEqual([
      "version 2 is too new: this Berth reads version 1",
      'must be a reverse-domain name such as "org.example.Notes", not "Notes"',
      'must be "unix", not "tcp"',
      'must be true or false, not "yes"',
      'must be 1 to 128 letters, digits, "_", "." and "-", not "b c"',
      'must be "read", "write" or "destructive", not "wirte"; did you mean "write"?',
      '"a" is already declared at /tools/0',
    ]);
  });

  it.each([
    ["", "the file is empty", true],
    ["  \n", "the file is empty", true],
    ['{"svc_manifest": 1,', "the file is not JSON", true],
    ['{"app_id": 1, "app_id": 2}', 'the key "app_id" occurs twice in one object', true],
    ['{"tools": [{"__proto__": {}}]}', 'the key "__proto__" is not allowed', true],
    ["[".repeat(65) + "]".repeat(65), "the file is nested deeper than 64 levels", true],
    ["[]", "a manifest must be an object, not a list", false],
    ["null", "a manifest must be an object, not null", false],
  ])("is one that is not an object: %s", (text, message, isCut) => {
    const parsed = parseText(text);
    expect(parsed.faults).toEqual([
      { pointer: "", message: expect.stringContaining(message), severity: "error" },
    ]);
    expect(parsed).toMatchObject({ manifest: undefined, isIncomplete: isCut });
  });

  it("is one that is not UTF-8, or too large", () => {
    const bytes = Buffer.from(JSON.stringify(notesManifest({ name: "\u00e4" })), "latin1");
    expect(parseManifest(bytes, undefined).faults[0]?.message).toBe("the file is not UTF-8");
    const large = parseText(`${JSON.stringify(notesManifest())}${" ".repeat(2 ** 20)}`);
    expect(large.faults[0]?.message).toBe("the file is larger than 1 MiB");
  });

  it("is one whose keywords or examples are not a short list of short texts", () => {
    const twentyOne = Array.from({ length: 21 }, (_, index) => `word ${index}`);
    const changes = {
      keywords: ["", 1, "x".repeat(41), "a\nb", "a\u200bb"],
      examples: ["x".repeat(121)],
    };
    expect(errorsOf(withTools(tool(changes)))).toEqual([
      "/tools/0/keywords/0: must not be empty",
      "/tools/0/keywords/1: must be text, not 1",
      "/tools/0/keywords/2: is longer than 40 characters",
      "/tools/0/keywords/3: contains a control character",
      "/tools/0/keywords/4: contains an invisible character, or one that reverses the direction of the text",
      "/tools/0/examples/0: is longer than 120 characters",
    ]);
    expect(errorsOf(withTools(tool({ keywords: twentyOne, examples: "write" })))).toEqual([
      "/tools/0/keywords: has 21 texts; at most 20 are allowed",
      '/tools/0/examples: must be a list of texts, not "write"',
    ]);
  });

  it("is one whose app id differs from its file name", () => {
    expect(errorsOf(notesManifest({ app_id: "org.example.Mail" }))).toEqual([
      '/app_id: is "org.example.Mail", so the file must be named "org.example.Mail.json"',
    ]);
  });

  it.each(["notes", "org..notes", "org.1notes", "org/notes.x", "../x.y", "org.notes\n", 7, "é.x"])(
    "is one whose id is not a reverse domain name: %j",
    (appId) => expect(parse(notesManifest({ app_id: appId })).appId).toBeUndefined(),
  );

  it.each(["", "a b", "a/b", "é", "a".repeat(129), null])(
    "is one that has a tool with the name %j",
    (name) => {
      expect(errorsOf(withTools(tool({ name })))).toEqual([
        expect.stringContaining("/tools/0/name: must be 1 to 128 letters"),
      ]);
    },
  );

  it.each([
    ["Del\u202eete", "reverses the direction"],
    ["Del\u200bete", "invisible character"],
    ["Del\u061cete", "reverses the direction"],
    ["Delete\u{e0061}\u{e006c}", "invisible character"],
    ["Delete\nall", "control character"],
    ["x".repeat(101), "longer than 100"],
    ["\ud800", "half a surrogate pair"],
    [" ", "must not be empty"],
  ])("is one that has a deceptive title: %j", (title, message) => {
    expect(errorsOf(withTools(tool({ title })))).toEqual([expect.stringContaining(message)]);
  });

  it("is reported with at most 50 faults and the number of the others", () => {
    const tools = Array.from({ length: 200 }, () => tool({ name: "" }));
    const faults = errorsOf(withTools(...tools));
    expect(faults).toHaveLength(51);
    expect(faults.at(-1)).toBe(": and 150 more");
  });
});

function pair(name: string, other: string): Document {
  return tool({ name, undo: { tool: other } });
}

describe("the undo declaration of a tool", () => {
  const remove = tool({ name: "remove", input_schema: objectSchema({ id: { type: "string" } }) });
  const create = (undo: unknown, properties: Document = { title: { type: "string" } }) =>
    withTools(tool({ name: "create", input_schema: objectSchema(properties), undo }), remove);

  it.each<[string, unknown, string]>([
    [
      "a value that is not an object",
      "remove",
      '/tools/0/undo: must be an object with "tool" and "map", not "remove"',
    ],
    [
      "another app's tool",
      { tool: "remov", map: { id: "$result.id" } },
      '/tools/0/undo/tool: this app has no tool "remov"; did you mean "remove"?',
    ],
    [
      "the tool itself",
      { tool: "create", map: { title: "$input.title" } },
      "/tools/0/undo/tool: a tool cannot be undone by calling it again",
    ],
    [
      "an unknown argument",
      { tool: "remove", map: { id: "$result.id", ids: "$result.id" } },
      '/tools/0/undo/map/ids: "remove" has no argument "ids"; did you mean "id"?',
    ],
    [
      "a missing argument",
      { tool: "remove", map: {} },
      '/tools/0/undo/map: does not provide "id", which "remove" requires',
    ],
    [
      "a missing argument without any map",
      { tool: "remove" },
      '/tools/0/undo/map: does not provide "id", which "remove" requires',
    ],
    [
      "a field that the input does not have",
      { tool: "remove", map: { id: "$input.titel" } },
      '/tools/0/undo/map/id: "$input.titel": the input schema has no "titel"; did you mean "title"?',
    ],
    [
      "a constant",
      { tool: "remove", map: { id: "1" } },
      '/tools/0/undo/map/id: must be "$input.<field>" or "$result.<field>", with further fields after dots, not "1"',
    ],
    [
      "the whole result",
      { tool: "remove", map: { id: "$result" } },
      '/tools/0/undo/map/id: must be "$input.<field>" or "$result.<field>", with further fields after dots, not "$result"',
    ],
    [
      "a result's field __proto__",
      { tool: "remove", map: { id: "$result.note.__proto__.id" } },
      '/tools/0/undo/map/id: must be "$input.<field>" or "$result.<field>", with further fields after dots, not "$result.note.__proto__.id"',
    ],
    [
      "an argument's field __proto__",
      { tool: "remove", map: { id: "$input.__proto__" } },
      '/tools/0/undo/map/id: must be "$input.<field>" or "$result.<field>", with further fields after dots, not "$input.__proto__"',
    ],
  ])("is rejected if it has %s", (_, undo, fault) => {
    expect(errorsOf(create(undo))).toEqual([fault]);
  });

  it("may name nested fields with dots, also inside of `$ref` and `anyOf`", () => {
    const properties = {
      note: { $ref: "#/$defs/note" },
    };
    const $defs = { note: { anyOf: [{ type: "object", properties: { id: { type: "string" } } }] } };
    const document = (expression: string) =>
      withTools(
        tool({
          input_schema: { ...objectSchema(properties), $defs },
          undo: { tool: "remove", map: { id: expression } },
        }),
        remove,
      );
    expect(errorsOf(document("$input.note.id"))).toEqual([]);
    expect(errorsOf(document("$input.note.name"))).toEqual([
      '/tools/0/undo/map/id: "$input.note.name": the input schema has no "name"',
    ]);
    expect(parse(document("$result.a.b.c")).manifest?.tools[0]?.undo?.map.get("id")).toEqual({
      from: "result",
      fields: ["a", "b", "c"],
    });
  });

  it("is rejected if a mapped field can never have the type of the argument that it is mapped to", () => {
    const undo = { tool: "remove", map: { id: "$input.count" } };
    expect(errorsOf(create(undo, { count: { type: "integer" } }))).toEqual([
      '/tools/0/undo/map/id: "$input.count" has another type than "id" of "remove"',
    ]);
    expect(errorsOf(create(undo, { count: { type: ["integer", "string"] } }))).toEqual([]);
  });

  it("causes a warning if its fields cannot be checked, or if the tool is read-only", () => {
    const undo = { tool: "remove", map: { id: "$input.note.id" } };
    expect(warningsOf(create(undo, { note: { type: "object" } }))).toEqual([
      '/tools/0/undo/map/id: "$input.note.id": the input schema does not say if there is such a field',
    ]);
    const optional = withTools(
      tool({
        tier: "read",
        input_schema: objectSchema({ id: { type: "string" } }, []),
        undo: { tool: "remove", map: { id: "$input.id" } },
      }),
      { ...remove, tier: "read" },
    );
    expect(warningsOf(optional)).toEqual([
      "/tools/0/undo: a tool that only reads has nothing to undo",
      '/tools/0/undo/tool: "remove" only reads, so it cannot undo anything',
      '/tools/0/undo/map/id: "$input.id" is optional, and a call without it cannot be undone: "remove" requires "id"',
    ]);
  });

  it("may form a pair: two tools undo each other", () => {
    expect(
      warningsOf(withTools(pair("archive", "unarchive"), pair("unarchive", "archive"))),
    ).toEqual([]);
  });
});

describe("parsing a manifest", () => {
  it("does not throw for random bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const { manifest, faults } = parseManifest(bytes, undefined);
        expect(manifest === undefined).toBe(faults.some(({ severity }) => severity === "error"));
      }),
      { numRuns: 2000 },
    );
  });

  it("does not throw for random JSON in any field", () => {
    const places = ["svc_manifest", "app_id", "name", "description", "mcp", "tools"] as const;
    const inTool = ["name", "title", "tier", "description", "input_schema", "undo"] as const;
    fc.assert(
      fc.property(
        fc.constantFrom(...places, ...inTool),
        fc.boolean(),
        fc.jsonValue({ maxDepth: 4 }),
        (field, isInTool, value) => {
          const document = isInTool
            ? withTools(tool({ [field]: value }))
            : notesManifest({ [field]: value });
          const { manifest, faults } = parse(document);
          expect(manifest === undefined).toBe(faults.some(({ severity }) => severity === "error"));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
