import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appText, joinDocuments, SpecsHarness } from "../../../support/specs-harness.ts";

let harness: SpecsHarness;
beforeEach(() => {
  harness = new SpecsHarness();
});
afterEach(() => harness[Symbol.asyncDispose]());

function deleteByForce(name: string): void {
  harness.store.delete("App", name, { actor: { name: "user:admin" }, manager: "api", force: true });
}

describe("the content of spec files", () => {
  it("is applied for resources of every kind, from all folders below the specs folder", async () => {
    await harness.write({
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
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/db", "App/web", "Secret/token"]);
    expect(harness.declaringManager("db")).toBe("file:team/db.yml");
    expect(harness.store.secrets.reveal("token")).toEqual({ key: "hunter2" });
    const report = harness.specs.report();
    expect(report).toMatchObject({ state: "watching", message: null, pendingPrune: [] });
    expect(report.files.map(({ file, state }) => [file, state])).toEqual([
      ["all.json", "applied"],
      ["team/db.yml", "applied"],
      ["web.yaml", "applied"],
    ]);
    expect(report.files[2]?.contentHash).toMatch(/^[0-9a-f]{64}$/);
    expect(harness.eventsOf("SpecApplied")).toContain("SpecApplied web: created from web.yaml");
    expect(harness.events.join("\n")).not.toContain("hunter2");
  });

  it("is applied again when it changes, with labels and annotations", async () => {
    await harness.write({ "web.yaml": appText("web", "nginx:1") });
    await harness.scan();
    const before = harness.app("web");
    await harness.write({
      "web.yaml": appText("web", "nginx:2").replace(
        "{ name: web }",
        "{ name: web, labels: { team: a } }",
      ),
    });
    await harness.scan();
    expect(harness.image("web")).toBe("nginx:2");
    expect(harness.app("web").metadata.labels).toEqual({ team: "a" });
    expect(harness.app("web").metadata.uid).toBe(before.metadata.uid);
    expect(harness.eventsOf("SpecApplied").at(-1)).toBe(
      "SpecApplied web: changed by web.yaml: metadata.labels.team, spec.image",
    );
  });

  it("is not written to the store again if it is unchanged, not even after a restart", async () => {
    await harness.write({ "web.yaml": appText("web"), "db.yaml": appText("db") });
    await harness.scan();
    const sequence = harness.store.lastSequence;
    await harness.scan();
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    await harness.restart();
    await harness.scan();
    expect(harness.store.lastSequence).toBe(sequence);
    expect(harness.fileState("web.yaml")).toBe("applied");
  });

  it("is applied through a linked file, and through links in linked folders", async () => {
    await harness.write({
      "../elsewhere/web.yaml": appText("web"),
      "../more/db.yaml": appText("db"),
      "x.yaml": appText("x"),
    });
    await symlink("../elsewhere/web.yaml", join(harness.folder, "link.yaml"));
    await symlink("../more", join(harness.folder, "more"));
    await symlink("..", join(harness.root, "more/loop"));
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/db", "App/web", "App/x"]);
    await harness.write({ "../elsewhere/web.yaml": appText("web", "nginx:2") });
    await harness.scan();
    expect(harness.image("web")).toBe("nginx:2");
  });

  it("does not change fields of other managers", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    harness.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { running: false },
    });
    await harness.write({ "web.yaml": appText("web", "nginx:2") });
    await harness.scan();
    expect(harness.app("web").spec).toMatchObject({ image: "nginx:2", running: false });
  });

  it("is reported with the fields that another manager has overridden with force", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    harness.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { image: "mine" },
      force: true,
    });
    await harness.restart();
    await harness.scan();
    expect(harness.image("web")).toBe("mine");
    expect(harness.specs.report().files[0]?.resources).toEqual([
      { kind: "App", name: "web", yielded: ["/spec/image"] },
    ]);
    await harness.write({ "web.yaml": appText("web", "nginx:3") });
    await harness.scan();
    expect(harness.image("web")).toBe("nginx:3");
  });
});

