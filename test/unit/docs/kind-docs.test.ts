import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { resolveAppDefaults } from "../../../src/resources/app-defaults.ts";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import { appPhases } from "../../../src/resources/app-status.ts";
import { API_VERSION, kinds, specSchemas } from "../../../src/resources/kinds.ts";
import { modelPhases } from "../../../src/resources/model-status.ts";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { validateSpec } from "../../../src/resources/validate-manifest.ts";
import { listSchemaFields } from "../../support/list-schema-fields.ts";

const root = join(import.meta.dirname, "../../..");
const docOf = (kind: string) => readFileSync(join(root, `docs/kinds/${kind}.md`), "utf8");

describe.each(kinds)("docs/kinds/%s.md", (kind) => {
  const doc = docOf(kind);
  const rows = tableAfter(doc, "### Fields of `spec`");
  const fields = listSchemaFields(specSchemas[kind]);

  test("is compared with a schema that has more than one field", () => {
    expect(fields.length).toBeGreaterThan(1);
  });

  test("has exactly one row for every field of the schema, in the same order", () => {
    expect(rows.map((row) => row.field)).toEqual(fields.map((field) => field.path));
  });

  test("documents the type of every field, and whether it is required", () => {
    expect(rows.map((row) => [row.field, row.type, row.default === "required"])).toEqual(
      fields.map((field) => [field.path, field.type, field.required]),
    );
  });

  test("has the sections on writing, operating and the status", () => {
    expect(doc.match(/^#{1,2} .*$/gm)).toEqual([
      `# ${kind}`,
      "## Write a spec",
      "## Operate",
      "## Status",
    ]);
  });

  test("has valid examples", () => {
    const examples = [...doc.matchAll(/```yaml\n(.*?)```/gs)]
      .map((match) => match[1] ?? "")
      .filter((text) => text.startsWith(`apiVersion: ${API_VERSION}`));
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      const { documents, errors } = parseManifests(example);
      expect(errors).toEqual([]);
      expect(documents.map((document) => document.manifest.kind)).toEqual([kind]);
    }
  });
});

describe("defaults of App", () => {
  const defaults = tableAfter(docOf("App"), "### Fields of `spec`")
    .filter((row) => /^`[^`]+`$/.test(row.default) && row.field !== "healthCheck.port")
    .map((row) => [row.field, row.default.slice(1, -1)] as const);

  test("are documented", () => {
    expect(defaults.length).toBeGreaterThan(12);
  });

  test.each(defaults)("an omitted %s is %s", (field, text) => {
    expect(normal(withField(field, parse(text)))).toEqual(normal(base()));
  });

  test("are distinguished from other values, so that a wrong default in docs/kinds/App.md is detected", () => {
    expect(normal(withField("stopGracePeriod", "11s"))).not.toEqual(normal(base()));
    expect(normal(withField("volumes[].readOnly", true))).not.toEqual(normal(base()));
  });
});

test.each([
  ["App", appPhases],
  ["Model", modelPhases],
])("the page documents all phases in the status of %s", (kind, all) => {
  const told = tableAfter(docOf(kind), "`phase` is one word").map((row) => row.field);
  expect(told).toEqual([...all]);
});

interface Row {
  readonly field: string;
  readonly type: string;
  readonly default: string;
}

/**
 * Returns the rows of the first table below the line that begins with `heading`; the first column loses its backticks.
 */
function tableAfter(doc: string, heading: string): Row[] {
  const lines = doc.slice(doc.indexOf(heading)).split("\n");
  const start = lines.findIndex((line) => line.startsWith("|"));
  const table = lines.slice(start + 2);
  return table
    .slice(
      0,
      table.findIndex((line) => !line.startsWith("|")),
    )
    .map((line) => {
      const [, field = "", type = "", preset = ""] = line.split("|").map((cell) => cell.trim());
      return { field: field.replaceAll("`", ""), type, default: preset };
    });
}

/** Returns a spec with one entry in every list and mapping. */
function base(): Record<string, unknown> {
  return {
    image: "img:1",
    port: 80,
    ports: [{ host: 81, container: 82 }],
    volumes: [{ name: "data", path: "/data" }],
    folders: [{ name: "media", path: "/media" }],
    files: [{ path: "/etc/app.conf", content: "x" }],
    healthCheck: {},
    ingress: { redirects: [{ from: "old.example.org" }] },
  };
}

function withField(path: string, value: unknown): Record<string, unknown> {
  const put = (target: unknown, [part = "", ...rest]: string[]): unknown => {
    const record: Record<string, unknown> = { ...Object(target) };
    const name = part.replace("[]", "");
    const old = record[name];
    if (rest.length === 0) record[name] = value;
    else if (Array.isArray(old)) record[name] = old.map((item: unknown) => put(item, rest));
    else record[name] = put(old, rest);
    return record;
  };
  return { ...base(), ...Object(put(base(), path.split("."))) };
}

function normal(spec: Record<string, unknown>) {
  const app = resolveAppDefaults(validateSpec("App", spec) satisfies AppSpec);
  return {
    ...app,
    volumes: app.volumes.map(withMountDefaults),
    folders: app.folders.map(withMountDefaults),
  };
}

function withMountDefaults(mount: { readonly readOnly?: boolean; readonly shared?: boolean }) {
  return { ...mount, readOnly: mount.readOnly ?? false, shared: mount.shared ?? false };
}
