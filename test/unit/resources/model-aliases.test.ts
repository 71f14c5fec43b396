import { describe, expect, test } from "vitest";
import { KnownModels } from "../../../src/assistant/inference/models/known-models.ts";
import { listModelAliases } from "../../../src/resources/model-aliases.ts";

const aliases = (source: string, quantization: string | null = "Q4_K_M") =>
  listModelAliases({ name: "one", spec: { source }, quantization }, []);

describe("the aliases of a Model", () => {
  test("are its repository, and the repository with the quantization of the file", () => {
    expect(aliases("org/x")).toEqual(["org/x", "org/x:Q4_K_M"]);
    expect(aliases("org/x", null)).toEqual(["org/x"]);
    expect(aliases("https://hub.test/x.gguf")).toEqual([]);
    expect(aliases("/srv/x.gguf")).toEqual([]);
  });

  // The hub allows names such as `_org/x`. The assistant refuses them as names of models, so such a repository is not
  // an alias.
  test.each(["_org/x", "org/_x", "o_r.g-1/x.y_z"])(
    "are names that the assistant accepts: %s",
    async (source) => {
      const known = new KnownModels({ folder: undefined, aliases: new Map() });
      const model = { id: "one", path: "/srv/x.gguf", isPinned: true, aliases: aliases(source) };
      await expect(known.register(model)).resolves.toBeUndefined();
      expect(model.aliases.length).toBe(source.includes("_x") || source.startsWith("_") ? 0 : 2);
    },
  );
});
