import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

let world: SpecsHarness;
beforeEach(() => {
  world = new SpecsHarness();
});
afterEach(() => world[Symbol.asyncDispose]());

function deleteByForce(name: string): void {
  world.store.delete("App", name, { actor: { name: "user:admin" }, manager: "api", force: true });
}

describe("what files say", () => {
  it("is applied, of every kind and from every folder", async () => {
    await world.write({
      "web.yaml": appText("web"),
      "team/db.yml": appText("db", "postgres"),
      "all.json": JSON.stringify({
        apiVersion: "berth.dev/v1",
        kind: "Secret",
        metadata: { name: "token" },
        spec: { data: { key: "hunter2" } },
      }),
      "notes.txt": "not a spec",
    });
    await world.scan();
    expect(world.resourceNames).toEqual(["App/db", "App/web", "Secret/token"]);
    expect(world.declaringManager("db")).toBe("file:team/db.yml");
    expect(world.store.secrets.reveal("token")).toEqual({ key: "hunter2" });
    const report = world.specs.report();
    expect(report).toMatchObject({ state: "watching", message: null, pendingPrune: [] });
    expect(report.files.map(({ file, state }) => [file, state])).toEqual([
      ["all.json", "applied"],
      ["team/db.yml", "applied"],
      ["web.yaml", "applied"],
    ]);
    expect(report.files[2]?.contentHash).toMatch(/^[0-9a-f]{64}$/);
    expect(world.eventsOf("SpecApplied")).toContain("SpecApplied web: created from web.yaml");
    expect(world.events.join("\n")).not.toContain("hunter2");
  });

  it("is followed when it changes, with labels and annotations", async () => {
    await world.write({ "web.yaml": appText("web", "nginx:1") });
    await world.scan();
    const before = world.app("web");
    await world.write({
      "web.yaml": appText("web", "nginx:2").replace(
        "{ name: web }",
        "{ name: web, labels: { team: a } }",
      ),
    });
    await world.scan();
    expect(world.image("web")).toBe("nginx:2");
    expect(world.app("web").metadata.labels).toEqual({ team: "a" });
    expect(world.app("web").metadata.uid).toBe(before.metadata.uid);
    expect(world.eventsOf("SpecApplied").at(-1)).toBe(
      "SpecApplied web: changed by web.yaml: metadata.labels.team, spec.image",
    );
  });

  it("is not written again when nothing changed, nor by a restart", async () => {
    await world.write({ "web.yaml": appText("web"), "db.yaml": appText("db") });
    await world.scan();
    const sequence = world.store.lastSequence;
    await world.scan();
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    await world.restart();
    await world.scan();
    expect(world.store.lastSequence).toBe(sequence);
    expect(world.fileState("web.yaml")).toBe("applied");
  });

  it("is followed through a linked file, and through links in folders", async () => {
    await world.write({
      "../elsewhere/web.yaml": appText("web"),
      "../more/db.yaml": appText("db"),
      "x.yaml": appText("x"),
    });
    await symlink("../elsewhere/web.yaml", join(world.folder, "link.yaml"));
    await symlink("../more", join(world.folder, "more"));
    await symlink("..", join(world.root, "more/loop"));
    await world.scan();
    expect(world.resourceNames).toEqual(["App/db", "App/web", "App/x"]);
    await world.write({ "../elsewhere/web.yaml": appText("web", "nginx:2") });
    await world.scan();
    expect(world.image("web")).toBe("nginx:2");
  });

  it("leaves fields of others alone", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    world.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { running: false },
    });
    await world.write({ "web.yaml": appText("web", "nginx:2") });
    await world.scan();
    expect(world.app("web").spec).toMatchObject({ image: "nginx:2", running: false });
  });

  it("says which fields stay with whoever took them with force", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    world.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { image: "mine" },
      force: true,
    });
    await world.restart();
    await world.scan();
    expect(world.image("web")).toBe("mine");
    expect(world.specs.report().files[0]?.resources).toEqual([
      { kind: "App", name: "web", yielded: ["/spec/image"] },
    ]);
    await world.write({ "web.yaml": appText("web", "nginx:3") });
    await world.scan();
    expect(world.image("web")).toBe("nginx:3");
  });
});

