import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { manifestDirectories } from "../../../../../src/assistant/agent/manifests/manifest-directories.ts";
import { ownershipProblem } from "../../../../../src/assistant/agent/manifests/manifest-file.ts";
import { ManifestRegistry } from "../../../../../src/assistant/agent/manifests/manifest-registry.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { type Logger, silentLogger } from "../../../../../src/base/logger.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";
import { type Document, notesManifest } from "../../../../support/tool-manifests.ts";

/** These tests use the real clock and file system, so they wait for events, and set no time limits of their own. */

let root: string;
let own: string;
let shared: string;
let registries: ManifestRegistry[];
let log: string[];

beforeEach(() => {
  root = temporaryFolder("manifests");
  own = join(root, "own");
  shared = join(root, "shared");
  mkdirSync(own);
  mkdirSync(shared);
  registries = [];
  log = [];
});
afterEach(async () => {
  for (const registry of registries) await registry[Symbol.asyncDispose]();
});

const logger: Logger = {
  ...silentLogger,
  info: (fields, message) => void log.push(`${message} ${JSON.stringify(fields)}`),
  warn: (fields, message) => void log.push(`${message} ${JSON.stringify(fields)}`),
};

async function startRegistry(
  options: { directories?: readonly string[]; builtIn?: readonly object[]; userId?: number } = {},
): Promise<ManifestRegistry> {
  const common = { directories: [own, shared], clock: systemClock, logger };
  const registry = new ManifestRegistry({ ...common, ...options });
  registries.push(registry);
  await registry.start();
  return registry;
}

const until = (condition: () => void) => vi.waitFor(condition, { timeout: 8000, interval: 10 });

function manifest(id: string, changes: Document = {}): string {
  return JSON.stringify(notesManifest({ app_id: id, name: id, ...changes }));
}

function writeManifest(directory: string, id: string, changes: Document = {}): string {
  const file = join(directory, `${id}.json`);
  chmodAfterWrite(file, manifest(id, changes));
  return file;
}

function chmodAfterWrite(file: string, text: string): void {
  writeFileSync(file, text);
  chmodSync(file, 0o644);
}

const listIds = (registry: ManifestRegistry) => registry.apps().map(({ appId }) => appId);
const listStatuses = (registry: ManifestRegistry) =>
  registry
    .report()
    .map(({ appId, status, faults }) => [appId, status, ...faults.map(({ message }) => message)]);

describe("a started manifest registry", () => {
  it("reads all manifests, orders them by app, and reports the rejected ones", async () => {
    writeManifest(own, "org.example.B");
    writeManifest(own, "org.example.A");
    writeManifest(own, "org.example.C", { svc_manifest: 3 });
    chmodAfterWrite(join(own, ".hidden.json"), "{");
    chmodAfterWrite(join(own, "notes.txt"), "{");
    const registry = await startRegistry();
    expect(listIds(registry)).toEqual(["org.example.A", "org.example.B"]);
    expect(registry.find("org.example.A")?.tools).toHaveLength(2);
    expect(registry.find("org.example.C")).toBeUndefined();
    expect(listStatuses(registry)).toEqual([
      ["org.example.A", "taken"],
      ["org.example.B", "taken"],
      ["org.example.C", "rejected", "version 3 is too new: this Berth reads version 1"],
    ]);
    expect(log).toContain(
      'a tool manifest is rejected {"app":"org.example.C","pointer":"/svc_manifest","reason":"version 3 is too new: this Berth reads version 1"}',
    );
  });

  it("follows manifests that are added, changed, replaced and deleted", async () => {
    const registry = await startRegistry();
    const versions = [registry.version];
    const changed = (check: () => void) =>
      until(() => {
        check();
        expect(registry.version).toBeGreaterThan(versions.at(-1) ?? 0);
        versions.push(registry.version);
      });
    const file = writeManifest(own, "org.example.A");
    await changed(() => expect(listIds(registry)).toEqual(["org.example.A"]));
    writeManifest(own, "org.example.A", { name: "Other" });
    await changed(() => expect(registry.find("org.example.A")?.name).toBe("Other"));
    chmodAfterWrite(`${file}.new`, manifest("org.example.A", { name: "Third" }));
    renameSync(`${file}.new`, file);
    await changed(() => expect(registry.find("org.example.A")?.name).toBe("Third"));
    rmSync(file);
    await changed(() => expect(listIds(registry)).toEqual([]));
    const settled = registry.version;
    await registry.rescan();
    expect(registry.version).toBe(settled);
  });

  it("removes the tools of an app whose manifest becomes invalid, and logs the reason once", async () => {
    writeManifest(own, "org.example.A");
    const registry = await startRegistry();
    writeManifest(own, "org.example.A", { mcp: { transport: "tcp" } });
    await until(() => expect(listIds(registry)).toEqual([]));
    expect(listStatuses(registry)).toEqual([
      ["org.example.A", "rejected", 'must be "unix", not "tcp"'],
    ]);
    await registry.rescan();
    expect(log.filter((line) => line.startsWith("a tool manifest is rejected"))).toHaveLength(1);
    writeManifest(own, "org.example.A");
    await until(() => expect(listIds(registry)).toEqual(["org.example.A"]));
  });

  it("keeps the tools while a manifest is half written or briefly missing", async () => {
    const file = writeManifest(own, "org.example.A");
    const registry = await startRegistry();
    const { version } = registry;
    const text = manifest("org.example.A", { name: "New" });
    chmodAfterWrite(file, text.slice(0, 50));
    await registry.rescan();
    expect(listIds(registry)).toEqual(["org.example.A"]);
    expect(registry.report()[0]?.faults).not.toEqual([]);
    rmSync(file);
    await registry.rescan();
    expect([listIds(registry), registry.version]).toEqual([["org.example.A"], version]);
    chmodAfterWrite(file, text);
    await until(() => expect(registry.find("org.example.A")?.name).toBe("New"));
    expect(registry.version).toBe(version + 1);
  });

  it("removes the tools if a manifest stays incomplete", async () => {
    const file = writeManifest(own, "org.example.A");
    const registry = await startRegistry();
    chmodAfterWrite(file, "{");
    await until(() => expect(listIds(registry)).toEqual([]));
    expect(listStatuses(registry)).toEqual([
      ["org.example.A", "rejected", expect.stringContaining("the file is not JSON")],
    ]);
  });

  it("follows folders that are created or recreated later", async () => {
    const late = join(root, "a/b/c/manifests");
    const registry = await startRegistry({ directories: [late] });
    expect(registry.apps()).toEqual([]);
    mkdirSync(late, { recursive: true });
    writeManifest(late, "org.example.A");
    await until(() => expect(listIds(registry)).toEqual(["org.example.A"]));
    rmSync(join(root, "a"), { recursive: true });
    await until(() => expect(listIds(registry)).toEqual([]));
    mkdirSync(late, { recursive: true });
    writeManifest(late, "org.example.B");
    await until(() => expect(listIds(registry)).toEqual(["org.example.B"]));
    writeManifest(late, "org.example.C");
    await until(() => expect(listIds(registry)).toEqual(["org.example.B", "org.example.C"]));
  });
});

