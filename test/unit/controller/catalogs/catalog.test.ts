import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { BerthError, InvalidSpecError } from "../../../../src/base/errors.ts";
import { loadCatalog } from "../../../../src/controller/catalogs/catalog.ts";
import type { Manifest } from "../../../../src/resources/kinds.ts";
import { parseModelSource } from "../../../../src/resources/model-source.ts";
import { parsePlaceholders } from "../../../../src/resources/placeholders.ts";
import { renderTemplate } from "../../../../src/resources/template-render.ts";
import { validateManifest } from "../../../../src/resources/validate-manifest.ts";
import { isOfKind } from "../../../support/find-manifest.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const { templates: catalog, models } = loadCatalog(
  join(import.meta.dirname, "../../../../templates"),
);

test("the catalog contains templates of the common kinds of apps", () => {
  const names = catalog.map((template) => template.metadata.name);
  expect(names.length).toBeGreaterThanOrEqual(14);
  expect(names).toEqual(
    expect.arrayContaining(["nginx", "postgres", "valkey", "gitea", "grafana", "open-webui"]),
  );
});

const named = catalog.map((template) => [template.metadata.name, template] as const);

describe.each(named)("the template %s", (_, template) => {
  const { spec } = template;

  test("renders valid manifests with its default values", () => {
    const { manifests } = renderTemplate(spec, { name: "mine", parameters: required(template) });
    expect(manifests.map((manifest) => validateManifest(manifest))).toEqual(manifests);
    expect(manifests.at(-1)).toMatchObject({ kind: "App", metadata: { name: "mine" } });
  });

  test("renders manifests if all of its parameters have a value", () => {
    const parameters = Object.fromEntries(
      (spec.parameters ?? []).map((p) => [
        p.name,
        p.default ?? samples[p.name] ?? required(template)[p.name] ?? "sample-value-0123456789",
      ]),
    );
    expect(renderTemplate(spec, { name: "mine", parameters }).manifests.length).toBeGreaterThan(0);
  });

  test("stores every secret parameter in a Secret, and never in an App", () => {
    const secrets = (spec.parameters ?? []).filter((parameter) => parameter.secret);
    const marks = Object.fromEntries(secrets.map((p, at) => [p.name, `Mark${at}of0secret0value`]));
    const { manifests } = renderTemplate(spec, {
      name: "mine",
      parameters: { ...required(template), ...marks },
    });
    const apps = JSON.stringify(manifests.filter((manifest) => isOfKind(manifest, "App")));
    const kept = manifests.filter((manifest) => isOfKind(manifest, "Secret"));
    for (const mark of Object.values(marks)) expect(apps).not.toContain(mark);
    for (const mark of Object.values(marks)) expect(JSON.stringify(kept)).toContain(mark);
    expect(kept).toHaveLength(secrets.length);
  });

  test("uses and describes every parameter", () => {
    const used = new Set(listPlaceholders([spec.app, spec.companions]));
    const parameters = spec.parameters ?? [];
    expect(parameters.filter((p) => !used.has(p.name))).toEqual([]);
    expect(parameters.filter((p) => (p.description ?? "") === "")).toEqual([]);
  });

  test("has defaults and generated values that match the patterns of their parameters", () => {
    const misfits = (spec.parameters ?? []).filter((parameter) => {
      const pattern = new RegExp(parameter.pattern ?? "", "u");
      const made = parameter.generate && "aZ0".padEnd(parameter.generate, "x");
      const value = made ?? parameter.default;
      return value !== undefined && !pattern.test(String(value));
    });
    expect(misfits).toEqual([]);
  });

  test("marks every parameter for a password, token or key as secret", () => {
    const open = (spec.parameters ?? [])
      .filter(({ name }) => /password|secret|token|key$/i.test(name) && name !== "accessKey")
      .filter((parameter) => parameter.secret !== true);
    expect(open).toEqual([]);
  });

  test("uses images of fixed versions from the default registry", () => {
    for (const app of listApps(template)) {
      expect(app.image).toMatch(/^([a-z0-9-]+\/)?[a-z0-9-]+:[\w.-]+$/);
      expect(app.image).not.toMatch(/:latest$/);
    }
  });

  test("sets a port, which Berth can probe, for each of its apps", () => {
    expect(listApps(template).filter((app) => app.port === undefined)).toEqual([]);
  });

  test("uses the strategy recreate for each app with writable data, so that no two versions share the data", () => {
    const rolling = listApps(template)
      .filter((app) => (app.volumes ?? []).some((volume) => volume.readOnly !== true))
      .filter((app) => app.rollout?.strategy !== "recreate");
    // Only the template nginx may use a rolling update with a writable volume, because two nginx servers can share
    // the folder.
    expect(rolling.map((app) => app.image)).toEqual(
      template.metadata.name === "nginx" ? ["nginx:1.29"] : [],
    );
  });

  test("has the website, category and description that a listing shows", () => {
    expect(spec.website).toMatch(/^https:\/\//);
    expect(spec.category).toMatch(/^[a-z]+$/);
    expect(spec.description).toMatch(/\.$/);
  });
});

describe("the catalog of models", () => {
  test("contains small and large chat models, and some embedding models", () => {
    const names = models.map((model) => model.metadata.name);
    expect(names.length).toBeGreaterThanOrEqual(12);
    expect(names).toEqual(expect.arrayContaining(["qwen3-0-6b", "qwen3-4b", "nomic-embed-text"]));
  });

  test("uses each repository in one entry only", () => {
    const sources = models.map((model) => model.spec.source.toLowerCase());
    expect(sources.length).toBe(new Set(sources).size);
  });

  test.each(models.map((model) => [model.metadata.name, model] as const))(
    "has a valid, complete and unambiguous entry %s",
    (_, model) => {
      expect(validateManifest(model)).toEqual(model);
      expect(parseModelSource(model.spec.source)).toMatchObject({ source: { type: "repository" } });
      // The catalog entry names a quantization or a file, so that a new file in the repository does not change the
      // choice.
      expect(model.spec.quantization ?? model.spec.file).toBeDefined();
      // A catalog entry contains no settings for loading a model.
      expect(Object.keys(model.spec).toSorted()).toEqual(
        ["source", model.spec.file === undefined ? "quantization" : "file"].toSorted(),
      );
      // The description of a catalog entry says what the model is and names its licence.
      const { description } = model.metadata.annotations ?? {};
      expect(description).toMatch(/^[^:]+: .+\.$/);
      expect(description).toMatch(/License|terms of use|Apache-2\.0|MIT/);
    },
  );
});

describe("loadCatalog", () => {
  let folder = "";
  beforeEach(() => {
    folder = temporaryFolder("catalog");
  });

  const good = `apiVersion: berth.dev/v1
kind: Template
metadata: { name: one }
spec: { title: One, description: d, category: c, app: { image: "a:1" } }
`;

  test("reads YAML files in order and ignores other files", () => {
    writeFileSync(join(folder, "two.yaml"), good.replace("name: one", "name: two"));
    writeFileSync(join(folder, "one.yaml"), good);
    writeFileSync(join(folder, "README.md"), "# not a template");
    expect(loadCatalog(folder).templates.map((template) => template.metadata.name)).toEqual([
      "one",
      "two",
    ]);
  });

  test.each([
    [
      "an unknown key",
      good.replace("title:", "titel:"),
      /^.*one\.yaml:4:9: .*did you mean "title"/,
    ],
    ["broken YAML", `${good}\n  - [`, /one\.yaml:\d+:\d+: not valid YAML/],
    [
      "another name than the file's",
      good.replace("name: one", "name: ono"),
      /one\.yaml:3:\d+: .*named "one"/,
    ],
    [
      "two documents",
      `${good}---\n${good.replace("name: one", "name: two")}`,
      /one\.yaml:6:1: this is a second document/,
    ],
    ["nothing", "# empty\n", /one\.yaml:1:1: the file contains no document/],
    [
      "another kind",
      "apiVersion: berth.dev/v1\nkind: Secret\nmetadata: { name: one }\nspec: { data: { a: b } }\n",
      /one\.yaml:2:\d+: expected kind Template, found Secret/,
    ],
  ])("reports the problem with file and line if a template has %s", (_, text, message) => {
    writeFileSync(join(folder, "one.yaml"), text);
    expect(() => loadCatalog(folder)).toThrow(InvalidSpecError);
    expect(() => loadCatalog(folder)).toThrow(message);
  });

  const model = `apiVersion: berth.dev/v1
kind: Model
metadata: { name: small }
spec: { source: org/small }
`;

  test('reads models from the folder "models"', () => {
    writeFileSync(join(folder, "one.yaml"), good);
    mkdirSync(join(folder, "models"));
    writeFileSync(join(folder, "models", "small.yaml"), model);
    const loaded = loadCatalog(folder);
    expect(loaded.templates.map(({ metadata }) => metadata.name)).toEqual(["one"]);
    expect(loaded.models.map(({ metadata }) => metadata.name)).toEqual(["small"]);
  });

  test.each([
    ["an unknown key", model.replace("source:", "sauce:"), /models\/small\.yaml:4:9: .*"sauce"/],
    ["another name", model.replace("small }", "smal }"), /models\/small\.yaml:3:\d+: the model of/],
    [
      "a template",
      good.replace("one }", "small }"),
      /small\.yaml:2:\d+: expected kind Model, found/,
    ],
  ])("reports the problem with file and line if a model has %s", (_, text, message) => {
    mkdirSync(join(folder, "models"));
    writeFileSync(join(folder, "models", "small.yaml"), text);
    expect(() => loadCatalog(folder)).toThrow(message);
  });

  test("invalid files are all reported together, without the path of the folder", () => {
    writeFileSync(join(folder, "a.yaml"), "x: [");
    writeFileSync(join(folder, "b.yaml"), "x: [");
    expect(() => loadCatalog(folder)).toThrow(/a\.yaml.*b\.yaml/s);
    expect(() => loadCatalog(folder)).not.toThrow(folder);
  });

  test("a missing folder is reported", () => {
    expect(() => loadCatalog(join(folder, "gone"))).toThrow(BerthError);
  });
});

/** Values, by name, for parameters that accept only a certain format and have no default. */
const samples: Readonly<Record<string, string>> = {
  domain: "app.example.org",
  url: "https://app.example.org/",
  memory: "1Gi",
};

function required(template: Manifest<"Template">): Record<string, unknown> {
  return Object.fromEntries(
    (template.spec.parameters ?? [])
      .filter((parameter) => parameter.required)
      .map((parameter) => [parameter.name, "/srv/files"]),
  );
}

function listApps(template: Manifest<"Template">) {
  const { manifests } = renderTemplate(template.spec, {
    name: "mine",
    parameters: required(template),
  });
  return manifests.filter((manifest) => isOfKind(manifest, "App")).map(({ spec }) => spec);
}

function listPlaceholders(value: unknown): string[] {
  if (typeof value === "string") {
    return parsePlaceholders(value).flatMap((part) => ("text" in part ? [] : part.placeholder));
  }
  return typeof value === "object" && value !== null
    ? Object.values(value).flatMap((item) => listPlaceholders(item))
    : [];
}
