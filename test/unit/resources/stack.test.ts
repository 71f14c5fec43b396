import { describe, expect, it } from "vitest";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import { tryValidateManifest } from "../../../src/resources/validate-manifest.ts";
import { applyResource, openTestStore } from "../../support/test-store.ts";

const app = (metadata: object, spec: object = {}) => ({
  apiVersion: "berth.dev/v1",
  kind: "App",
  metadata,
  spec: { image: "web:1", ...spec },
});

function listIssues(document: unknown): string[] {
  const read = tryValidateManifest(document);
  return "issues" in read ? read.issues.map(({ path, message }) => `${path}: ${message}`) : [];
}

describe("a manifest with metadata.stack", () => {
  it("is valid for an app that is called STACK-SERVICE, and for a Secret of any name", () => {
    expect(listIssues(app({ name: "blog-web", stack: "blog" }, { aliases: ["Web_1"] }))).toEqual(
      [],
    );
    const secret = { apiVersion: "berth.dev/v1", kind: "Secret", spec: { data: { value: "x" } } };
    expect(listIssues({ ...secret, metadata: { name: "any", stack: "blog" } })).toEqual([]);
  });

  it("is refused for an app with another name", () => {
    for (const name of ["web", "blog", "blogweb", "web-blog"])
      expect(listIssues(app({ name, stack: "blog" }))).toEqual([
        '/metadata/name: an app of the stack "blog" has a name of the form blog-SERVICE, such as blog-web',
      ]);
  });

  it("is refused for kinds that cannot belong to a stack", () => {
    const model = {
      apiVersion: "berth.dev/v1",
      kind: "Model",
      metadata: { name: "blog-m", stack: "blog" },
      spec: { source: { file: "/m.gguf" } },
    };
    expect(listIssues(model).join()).toContain('unknown key "stack"');
  });
});

describe("a manifest without metadata.stack", () => {
  it("is refused if it has aliases, which are names in the network of a stack", () => {
    expect(listIssues(app({ name: "web" }, { aliases: ["www"] }))).toEqual([
      "/spec/aliases: aliases are names in the network of a stack: set metadata.stack too",
    ]);
  });

  it("is refused if it has the label in which the store keeps the stack", () => {
    expect(listIssues(app({ name: "blog-web", labels: { [STACK_LABEL]: "blog" } }))).toEqual([
      "/metadata/labels/berth.dev~1stack: write the name of the stack as metadata.stack",
    ]);
  });
});

describe("a stored app of a stack", () => {
  it("is refused if a change of its label or its fields breaks the rules of stacks", async () => {
    await using opened = openTestStore();
    const { store } = opened;
    const labels = { [STACK_LABEL]: "blog" };
    const { metadata } = applyResource(store, "App", "blog-web", { image: "web:1" }, { labels });
    expect(metadata).toMatchObject({ labels, generation: 1 });
    const patch = (change: object) => () =>
      applyResource(store, "App", "blog-web", {}, { mode: "merge", ...change });
    expect(patch({ labels: { [STACK_LABEL]: "shop" } })).toThrow("of the form shop-SERVICE");
    patch({ spec: { aliases: ["www"] } })();
    expect(patch({ labels: { [STACK_LABEL]: null } })).toThrow("set metadata.stack too");
  });
});