describe("manifests in several folders", () => {
  it("the first folder with a manifest wins, even if that manifest is invalid", async () => {
    writeManifest(own, "org.example.A", { name: "Own" });
    writeManifest(shared, "org.example.A", { name: "Shared" });
    const registry = await startRegistry();
    expect(registry.find("org.example.A")?.name).toBe("Own");
    expect(listStatuses(registry)).toEqual([
      ["org.example.A", "taken"],
      ["org.example.A", "shadowed"],
    ]);
    expect(registry.report()[1]?.shadowedBy).toBe(join(own, "org.example.A.json"));
    writeManifest(own, "org.example.A", { tools: "none" });
    await until(() => expect(listIds(registry)).toEqual([]));
    rmSync(join(own, "org.example.A.json"));
    await until(() => expect(registry.find("org.example.A")?.name).toBe("Shared"));
  });

  it.each([
    ["valid", { name: "Other" }],
    ["invalid", { tools: "none" }],
  ])(
    "a %s file with the app id of a built-in manifest does not replace that manifest",
    async (_, changes) => {
      const builtIn = [notesManifest({ app_id: "dev.berth.apps", name: "Built in" })];
      for (const directory of [own, shared]) writeManifest(directory, "dev.berth.apps", changes);
      const registry = await startRegistry({ builtIn });
      expect(registry.find("dev.berth.apps")?.name).toBe("Built in");
      const [first, ...files] = registry.report();
      expect(first).toMatchObject({ file: undefined, status: "taken" });
      expect(files).toHaveLength(2);
      for (const { status, shadowedBy, faults } of files) {
        expect([status, shadowedBy]).toEqual(["shadowed", "Berth itself"]);
        expect(faults[0]).toMatchObject({ pointer: "/app_id", severity: "error" });
      }
      const warnings = log.filter((line) => line.startsWith("a tool manifest is rejected"));
      expect(warnings.join()).toContain("belongs to an app that ships with Berth");
    },
  );

  it("subscribers are notified after each change of the declared tools", async () => {
    const registry = await startRegistry();
    const names: (string | undefined)[] = [];
    const unsubscribe = registry.subscribe(() => {
      names.push(registry.find("org.example.A")?.name);
    });
    const file = writeManifest(own, "org.example.A", { name: "First" });
    await until(() => expect(names).toEqual(["First"]));
    await registry.rescan();
    unsubscribe();
    rmSync(file);
    await until(() => expect(listIds(registry)).toEqual([]));
    expect(names).toEqual(["First"]);
  });

  it("built-in manifests are available before the start", () => {
    const common = { directories: [own], clock: systemClock, logger };
    const registry = new ManifestRegistry({ ...common, builtIn: [notesManifest()] });
    registries.push(registry);
    expect(listIds(registry)).toEqual(["org.example.Notes"]);
    expect(() => new ManifestRegistry({ ...common, builtIn: [{}] })).toThrow(
      "a built-in manifest is invalid: /svc_manifest must be 1, not nothing",
    );
  });
});

