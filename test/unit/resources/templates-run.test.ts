import { join } from "node:path";
import { expect, test } from "vitest";
import { loadCatalog } from "../../../src/controller/catalogs/catalog.ts";
import { renderTemplate } from "../../../src/resources/template-render.ts";
import { ControlPlaneHarness } from "../../support/control-plane-harness.ts";
import { isOfKind } from "../../support/find-manifest.ts";

const { templates: catalog } = loadCatalog(join(import.meta.dirname, "../../../templates"));

/** The real store and reconcilers run each template on an in-memory engine. */
test.each(catalog.map((template) => [template.metadata.name, template.spec] as const))(
  "all apps of the template %s become Ready, and the companion apps first",
  async (_, spec) => {
    const parameters = Object.fromEntries(
      (spec.parameters ?? []).filter((p) => p.required).map((p) => [p.name, "/srv/files"]),
    );
    const { manifests } = renderTemplate(spec, { name: "mine", parameters });
    const apps = manifests.filter((manifest) => isOfKind(manifest, "App"));
    const images = Object.fromEntries(apps.map((app) => [app.spec.image ?? "", { held: false }]));
    await using world = new ControlPlaneHarness({ images });
    world.boot();
    // The app is written before its dependencies, because the order must not matter.
    for (const { kind, metadata, spec: applied } of manifests.toReversed()) {
      world.store.apply({
        kind,
        name: metadata.name,
        manager: "api",
        actor: { name: "test", scope: "admin" },
        mode: "replace",
        createOnly: true,
        spec: applied,
      });
    }
    for (const app of apps) await world.waitUntilReady(app.metadata.name);
    const [container] = world.listContainers("mine");
    const env = Object.keys(apps.at(-1)?.spec.env ?? {});
    expect(container?.spec.env.map((line) => line.split("=")[0])).toEqual(env);
    expect(container?.spec.env.join("\n")).not.toContain("${");
  },
);
