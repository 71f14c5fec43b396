import { mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { createResolverHarness } from "../../../../support/hub/resolver-harness.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

const sources = createResolverHarness("https://hub.invalid");
let folder: string;
beforeEach(() => {
  folder = temporaryFolder("local-model");
});

async function put(name: string, text = "GGUF"): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, text);
  return file;
}

describe("a file of this machine", () => {
  it.each(["path", "URL"])("is found by its %s", async (how) => {
    const file = await put("my m-Q8_0.gguf");
    const source = how === "path" ? file : pathToFileURL(file).href;
    expect(await sources.resolve({ source })).toEqual({
      key: expect.stringMatching(/^[0-9a-f]{32}$/),
      commit: null,
      quantization: "Q8_0",
      files: [
        {
          name: "my m-Q8_0.gguf",
          sizeBytes: 4,
          sha256: null,
          gitBlob: null,
          etag: null,
          location: { type: "local", path: file },
        },
      ],
    });
  });

  it("may have no extension, as in Ollama's folder, and may be behind a link", async () => {
    const link = path.join(folder, "link");
    await symlink(await put("sha256-0123"), link);
    const sha256 = "a".repeat(64);
    const { files, quantization } = await sources.resolve({ source: link, sha256 });
    expect(files[0]).toMatchObject({ name: "link", sizeBytes: 4, sha256 });
    expect(quantization).toBeNull();
  });

  it("is refused if it is not a GGUF file", async () => {
    const source = await put("page.gguf", "<html>");
    await expect(sources.resolve({ source })).rejects.toMatchObject({
      code: "model_unusable",
      message: expect.stringContaining("page.gguf is not a GGUF file"),
    });
  });

  it("is resolved to another model key after it was modified, even if the spec has a digest", async () => {
    const source = await put("m.gguf");
    const wanted = { source, sha256: "a".repeat(64) };
    const { key } = await sources.resolve(wanted);
    expect((await sources.resolve(wanted)).key).toBe(key);
    await utimes(source, 1, 1);
    expect((await sources.resolve(wanted)).key).not.toBe(key);
  });

  it("is loaded together with the other parts if it is one part of a split model", async () => {
    await put("m-00001-of-00002.gguf");
    const source = await put("m-00002-of-00002.gguf");
    const { files } = await sources.resolve({ source });
    expect(files.map(({ name }) => name)).toEqual([
      "m-00001-of-00002.gguf",
      "m-00002-of-00002.gguf",
    ]);
  });
});

describe("a path is refused as a model", () => {
  it("if it names no existing file", async () => {
    const source = "/nowhere/m.gguf";
    expect(await sources.refusal({ source })).toMatchObject({
      code: "hub_not_found",
      message: "/nowhere/m.gguf: the file does not exist on this machine",
      cause: undefined,
    });
  });

  it("if it names a folder", async () => {
    await mkdir(path.join(folder, "m.gguf"));
    const source = path.join(folder, "m.gguf");
    expect(await sources.refusal({ source })).toMatchObject({
      code: "hub_not_found",
      message: `${source} is a folder`,
    });
  });

  it("if one of its folders is a file", async () => {
    const source = `${await put("m.gguf")}/n.gguf`;
    expect((await sources.refusal({ source })).code).toBe("hub_not_found");
  });

  it("if it names a split model with a missing part", async () => {
    const source = await put("m-00001-of-00002.gguf");
    expect((await sources.refusal({ source })).message).toBe(
      `${source}: part m-00002-of-00002.gguf: the file does not exist on this machine`,
    );
  });
});
