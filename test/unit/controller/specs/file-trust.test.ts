import { chmod, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { findFileAuthority } from "../../../../src/controller/specs/file-trust.ts";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

const mounting = (name: string, folder: string, image = "nginx") =>
  appText(name, image, `  volumes: [{ hostPath: ${folder}, path: /host }]\n`);
const reaching = (name: string, image = "nginx") => mounting(name, "/etc", image);

describe("a spec file", () => {
  let harness: SpecsHarness;
  beforeEach(() => {
    harness = new SpecsHarness();
  });
  afterEach(() => harness[Symbol.asyncDispose]());

  it("may mount a folder of the machine if only root and Berth's user can write it", async () => {
    await harness.write({ "web.yaml": reaching("web") });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toBe("applied");
  });

  it("that mounts a folder of the machine is refused while others can write the file; the error has the line of hostPath", async () => {
    await harness.write({ "web.yaml": reaching("web") });
    await chmod(join(harness.folder, "web.yaml"), 0o664);
    await harness.scan();
    const state = harness.fileState("web.yaml");
    expect(state).toContain("conflict");
    expect(state).toContain("6:15 spec.volumes[0].hostPath: mounting /etc of the machine needs");
    expect(state).toContain("chmod go-w");
    expect(harness.resourceNames).toEqual([]);
    await chmod(join(harness.folder, "web.yaml"), 0o644);
    await harness.scan();
    expect(harness.fileState("web.yaml")).toBe("applied");
  });

  it("is refused if others can write its folder, and the app keeps its earlier spec", async () => {
    await harness.write({ "team/web.yaml": reaching("web"), "other.yaml": appText("other") });
    await harness.scan();
    await chmod(join(harness.folder, "team"), 0o777);
    await harness.write({ "team/web.yaml": reaching("web", "evil") });
    await harness.scan();
    expect(harness.fileState("team/web.yaml")).toContain('app "web" mounts /etc of the machine');
    expect(harness.image("web")).toBe("nginx");
    await harness.write({ "team/web.yaml": appText("plain") });
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/other", "App/plain"]);
  });

  it("from a repository may not mount a folder, and may not name a local source", async () => {
    await harness.write({
      "repo/.berth-git.json": "{}",
      "repo/web.yaml": reaching("web"),
      "repo/built.yaml": appText("built").replace("image: nginx", "source: { local: /etc }"),
      "repo/model.yaml":
        "apiVersion: berth.dev/v1\nkind: Model\nmetadata: { name: m }\nspec: { source: /etc/shadow }\n",
      "repo/plain.yaml": appText("plain"),
    });
    await symlink("repo/web.yaml", join(harness.folder, "linked.yaml"));
    await harness.scan();
    expect(harness.fileState("repo/web.yaml")).toContain("move the file from the repository");
    expect(harness.fileState("linked.yaml")).toContain("move the file from the repository");
    expect(harness.fileState("repo/built.yaml")).toContain("spec.source.local: building a folder");
    expect(harness.fileState("repo/model.yaml")).toContain("spec.source: naming a file");
    expect(harness.fileState("repo/plain.yaml")).toBe("applied");
  });

  it("whose folder becomes a git repository keeps its app with a mounted folder, but cannot change that app", async () => {
    await harness.write({ "repo/web.yaml": reaching("web") });
    await harness.scan();
    await harness.write({ "repo/.berth-git.json": "{}" });
    await harness.restart();
    await harness.scan();
    expect(harness.fileState("repo/web.yaml")).toBe("applied");
    await harness.write({ "repo/web.yaml": reaching("web", "evil") });
    await harness.scan();
    expect(harness.fileState("repo/web.yaml")).toContain("spec.image");
    expect(harness.image("web")).toBe("nginx");
  });
});

it("a spec file with two apps is not applied at all if one may not mount its folder because of the other", async () => {
  const allowed = await realpath(await mkdtemp(join(tmpdir(), "berth-allowed-")));
  onTestFinished(() => rm(allowed, { recursive: true }));
  await mkdir(join(allowed, "sub"));
  await using harness = new SpecsHarness(undefined, { hostPaths: { allowed: [allowed] } });
  await harness.write({
    "both.yaml": joinDocuments(mounting("outer", allowed), mounting("inner", join(allowed, "sub"))),
  });
  await chmod(join(harness.folder, "both.yaml"), 0o664);
  await harness.scan();
  expect(harness.fileState("both.yaml")).toMatch(/^conflict\n13:15 .*can write to/);
  expect(harness.resourceNames).toEqual([]);
});

describe("findFileAuthority", () => {
  let root: string;
  let folder: string;
  beforeEach(async () => {
    root = await realpath(await mkdtemp(join(tmpdir(), "berth-trust-")));
    folder = join(root, "specs");
    await mkdir(folder);
    await writeFile(join(folder, "a.yaml"), "");
  });
  afterEach(() => rm(root, { recursive: true }));

  const scope = (file: string, trust: "folder" | "all" | "none" = "folder", userId?: number) =>
    findFileAuthority(file, { folder, trust, ...(userId === undefined ? {} : { userId }) }).scope;

  it("follows the setting specs_trust", () => {
    expect(scope("a.yaml", "folder")).toBe("admin");
    expect(scope("a.yaml", "all")).toBe("admin");
    expect(scope("a.yaml", "none")).toBe("write");
  });

  it("does not trust any file if others can write to a folder that contains the specs folder", async () => {
    await chmod(root, 0o770);
    expect(scope("a.yaml")).toBe("write");
    expect(scope("a.yaml", "all")).toBe("admin");
  });

  it("does not trust a file that another user owns", () => {
    const own = process.getuid?.() ?? 0;
    expect(scope("a.yaml", "folder", own + 1)).toBe(own === 0 ? "admin" : "write");
  });

  it("does not trust a file behind a link in a folder that others can write to", async () => {
    await mkdir(join(root, "open"));
    await symlink(join(folder, "a.yaml"), join(root, "open/hop.yaml"));
    await symlink(join(root, "open/hop.yaml"), join(folder, "b.yaml"));
    expect(scope("b.yaml")).toBe("admin");
    await chmod(join(root, "open"), 0o777);
    expect(scope("b.yaml")).toBe("write");
  });

  it("does not trust a missing file, or links that lead in a circle", async () => {
    await symlink("loop.yaml", join(folder, "loop.yaml"));
    expect([scope("absent.yaml"), scope("loop.yaml")]).toEqual(["write", "write"]);
  });
});