describe("a spec file that is invalid or refused", () => {
  it("changes nothing, and is reported with its position", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    await harness.write({ "web.yaml": appText("web", "nginx:2", "  prot: 80\n") });
    await harness.scanTwice();
    expect(harness.image("web")).toBe("nginx");
    expect(harness.fileState("web.yaml")).toBe(
      'invalid\n6:3 spec.prot: unknown key "prot"; did you mean "port"?',
    );
    expect(harness.specs.report().files[0]?.resources).toMatchObject([
      { kind: "App", name: "web" },
    ]);
    expect(harness.eventsOf("SpecInvalid")).toEqual([
      'SpecInvalid : web.yaml:6:3: spec.prot: unknown key "prot"; did you mean "port"?',
    ]);
    await harness.write({ "web.yaml": appText("web", "nginx:2", "  port: 80\n") });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toBe("applied");
    expect(harness.image("web")).toBe("nginx:2");
  });

  it("still declares its earlier resources, even after restarts", async () => {
    await harness.write({ "web.yaml": appText("web"), "db.yaml": appText("db") });
    await harness.scan();
    await harness.write({ "web.yaml": "half: {" });
    await harness.scanTwice();
    await harness.restart();
    await harness.scanTwice();
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual(["App/db", "App/web"]);
    expect(harness.pending).toEqual([]);
    expect(harness.declaringManager("web")).toBe("file:web.yaml");
  });

  it("changes nothing if one of its documents is invalid", async () => {
    await harness.write({ "both.yaml": joinDocuments(appText("good"), appText("bad", "Nginx")) });
    await harness.scan();
    expect(harness.resourceNames).toEqual([]);
    await harness.write({ "both.yaml": joinDocuments(appText("good"), appText("bad", "nginx")) });
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/bad", "App/good"]);
  });

  it("changes nothing if the store refuses one of its documents", async () => {
    await harness.write({ "first.yaml": appText("taken", "nginx:1") });
    await harness.scan();
    await harness.write({
      "second.yaml": joinDocuments(appText("new"), appText("taken", "nginx:2")),
    });
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/taken"]);
    expect(harness.fileState("second.yaml")).toMatch(
      /^conflict\n9:13 App taken is declared by the file first\.yaml already/,
    );
  });

  it("is reported with the line of the field that conflicts with a field of another manager", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    harness.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { replicas: 3 },
    });
    const text = appText("web", "nginx", "  ports: [{ host: 1, container: 1 }]\n");
    await harness.write({ "web.yaml": text });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toMatch(
      /^invalid\n6:3 spec\.ports: a port of the machine/,
    );
    harness.store.apply({
      kind: "App",
      name: "web",
      manager: "api",
      actor: { name: "user:admin" },
      mode: "merge",
      spec: { replicas: 1 },
    });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toBe("applied");
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
  ])("is reported as invalid: %s", async (_what, content, expected) => {
    await harness.write({ "good.yaml": appText("good") });
    await harness.write({ "web.yaml": content });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toMatch(expected);
    expect(harness.resourceNames).toEqual(["App/good"]);
  });

  it("can be a dangling link: its content is applied again when the target of the link is back", async () => {
    await harness.write({ "../real.yaml": appText("web"), "other.yaml": appText("other") });
    await symlink("../real.yaml", join(harness.folder, "web.yaml"));
    await harness.scan();
    await harness.move("../real.yaml", "../away.yaml");
    await harness.scanTwice();
    expect(harness.fileState("web.yaml")).toBe("invalid\n1:1 a link without a target");
    expect(harness.resourceNames).toEqual(["App/other", "App/web"]);
    await harness.move("../away.yaml", "../real.yaml");
    await harness.scan();
    expect(harness.fileState("web.yaml")).toBe("applied");
  });

  it("is reported once, and not at every scan", async () => {
    await harness.write({ "a.yaml": appText("a"), "b.yaml": appText("a") });
    for (let look = 0; look < 5; look += 1) {
      await harness.scan();
      await harness.wait(700_000);
    }
    expect(harness.eventsOf("SpecConflict")).toHaveLength(1);
  });
});

