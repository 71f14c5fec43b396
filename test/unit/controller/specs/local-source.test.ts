import { join } from "node:path";
import { expect, it } from "vitest";
import { SOURCE_REVISION_ANNOTATION } from "../../../../src/resources/resource.ts";
import { SpecsHarness } from "../../../support/specs-harness.ts";

const app = (name: string, source: string) =>
  `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec: { port: 80, source: ${source} }\n`;

it("a local source is relative to the folder of its spec file", async () => {
  await using harness = new SpecsHarness();
  await harness.write({
    "top.yaml": app("top", "{ local: ./src }"),
    "team/shop.yaml": app("shop", "{ local: ../../code/shop/ }"),
    "elsewhere.yaml": app("elsewhere", "{ local: /srv/app }"),
    "git.yaml": app("git", '{ git: { url: "https://example.org/a.git" } }'),
  });
  await harness.scan();
  const sourceOf = (name: string) => harness.app(name).spec.source;
  expect(sourceOf("top")).toEqual({ local: join(harness.folder, "src") });
  expect(sourceOf("shop")).toEqual({ local: join(harness.root, "code/shop") });
  expect(sourceOf("elsewhere")).toEqual({ local: "/srv/app" });
  expect(sourceOf("git")).toEqual({ git: { url: "https://example.org/a.git" } });

  // A restarted server applies no file whose content is unchanged, so it writes nothing to the store.
  const before = harness.store.lastSequence;
  await harness.restart();
  await harness.scan();
  expect(harness.store.lastSequence).toBe(before);

  await harness.move("top.yaml", "team/top.yaml");
  await harness.scanTwice();
  expect(sourceOf("top")).toEqual({ local: join(harness.folder, "team/src") });
});

it("a change of the source in a spec file ends the pin that a rollback has set", async () => {
  await using harness = new SpecsHarness();
  await harness.write({ "git.yaml": app("git", '{ git: { url: "https://example.org/a.git" } }') });
  await harness.scan();
  harness.store.apply({
    kind: "App",
    name: "git",
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: {},
    annotations: { [SOURCE_REVISION_ANNOTATION]: "c0ffee" },
  });
  await harness.write({
    "git.yaml": `${app("git", '{ git: { url: "https://example.org/a.git" } }')}# edited\n`,
  });
  await harness.scan();
  expect(harness.app("git").metadata.annotations).toEqual({
    [SOURCE_REVISION_ANNOTATION]: "c0ffee",
  });
  await harness.write({ "git.yaml": app("git", '{ git: { url: "https://example.org/b.git" } }') });
  await harness.scan();
  expect(harness.app("git").metadata.annotations).toEqual({});
});