describe("a file that is not valid", () => {
  it("changes nothing, and is reported with its place", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    await world.write({ "web.yaml": appText("web", "nginx:2", "  prot: 80\n") });
    await world.scanTwice();
    expect(world.image("web")).toBe("nginx");
    expect(world.fileState("web.yaml")).toBe(
      'invalid\n6:3 spec.prot: unknown key "prot"; did you mean "port"?',
    );
    expect(world.specs.report().files[0]?.resources).toMatchObject([{ kind: "App", name: "web" }]);
    expect(world.eventsOf("SpecInvalid")).toEqual([
      'SpecInvalid : web.yaml:6:3: spec.prot: unknown key "prot"; did you mean "port"?',
    ]);
    await world.write({ "web.yaml": appText("web", "nginx:2", "  port: 80\n") });
    await world.scan();
    expect(world.fileState("web.yaml")).toBe("applied");
    expect(world.image("web")).toBe("nginx:2");
  });

  it("goes on declaring what it declared, across restarts", async () => {
    await world.write({ "web.yaml": appText("web"), "db.yaml": appText("db") });
    await world.scan();
    await world.write({ "web.yaml": "half: {" });
    await world.scanTwice();
    await world.restart();
    await world.scanTwice();
    await world.scanTwice();
    expect(world.resourceNames).toEqual(["App/db", "App/web"]);
    expect(world.pending).toEqual([]);
    expect(world.declaringManager("web")).toBe("file:web.yaml");
  });

  it("applies none of its documents where one is wrong", async () => {
    await world.write({ "both.yaml": joinDocuments(appText("good"), appText("bad", "Nginx")) });
    await world.scan();
    expect(world.resourceNames).toEqual([]);
    await world.write({ "both.yaml": joinDocuments(appText("good"), appText("bad", "nginx")) });
    await world.scan();
    expect(world.resourceNames).toEqual(["App/bad", "App/good"]);
  });

  it("applies none of its documents where the store refuses one", async () => {
    await world.write({ "first.yaml": appText("taken", "nginx:1") });
    await world.scan();
    await world.write({
      "second.yaml": joinDocuments(appText("new"), appText("taken", "nginx:2")),
    });
    await world.scan();
    expect(world.resourceNames).toEqual(["App/taken"]);
    expect(world.fileState("second.yaml")).toMatch(
      /^conflict\n9:13 App taken is declared by the file first\.yaml already/,
    );
  });

  it("is refused where the whole of all managers is not valid, at its own line", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    world.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { replicas: 3 },
    });
    const text = appText("web", "nginx", "  ports: [{ host: 1, container: 1 }]\n");
    await world.write({ "web.yaml": text });
    await world.scan();
    expect(world.fileState("web.yaml")).toMatch(/^invalid\n6:3 spec\.ports: a port of the machine/);
    world.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { replicas: 1 },
    });
    await world.scan();
    expect(world.fileState("web.yaml")).toBe("applied");
  });

  it.each<[string, string | Uint8Array, RegExp]>([
    [
      "not UTF-8",
      Buffer.from(`${appText("web")}# caf\xe9`, "latin1"),
      /^invalid\n6:6 not UTF-8 text$/,
    ],
    [
      "a key twice",
      appText("web", "a", "  image: b\n"),
      /^invalid\n6:3 the key "image" occurs twice$/,
    ],
    [
      "a YAML bomb",
      `a: &a [1]\n${Array.from({ length: 1001 }, () => "- *a").join("\n")}`,
      /^invalid\n/,
    ],
    ["too large", "#".repeat(2_000_000), /^invalid\n1:1 larger than 1 MiB/],
    ["binary", new Uint8Array([0, 1, 2, 255]), /^invalid\n1:4 not UTF-8 text$/],
  ])("is told from a good one: %s", async (_what, content, expected) => {
    await world.write({ "good.yaml": appText("good") });
    await world.write({ "web.yaml": content });
    await world.scan();
    expect(world.fileState("web.yaml")).toMatch(expected);
    expect(world.resourceNames).toEqual(["App/good"]);
  });

  it("may be a link to nothing, which is back when its target is", async () => {
    await world.write({ "../real.yaml": appText("web"), "other.yaml": appText("other") });
    await symlink("../real.yaml", join(world.folder, "web.yaml"));
    await world.scan();
    await world.move("../real.yaml", "../away.yaml");
    await world.scanTwice();
    expect(world.fileState("web.yaml")).toBe("invalid\n1:1 a link to nothing");
    expect(world.resourceNames).toEqual(["App/other", "App/web"]);
    await world.move("../away.yaml", "../real.yaml");
    await world.scan();
    expect(world.fileState("web.yaml")).toBe("applied");
  });

  it("is news once, not with each look", async () => {
    await world.write({ "a.yaml": appText("a"), "b.yaml": appText("a") });
    for (let look = 0; look < 5; look += 1) {
      await world.scan();
      await world.wait(700_000);
    }
    expect(world.eventsOf("SpecConflict")).toHaveLength(1);
  });
});