describe("two spec files that declare the same resource", () => {
  it("leave the resource to the first file; the second file takes over when the first is deleted", async () => {
    await harness.write({ "b.yaml": appText("web", "from-b") });
    await harness.scan();
    await harness.write({ "a.yaml": appText("web", "from-a") });
    await harness.scanTwice();
    expect(harness.image("web")).toBe("from-b");
    expect(harness.fileState("a.yaml")).toMatch(
      /^conflict\n3:13 App web is declared by the file b\.yaml/,
    );
    const { uid } = harness.app("web").metadata;

    await harness.remove("b.yaml");
    await harness.scan();
    expect(harness.image("web")).toBe("from-b");
    await harness.wait(1000);
    await harness.scan();
    expect(harness.image("web")).toBe("from-a");
    expect(harness.declaringManager("web")).toBe("file:a.yaml");
    expect(harness.app("web").metadata.uid).toBe(uid);
    expect(harness.fileState("a.yaml")).toBe("applied");
    expect(harness.eventsOf("Pruned")).toEqual([]);
  });

  it("leave the resource to the first file even if an editor saves that file by deleting and writing it", async () => {
    await harness.write({ "a.yaml": appText("web", "from-a") });
    await harness.scan();
    await harness.write({ "b.yaml": appText("web", "from-b") });
    await harness.scan();
    await harness.remove("a.yaml");
    await harness.scan();
    await harness.write({ "a.yaml": appText("web", "from-a:2") });
    await harness.scan();
    expect(harness.image("web")).toBe("from-a:2");
    expect(harness.fileState("b.yaml")).toMatch(/^conflict/);
  });

  it("are ordered by file name if they appear in the same scan", async () => {
    await harness.write({ "b.yaml": appText("web", "from-b"), "a.yaml": appText("web", "from-a") });
    await harness.scan();
    expect(harness.image("web")).toBe("from-a");
  });
});

describe("a resource that is deleted although a file declares it", () => {
  it("stays deleted until the text of the file changes, across restarts", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    deleteByForce("web");
    await harness.scan();
    harness.finishDeletion("web");
    await harness.scanTwice();
    await harness.restart();
    await harness.scanTwice();
    expect(harness.resourceNames).toEqual([]);
    expect(harness.specs.report().files[0]?.resources).toEqual([
      { kind: "App", name: "web", yielded: [""] },
    ]);
    await harness.write({ "web.yaml": appText("web", "nginx:2") });
    await harness.scan();
    expect(harness.image("web")).toBe("nginx:2");
  });

  it("is created again after the deletion if the file has changed meanwhile", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    deleteByForce("web");
    await harness.write({ "web.yaml": appText("web", "nginx:2") });
    await harness.scan();
    expect(harness.fileState("web.yaml")).toMatch(/^conflict\n3:13 App web is being deleted/);
    harness.finishDeletion("web");
    await harness.scan();
    expect(harness.resourceNames).toEqual(["App/web"]);
    expect(harness.image("web")).toBe("nginx:2");
  });
});

describe("a store that has lost a resource", () => {
  it("gets the resource again from the file", async () => {
    await harness.write({ "web.yaml": appText("web") });
    await harness.scan();
    harness.store.releaseManager("App", "web", "file:web.yaml");
    expect(harness.declaringManager("web")).toBeUndefined();
    await harness.scan();
    expect(harness.declaringManager("web")).toBe("file:web.yaml");
  });
});

const port = (domain: string) => `  port: 80\n  domain: ${domain}\n`;
const needs = (...apps: string[]) => `  dependsOn: [${apps.join(", ")}]\n`;
const claim = "shop.example.org";
const options = (field: string) => appText("two", "nginx:2", `  port: 80\n  ingress:\n${field}`);

