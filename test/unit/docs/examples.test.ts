import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Manifest, specSchemas } from "../../../src/resources/kinds.ts";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { toStoredLabels } from "../../../src/resources/stack.ts";
import { ControlPlaneHarness } from "../../support/control-plane-harness.ts";
import { isOfKind, requireManifest } from "../../support/find-manifest.ts";
import { listSchemaFields } from "../../support/list-schema-fields.ts";

const folder = join(import.meta.dirname, "../../../examples/specs");
const files = readdirSync(folder).filter((file) => file.endsWith(".yaml"));

/** The model that the fake hub returns for each name. */
const aModel = { commit: "c1".repeat(20), bytes: 1_000, memoryBytes: 400 };

test("the tests below apply at least eight spec files of the folder examples/specs", () => {
  expect(files.length).toBeGreaterThanOrEqual(8);
});

describe.each(files)("examples/specs/%s", (file) => {
  test("is applied, and every App reaches its desired state", async () => {
    const manifests = read(file);
    const apps = manifests.filter((manifest) => isOfKind(manifest, "App"));
    const images = Object.fromEntries(apps.map((app) => [app.spec.image ?? "", {}]));
    await using harness = new ControlPlaneHarness({ images });
    for (const { spec } of manifests.filter((manifest) => isOfKind(manifest, "Model")))
      harness.models.repositories.set(spec.source, aModel);
    harness.boot();
    for (const manifest of manifests) applyTo(harness, manifest);
    // Apps with a source are skipped, because the test has no git server.
    for (const { metadata, spec } of apps.filter((app) => app.spec.source === undefined)) {
      await harness.waitForPhase(metadata.name, spec.running === false ? "stopped" : "running");
    }
    expect(
      manifests.map(({ kind, metadata }) => harness.store.get(kind, metadata.name)),
    ).not.toContain(undefined);
    // Applying the example again changes nothing.
    const calls = harness.store.lastSequence;
    for (const manifest of manifests) expect(applyTo(harness, manifest).changes).toEqual([]);
    expect(harness.store.lastSequence).toBe(calls);
  });
});

test("every-field.yaml has every field of an App, except fields that another field excludes", () => {
  const { spec } = requireManifest(read("every-field.yaml"), "App", "every-field");
  const missing = listSchemaFields(specSchemas.App)
    .map((field) => field.path)
    .filter((path) => !has(spec, path.split(".")));
  expect(missing.filter((path) => !/^(source|build)\b/.test(path))).toEqual([
    "ingress.maintenance.html",
    "healthCheck.command",
  ]);
});

function read(file: string): Manifest[] {
  const { documents, errors } = parseManifests(readFileSync(join(folder, file)));
  expect(errors).toEqual([]);
  return documents.map((document) => document.manifest);
}

function applyTo(harness: ControlPlaneHarness, { kind, metadata, spec }: Manifest) {
  return harness.store.apply({
    kind,
    name: metadata.name,
    manager: "file:example.yaml",
    actor: { name: "file:example.yaml", scope: "admin" },
    mode: "replace",
    declares: true,
    spec,
    labels: toStoredLabels(metadata),
    ...(metadata.annotations ? { annotations: metadata.annotations } : {}),
  });
}

/** Returns true if the value has the field at a path such as `volumes[].name` or `env.<key>.secret`. */
function has(value: unknown, [part = "", ...rest]: string[]): boolean {
  if (part === "") return true;
  if (typeof value !== "object" || value === null) return false;
  if (part === "<key>") return Object.values(value).some((item) => has(item, rest));
  const field: unknown = Object.entries(value).find(([key]) => key === part.replace("[]", ""))?.[1];
  if (field === undefined) return false;
  return Array.isArray(field) && part.endsWith("[]")
    ? field.some((item) => has(item, rest))
    : has(field, rest);
}