describe("two files that declare one resource", () => {
  it("are told apart by who was first, and the second takes over when the first goes", async () => {
    await world.write({ "b.yaml": appText("web", "from-b") });
    await world.scan();
    await world.write({ "a.yaml": appText("web", "from-a") });
    await world.scanTwice();
    expect(world.image("web")).toBe("from-b");
    expect(world.fileState("a.yaml")).toMatch(
      /^conflict\n3:13 App web is declared by the file b\.yaml/,
    );
    const { uid } = world.app("web").metadata;

    await world.remove("b.yaml");
    await world.scan();
    expect(world.image("web")).toBe("from-b");
    await world.wait(1000);
    await world.scan();
    expect(world.image("web")).toBe("from-a");
    expect(world.declaringManager("web")).toBe("file:a.yaml");
    expect(world.app("web").metadata.uid).toBe(uid);
    expect(world.fileState("a.yaml")).toBe("applied");
    expect(world.eventsOf("Pruned")).toEqual([]);
  });

  it("do not change places because the first one is saved by unlinking it", async () => {
    await world.write({ "a.yaml": appText("web", "from-a") });
    await world.scan();
    await world.write({ "b.yaml": appText("web", "from-b") });
    await world.scan();
    await world.remove("a.yaml");
    await world.scan();
    await world.write({ "a.yaml": appText("web", "from-a:2") });
    await world.scan();
    expect(world.image("web")).toBe("from-a:2");
    expect(world.fileState("b.yaml")).toMatch(/^conflict/);
  });

  it("in one look: the first by name wins", async () => {
    await world.write({ "b.yaml": appText("web", "from-b"), "a.yaml": appText("web", "from-a") });
    await world.scan();
    expect(world.image("web")).toBe("from-a");
  });
});

describe("a resource that is deleted although a file declares it", () => {
  it("stays away until the file says something new, across restarts", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    deleteByForce("web");
    await world.scan();
    world.finishDeletion("web");
    await world.scanTwice();
    await world.restart();
    await world.scanTwice();
    expect(world.resourceNames).toEqual([]);
    expect(world.specs.report().files[0]?.resources).toEqual([
      { kind: "App", name: "web", yielded: [""] },
    ]);
    await world.write({ "web.yaml": appText("web", "nginx:2") });
    await world.scan();
    expect(world.image("web")).toBe("nginx:2");
  });

  it("comes back when it is gone, if the file changed while it was going", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    deleteByForce("web");
    await world.write({ "web.yaml": appText("web", "nginx:2") });
    await world.scan();
    expect(world.fileState("web.yaml")).toMatch(/^conflict\n3:13 App web is being deleted/);
    world.finishDeletion("web");
    await world.scan();
    expect(world.resourceNames).toEqual(["App/web"]);
    expect(world.image("web")).toBe("nginx:2");
  });
});

describe("a store that lost something", () => {
  it("gets it again from the file", async () => {
    await world.write({ "web.yaml": appText("web") });
    await world.scan();
    world.store.releaseManager("App", "web", "file:web.yaml");
    expect(world.declaringManager("web")).toBeUndefined();
    await world.scan();
    expect(world.declaringManager("web")).toBe("file:web.yaml");
  });
});
