import { rmSync, writeFileSync } from "node:fs";
import { mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { isEditorNoise, isSpecFileName } from "../../../../src/controller/specs/file-names.ts";
import { type PresentFolder, scanFolder } from "../../../../src/controller/specs/scan-folder.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let root: string;
let folder: string;
const signal = new AbortController().signal;

beforeEach(async () => {
  root = temporaryFolder("scan");
  folder = join(root, "specs");
  await mkdir(folder);
});

async function present(path = folder): Promise<PresentFolder> {
  const scan = await scanFolder(path, signal);
  if (scan.state !== "present") throw new Error(`the folder is ${scan.state}: ${scan.message}`);
  return scan;
}

const paths = async (path = folder) => [...(await present(path)).files.keys()];

const stampOf = async (path: string) => (await present()).files.get(path)?.stamp;

describe("the names of spec files", () => {
  it.each(["a.yaml", "a.yml", "a.json", "A-b_c.d.yaml"])("include %s", (name) => {
    expect(isSpecFileName(name)).toBe(true);
  });
  it.each([
    "a.txt",
    "a.yaml~",
    ".a.yaml",
    ".a.yaml.swp",
    "#a.yaml#",
    ".#a.yaml",
    "4913",
    "a.yaml.tmp",
    "yaml",
    "~a.yaml",
    "#a.yaml",
  ])("exclude %s", (name) => {
    expect(isSpecFileName(name)).toBe(false);
  });
  it.each(["4913", "a.yaml~", ".a.yaml.swp", "#a.yaml#", ".#a.yaml"])(
    "treat %s as a temporary file",
    (name) => {
      expect(isEditorNoise(name)).toBe(true);
    },
  );
});

describe("scanFolder", () => {
  it("finds spec files in all folders, in order, without hidden ones", async () => {
    await mkdir(join(folder, "team/deep"), { recursive: true });
    await mkdir(join(folder, ".git"));
    for (const path of [
      "b.yaml",
      "a.json",
      "team/c.yml",
      "team/deep/d.yaml",
      ".git/e.yaml",
      ".hidden.yaml",
      "README.md",
      "x.yaml~",
    ]) {
      await writeFile(join(folder, path), "");
    }
    expect(await paths()).toEqual(["a.json", "b.yaml", "team/c.yml", "team/deep/d.yaml"]);
  });

  it("follows links to files and folders, and stops at loops", async () => {
    await mkdir(join(root, "other/inner"), { recursive: true });
    await writeFile(join(root, "other/inner/x.yaml"), "");
    await symlink(join(root, "other"), join(folder, "linked"));
    await symlink(folder, join(root, "other/inner/back"));
    await symlink(join(root, "other/inner/x.yaml"), join(folder, "file.yaml"));
    expect(await paths()).toEqual(["file.yaml", "linked/inner/x.yaml"]);
  });

  it("reads the folder of a Kubernetes config map through its links", async () => {
    await mkdir(join(folder, "..2030_1"));
    await writeFile(join(folder, "..2030_1/a.yaml"), "");
    await symlink("..2030_1", join(folder, "..data"));
    await symlink("..data/a.yaml", join(folder, "a.yaml"));
    expect(await paths()).toEqual(["a.yaml"]);
  });

  it("returns the real path of a linked folder", async () => {
    await symlink(folder, join(root, "current"));
    const scan = await present(join(root, "current"));
    expect(scan.realpath).toBe((await present()).realpath);
  });

  it("distinguishes a folder from another one that was created in its place", async () => {
    const before = await present();
    await writeFile(join(folder, "a.yaml"), "");
    expect((await present()).identity).toBe(before.identity);
    rmSync(folder, { recursive: true });
    await mkdir(folder);
    expect((await present()).identity).not.toBe(before.identity);
  });

  it("returns a stamp for each file, which changes when the file is written or replaced", async () => {
    const file = join(folder, "a.yaml");
    await writeFile(file, "one");
    const first = await stampOf("a.yaml");
    expect(await stampOf("a.yaml")).toBe(first);
    await writeFile(file, "two, longer");
    const second = await stampOf("a.yaml");
    expect(second).not.toBe(first);
    await writeFile(join(folder, "new"), "two, longer");
    await rename(join(folder, "new"), file);
    expect(await stampOf("a.yaml")).not.toBe(second);
  });

  it("returns a dangling link as a file with a problem, and a link to itself as a path with unknown content", async () => {
    await symlink(join(root, "nothing"), join(folder, "gone.yaml"));
    await symlink("loop", join(folder, "loop"));
    const scan = await present();
    expect(scan.files.get("gone.yaml")?.problem).toBe("a link without a target");
    expect([...scan.unknown]).toEqual([["loop", "the links on the path form a circle"]]);
  });

  it("follows no link to a folder that contains the specs folder, and no link to a folder with very many files", async () => {
    const large = join(root, "large");
    await mkdir(join(large, "sub"), { recursive: true });
    const names = Array.from({ length: 10_001 }, (_, index) => join(large, "sub", `${index}`));
    for (const name of names) writeFileSync(name, "");
    await writeFile(join(large, "l.yaml"), "");
    await writeFile(join(folder, "a.yaml"), "");
    await symlink("/", join(folder, "disk"));
    await symlink(root, join(folder, "parent"));
    await symlink(large, join(folder, "large"));
    await symlink(join(root, "large"), join(folder, "z"));
    const scan = await present();
    expect([...scan.files.keys()]).toEqual(["a.yaml"]);
    expect([...scan.folders.keys()]).toEqual([""]);
    expect(Object.fromEntries(scan.unknown)).toEqual({
      disk: "a link to a folder that contains the link itself",
      parent: "a link to a folder that contains the link itself",
      large: "a link to a folder with more than 10000 files and folders",
    });
  });

  it("limits the depth of nested folders", async () => {
    const deep = Array.from({ length: 40 }, () => "d").join("/");
    await mkdir(join(folder, deep), { recursive: true });
    await writeFile(join(folder, deep, "a.yaml"), "");
    const scan = await present();
    expect([...scan.files.keys()]).toEqual([]);
    expect([...scan.unknown.values()]).toEqual(["nested deeper than 32 folders"]);
  });

  it("distinguishes a missing folder from an unreadable one", async () => {
    expect(await scanFolder(join(root, "nowhere"), signal)).toEqual({
      state: "missing",
      message: "there is no such folder",
    });
    await writeFile(join(root, "file"), "");
    expect(await scanFolder(join(root, "file"), signal)).toMatchObject({ state: "missing" });
    await symlink("circle", join(root, "circle"));
    expect(await scanFolder(join(root, "circle"), signal)).toEqual({
      state: "unreadable",
      message: "the links on the path form a circle",
    });
  });

  it("ends when it is aborted", async () => {
    await expect(scanFolder(folder, AbortSignal.abort())).rejects.toThrow(/abort/i);
  });
});