describe("an app that conflicts with other apps", () => {
  it("is refused at the line of the domain if an earlier file has the domain, and applied once the domain is free", async () => {
    await harness.write({
      "a.yaml": appText("one", "nginx", port(claim)),
      "b.yaml": appText("two", "nginx", port(claim)),
    });
    await harness.scan();
    expect(harness.fileState("a.yaml")).toBe("applied");
    expect(harness.fileState("b.yaml")).toBe(
      'conflict\n7:3 shop.example.org belongs to the app "one" already (choose another domain or ingress.pathPrefix, or remove the domain from the spec of "one" first)',
    );
    expect(harness.resourceNames).toEqual(["App/one"]);
    expect(harness.eventsOf("SpecConflict")).toHaveLength(1);

    await harness.write({ "a.yaml": appText("one", "nginx", port("other.example.org")) });
    await harness.scan();
    expect(harness.fileState("b.yaml")).toBe("applied");
    expect(harness.resourceNames).toEqual(["App/one", "App/two"]);
  });

  it("is refused if ingress.domains or ingress.redirects has the domain of another app, and its last valid spec stays applied", async () => {
    await harness.write({ "a.yaml": appText("one", "nginx", port(claim)) });
    await harness.write({ "b.yaml": appText("two") });
    await harness.scan();
    await harness.write({ "b.yaml": options(`    domains: [free.example.org, ${claim}]\n`) });
    await harness.scan();
    expect(harness.fileState("b.yaml")).toContain("conflict\n8:33 ");
    await harness.write({ "b.yaml": options(`    redirects:\n      - { from: ${claim} }\n`) });
    await harness.scan();
    expect(harness.fileState("b.yaml")).toContain("conflict\n9:11 ");
    expect(harness.image("two")).toBe("nginx");
  });

  it("is refused at the line of a port on which Berth itself listens", async () => {
    const ports =
      "  ports:\n    - { host: 9000, container: 80 }\n    - { host: 7776, container: 80 }\n";
    await harness.write({ "a.yaml": appText("one", "nginx", ports) });
    await harness.scan();
    expect(harness.fileState("a.yaml")).toBe(
      "conflict\n8:9 port 7776 of the machine belongs to Berth's API (choose another port for spec.ports[1].host)",
    );
    expect(harness.resourceNames).toEqual([]);
  });

  it("is refused if it would depend on itself, in one file or across files", async () => {
    await harness.write({
      "a.yaml": appText("one", "nginx", needs("two")),
      "b.yaml": appText("two", "nginx", needs("one")),
      "c.yaml": joinDocuments(
        appText("three", "nginx", needs("four")),
        appText("four", "nginx", needs("three")),
      ),
    });
    await harness.scan();
    expect(harness.fileState("a.yaml")).toBe("applied");
    expect(harness.fileState("b.yaml")).toBe(
      "conflict\n6:15 dependsOn has a cycle: two -> one -> two (each of these apps would wait for the next one; remove one from dependsOn of two)",
    );
    expect(harness.fileState("c.yaml")).toContain("dependsOn has a cycle: three -> four -> three");
    expect(harness.resourceNames).toEqual(["App/one"]);
  });

  it("is applied if the conflict is resolved by other files of the same change", async () => {
    await harness.write({
      "a.yaml": appText("one", "nginx", `${port("one.example.org")}${needs("two")}`),
      "b.yaml": appText("two", "nginx", port("two.example.org")),
    });
    await harness.scan();
    await harness.write({
      "a.yaml": appText("one", "nginx", port("two.example.org")),
      "b.yaml": appText("two", "nginx", `${port("one.example.org")}${needs("one")}`),
      "c.yaml": appText("three", "nginx", port("one.example.org")),
    });
    await harness.scan();
    expect(harness.fileState("a.yaml")).toBe("applied");
    expect(harness.fileState("b.yaml")).toBe("applied");
    expect(harness.fileState("c.yaml")).toContain("conflict");
    expect(harness.app("two").spec).toMatchObject({
      domain: "one.example.org",
      dependsOn: ["one"],
    });
  });

  it("gets the domain of the app that it replaces in the same file", async () => {
    await harness.write({ "a.yaml": appText("one", "nginx", port(claim)) });
    await harness.scan();
    await harness.write({ "a.yaml": appText("two", "nginx", port(claim)) });
    await harness.scan();
    expect(harness.fileState("a.yaml")).toBe("applied");
  });
});
