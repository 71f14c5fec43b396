import { rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { KnownModels } from "../../../../../src/assistant/inference/models/known-models.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

let folder: string;
beforeEach(() => {
  folder = temporaryFolder("known");
});

async function files(...names: string[]): Promise<void> {
  for (const name of names) await writeFile(join(folder, name), "");
}

function known(aliases: Record<string, string> = {}) {
  return new KnownModels({ folder, aliases: new Map(Object.entries(aliases)), sequences: 3 });
}

test("every model file of the folder is listed by its name, and a split model is listed once", async () => {
  await files("b.gguf", "a.Q4_K_M.gguf", "big-00001-of-00003.gguf", "big-00002-of-00003.gguf");
  await files("notes.txt", "c.gguf.part", ".hidden.gguf");
  const models = await known().list();
  expect(models.map(({ id }) => id)).toEqual(["a.Q4_K_M", "b", "big"]);
  expect(models.at(-1)?.path).toBe(join(folder, "big-00001-of-00003.gguf"));
  expect(models[0]).toMatchObject({ isPinned: false, sequences: 3, contextTokens: undefined });
});

test("added and removed model files are noticed at once", async () => {
  const models = known();
  expect(await models.list()).toEqual([]);
  await files("late.gguf");
  expect((await models.find("late")).id).toBe("late");
  await rm(join(folder, "late.gguf"));
  await expect(models.find("late")).rejects.toMatchObject({ code: "model_not_found" });
});

test("a missing model folder is treated as empty", async () => {
  const models = new KnownModels({ folder: join(folder, "none"), aliases: new Map() });
  expect(await models.list()).toEqual([]);
});

test("registered models come first, in their order, and hide a file of the same name", async () => {
  await files("a.gguf", "z.gguf");
  const models = known();
  await models.register({ id: "z", path: join(folder, "a.gguf"), isPinned: true, sequences: 1 });
  await models.register({ id: "org/name:q4", path: join(folder, "a.gguf"), isPinned: false });
  expect((await models.list()).map(({ id }) => id)).toEqual(["z", "org/name:q4", "a"]);
  expect(await models.find("z")).toMatchObject({
    path: join(folder, "a.gguf"),
    isPinned: true,
    sequences: 1,
  });
  models.unregister("z");
  expect(await models.find("z")).toMatchObject({ path: join(folder, "z.gguf"), isPinned: false });
});

test("an alias refers to its model, and the model lists its aliases", async () => {
  await files("a.gguf");
  const models = known({ "gpt-4o": "a", other: "nowhere" });
  expect(await models.find("gpt-4o")).toMatchObject({ id: "a", aliases: ["gpt-4o"] });
  await expect(models.find("other")).rejects.toMatchObject({ code: "model_not_found" });
});

test("the error for an unknown name lists the available models", async () => {
  await files(...Array.from({ length: 12 }, (_, index) => `m${index + 10}.gguf`));
  await expect(known().find("gpt-5")).rejects.toMatchObject({
    code: "model_not_found",
    param: "model",
    message:
      'there is no model "gpt-5". Available models: m10, m11, m12, m13, m14, m15, m16, m17, m18, m19 and 2 more',
  });
});

test.each(["", "../x", "/x", "x/", "a//b", "a b", "a:b:c", "x".repeat(256)])(
  "%j is refused as a model id",
  async (id) => {
    await expect(known().register({ id, path: "/nowhere", isPinned: false })).rejects.toMatchObject(
      { code: "invalid_request" },
    );
  },
);

test("the error for an alias without a model names the missing model", async () => {
  await files("a.gguf");
  await expect(known({ "gpt-4o": "b" }).find("gpt-4o")).rejects.toMatchObject({
    code: "model_not_found",
    message: '"gpt-4o" is an alias of the model "b", which does not exist. Available models: a',
  });
});

test("the modification time of a model changes when its file is replaced", async () => {
  await files("a.gguf");
  const models = known();
  await models.register({ id: "a", path: join(folder, "a.gguf"), isPinned: true });
  await utimes(join(folder, "a.gguf"), 1_000, 1_000);
  expect((await models.find("a")).modifiedMs).toBe(1_000_000);
  await utimes(join(folder, "a.gguf"), 2_000, 2_000);
  expect((await models.find("a")).modifiedMs).toBe(2_000_000);
});

test("a split model has the size of all its parts, and a registered model has its own number of sequences", async () => {
  await writeFile(join(folder, "big-00001-of-00002.gguf"), "12345");
  await writeFile(join(folder, "big-00002-of-00002.gguf"), "678");
  const models = known();
  expect(await models.find("big")).toMatchObject({
    sizeBytes: 8,
    sequences: 3,
    wanted: { contextTokens: undefined, sequences: undefined, chatTemplate: undefined },
  });
  await models.register({
    id: "own",
    path: join(folder, "missing.gguf"),
    isPinned: true,
    sequences: 2,
  });
  expect(await models.find("own")).toMatchObject({
    sizeBytes: undefined,
    sequences: 2,
    wanted: { contextTokens: undefined, sequences: 2, chatTemplate: undefined },
  });
});

test("an alias exists only as long as the registration that contains it", async () => {
  await files("a.gguf");
  const models = known({ "gpt-4o": "a" });
  const a = { id: "a", path: join(folder, "a.gguf"), isPinned: true };
  await models.register({ ...a, aliases: ["org/a", "org/a", "a", "gpt-4o"] });
  expect((await models.find("org/a")).aliases).toEqual(["gpt-4o", "org/a"]);
  await models.register({ ...a, aliases: ["org/b"] });
  expect((await models.find("org/b")).id).toBe("a");
  await expect(models.find("org/a")).rejects.toMatchObject({ code: "model_not_found" });
  models.unregister("a");
  await expect(models.find("org/b")).rejects.toMatchObject({ code: "model_not_found" });
  expect((await models.find("gpt-4o")).id).toBe("a");
});

describe("registering a model with a name of another model", () => {
  const file = { path: "/nowhere.gguf", isPinned: true };

  test.each([
    [{ id: "b", aliases: ["org/a"] }, '"org/a" is an alias of the model "a"'],
    [{ id: "b", aliases: ["a"] }, '"a" is the id of another model'],
    [{ id: "b", aliases: ["there"] }, '"there" is the id of another model'],
    [{ id: "b", aliases: ["gpt-4o"] }, '"gpt-4o" is an alias of the model "a"'],
    [{ id: "org/a" }, '"org/a" is an alias of the model "a"'],
    [{ id: "gpt-4o" }, '"gpt-4o" is an alias of the model "a"'],
    [{ id: "b", aliases: ["../x"] }, '"../x" is not a model id'],
  ])("is refused, and changes nothing: %j", async (model, message) => {
    await files("there.gguf");
    const models = known({ "gpt-4o": "a" });
    await models.register({ ...file, id: "a", aliases: ["org/a"] });
    const before = await models.list();
    await expect(models.register({ ...file, ...model })).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining(message),
    });
    expect(await models.list()).toEqual(before);
  });
});
