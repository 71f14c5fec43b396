import { mkdirSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import {
  FolderRouteTable,
  TARGET_LINK,
} from "../../../../src/controller/ingress/folder-route-table.ts";
import {
  decodeTableEntry,
  LONG_LEVELS,
} from "../../../../src/controller/ingress/route-table-entry.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

let folder = "";
let clock: VirtualClock;
let table: FolderRouteTable;
const wide = Array.from({ length: 20 }, (_, index) => `10.0.0.${index}:80`);

beforeEach(async () => {
  folder = temporaryFolder("table");
  clock = new VirtualClock();
  table = new FolderRouteTable({ folder, clock });
  await table.prepare();
});

const entries = (app: string) =>
  readdirSync(join(folder, "apps", app))
    .filter((name) => name !== TARGET_LINK)
    .toSorted();
const write = (version: string, ...targets: string[]) => table.write("web", { version, targets });

/**
 * Finds the targets of an App as Caddy does: first through the App's link to a single target, then in a table entry
 * that is one file, then in a table entry whose file is nested five levels deep.
 */
function findAsCaddy(app: string): readonly string[] | undefined {
  const root = join(folder, "apps", app);
  try {
    const [target] = readdirSync(join(root, TARGET_LINK));
    if (target) return [target];
  } catch {
    // Caddy looks for a table entry if there is no target link.
  }
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((item) => item.isFile())
    .map((item) => relative(root, join(item.parentPath, item.name)).split(sep));
  for (const levels of [1, LONG_LEVELS]) {
    const [first] = paths
      .filter((names) => names.length === levels)
      .toSorted((a, b) => (a.join("/") < b.join("/") ? -1 : 1));
    const found = first && decodeTableEntry(first)?.route.targets;
    if (found?.length) return found;
  }
  return [];
}

describe("entries of the route table", () => {
  it("are kept for a second after a newer entry was written, and are then removed", async () => {
    await write("v1", "a:1");
    const [first = ""] = entries("web");
    await write("v2", "b:1");
    expect(entries("web")).toHaveLength(2);
    expect(entries("web")[1]).toBe(first);
    await clock.advance(999);
    expect(entries("web")).toHaveLength(2);
    await clock.advance(1);
    await expect.poll(() => entries("web")).toHaveLength(1);
    expect(await table.read("web")).toMatchObject({ version: "v2" });
  });

  it("are no longer removed after the route table was disposed of, because the next process may use its folder", async () => {
    await write("v1", "a:1");
    await write("v2", "b:1");
    await table[Symbol.asyncDispose]();
    await clock.advance(60_000);
    expect(entries("web")).toHaveLength(2);
  });

  it("of an earlier Berth process are removed by the next write", async () => {
    await write("v1", "a:1");
    await write("v2", "b:1");
    const next = new FolderRouteTable({ folder, clock });
    await next.prepare();
    await next.write("web", { version: "v2", targets: ["b:1"] });
    expect(entries("web")).toHaveLength(1);
    expect(await next.read("web")).toMatchObject({ version: "v2", targets: ["b:1"] });
  });

  it("are not written again for an equal route", async () => {
    await write("v1", "a:1", "b:1");
    const before = entries("web");
    await write("v1", "a:1", "b:1", "a:1");
    expect(entries("web")).toEqual(before);
  });

  it("are found by Caddy as soon as they are written, however the number of targets changes", async () => {
    const routes = [[], ["a:1"], ["a:1", "b:1"], wide];
    let version = 0;
    for (const before of routes)
      for (const after of [...routes, ["c:1"], ["c:1", "d:1"], wide.slice(1)]) {
        await write(`v${(version += 1)}`, ...before);
        await write(`v${(version += 1)}`, ...after);
        expect(findAsCaddy("web")).toEqual(after);
        expect(await table.read("web")).toMatchObject({ version: `v${version}`, targets: after });
      }
    expect(readdirSync(join(folder, "new"))).toEqual([]);
  });

  it("are ignored by read() if a crash prevented the link through which Caddy finds them", async () => {
    await write("v1", "a:1");
    mkdirSync(join(folder, "apps", "web", "000000000001~v2~0~one"));
    writeFileSync(join(folder, "apps", "web", "000000000001~v2~0~one", "b:1"), "");
    expect(findAsCaddy("web")).toEqual(["a:1"]);
    expect(await table.read("web")).toMatchObject({ version: "v1", targets: ["a:1"] });
  });

  it("of other programs are ignored", async () => {
    await write("v1", "a:1");
    writeFileSync(join(folder, "apps", "web", "000"), "");
    mkdirSync(join(folder, "apps", "web", "000000000000~v9~0~none"));
    expect(await table.read("web")).toMatchObject({ version: "v1" });
  });
});

describe("hosts in the route table", () => {
  it("link to the folder of their App; the folder is created before the link", async () => {
    await table.setHosts(new Map([["web.localhost", "web"]]), "replace");
    expect(readlinkSync(join(folder, "hosts", "web.localhost"))).toBe("../apps/web");
    expect(entries("web")).toEqual([]);
  });

  it("move to the App that setHosts() assigns, and are removed if setHosts() replaces all hosts without them", async () => {
    await table.setHosts(
      new Map([
        ["a.test", "one"],
        ["b.test", "one"],
      ]),
      "replace",
    );
    await table.setHosts(new Map([["a.test", "two"]]), "add");
    expect(readlinkSync(join(folder, "hosts", "a.test"))).toBe("../apps/two");
    expect(readdirSync(join(folder, "hosts")).toSorted()).toEqual(["a.test", "b.test"]);
    await table.setHosts(new Map([["a.test", "two"]]), "replace");
    expect(readdirSync(join(folder, "hosts"))).toEqual(["a.test"]);
  });
});

describe("names in the route table", () => {
  it.each(["..", ".", "", "a/b", "../x", "A", "a".repeat(64)])(
    "that are not names of Apps are refused: %j",
    async (name) => {
      const route = { version: "v1", targets: ["a:1"] };
      const refused = { code: "internal" };
      await expect(table.write(name, route)).rejects.toMatchObject(refused);
      await expect(table.read(name)).rejects.toMatchObject(refused);
      await expect(table.remove(name)).rejects.toMatchObject(refused);
    },
  );

  it.each(["..", "../x", "a/b", "*.test", "A.test", "a..b"])(
    "that are not host names are refused: %j",
    async (host) => {
      await expect(table.setHosts(new Map([[host, "web"]]), "replace")).rejects.toMatchObject({
        code: "internal",
      });
      expect(readdirSync(join(folder, "hosts"))).toEqual([]);
    },
  );
});

describe("deleted Apps in the route table", () => {
  it("lose only their own entries", async () => {
    await write("v1", "a:1");
    await table.write("gone", { version: "v1", targets: wide });
    await table.retainApps(new Set(["web"]));
    expect(await table.read("gone")).toBeNull();
    expect(await table.read("web")).not.toBeNull();
  });
});

it("the route table reports no path in the error if it cannot be written", async () => {
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "");
  const failure = await write("v1", "a:1").then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toMatchObject({
    code: "internal",
    message: "the route table cannot be changed (ENOTDIR)",
  });
});