describe("manifest files with problems", () => {
  it("folders, pipes, sockets, broken links and large files are rejected with the reason", async () => {
    mkdirSync(join(own, "org.example.Folder.json"));
    execFileSync("mkfifo", [join(own, "org.example.Pipe.json")]);
    const server = createServer().listen(join(own, "org.example.Socket.json"));
    await new Promise((resolve) => server.once("listening", resolve));
    symlinkSync("nowhere", join(own, "org.example.Dangling.json"));
    symlinkSync("org.example.Loop.json", join(own, "org.example.Loop.json"));
    chmodAfterWrite(join(own, "org.example.Large.json"), " ".repeat(2 ** 20 + 1));
    try {
      expect(listStatuses(await startRegistry())).toEqual([
        ["org.example.Dangling", "rejected", "the file is a broken link"],
        ["org.example.Folder", "rejected", "the file is not a regular file"],
        ["org.example.Large", "rejected", "the file is larger than 1 MiB"],
        ["org.example.Loop", "rejected", "the links to the file form a cycle"],
        ["org.example.Pipe", "rejected", "the file is not a regular file"],
        ["org.example.Socket", "rejected", "the file is not a regular file"],
      ]);
    } finally {
      server.close();
    }
  });

  it("files that other users may write are rejected; group write access and links to files outside the folder cause warnings", async () => {
    chmodSync(writeManifest(own, "org.example.Any"), 0o666);
    chmodSync(writeManifest(own, "org.example.Group"), 0o664);
    symlinkSync(writeManifest(root, "org.example.Link"), join(own, "org.example.Link.json"));
    expect(listStatuses(await startRegistry())).toEqual([
      [
        "org.example.Any",
        "rejected",
        "every user may write the file; remove that permission with chmod o-w",
      ],
      ["org.example.Group", "taken", "the group of the file may write it"],
      ["org.example.Link", "taken", expect.stringContaining("link to a file outside the folder")],
    ]);
  });

  it("files that belong to neither the user nor root are rejected", () => {
    const mode = 0o100644n;
    expect(ownershipProblem({ uid: 1000n, mode }, 1000)).toBeUndefined();
    expect(ownershipProblem({ uid: 0n, mode }, 1000)).toBeUndefined();
    expect(ownershipProblem({ uid: 1001n, mode }, 1000)).toContain("belongs to another user");
  });

  it("a rejected file does not affect the other manifests", async () => {
    writeManifest(own, "org.example.Good");
    for (let index = 0; index < 20; index += 1) {
      chmodAfterWrite(join(own, `org.example.Bad${index}.json`), "[".repeat(index));
    }
    expect(listIds(await startRegistry())).toEqual(["org.example.Good"]);
  });
});

it("a thousand manifests are read", async () => {
  for (let index = 0; index < 1000; index += 1) writeManifest(own, `org.example.App${index}`);
  expect((await startRegistry({ directories: [own] })).apps()).toHaveLength(1000);
});

describe("the default folders of a user", () => {
  const home = "/home/ann";
  it.each<[Record<string, string>, readonly string[]]>([
    [
      {},
      [
        "/home/ann/.local/share/assistant/manifests",
        "/usr/local/share/assistant/manifests",
        "/usr/share/assistant/manifests",
      ],
    ],
    [
      { XDG_DATA_HOME: "/data", XDG_DATA_DIRS: "/a:relative:/b/:/a" },
      ["/data/assistant/manifests", "/a/assistant/manifests", "/b/assistant/manifests"],
    ],
    [
      { XDG_DATA_HOME: "data", XDG_DATA_DIRS: "" },
      [
        "/home/ann/.local/share/assistant/manifests",
        "/usr/local/share/assistant/manifests",
        "/usr/share/assistant/manifests",
      ],
    ],
    [{ ASSISTANT_MANIFEST_PATH: "/x/:~/y::z", XDG_DATA_HOME: "/data" }, ["/x", "/home/ann/y"]],
    [
      { ASSISTANT_MANIFEST_PATH: "", XDG_DATA_HOME: "/d", XDG_DATA_DIRS: "/d" },
      ["/d/assistant/manifests"],
    ],
  ])("are determined by the environment variables %j", (environment, directories) => {
    expect(manifestDirectories(environment, home)).toEqual(directories);
  });
});

it("closing the registry removes all its file watches", async () => {
  const registry = await startRegistry();
  await registry[Symbol.asyncDispose]();
  const { version } = registry;
  writeManifest(own, "org.example.A");
  await registry.rescan();
  expect(existsSync(join(own, "org.example.A.json"))).toBe(true);
  expect([registry.version, listIds(registry)]).toEqual([version, []]);
});
