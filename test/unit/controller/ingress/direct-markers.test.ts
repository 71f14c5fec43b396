import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { createDirectRouteSet } from "../../../../src/controller/ingress/direct-routes.ts";
import { FolderRouteTable } from "../../../../src/controller/ingress/folder-route-table.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

let folder = "";
let table: FolderRouteTable;
const hosts = ["web.localhost", "web.test"];
const set = createDirectRouteSet([{ app: "web", hosts, slots: [["a:1"], ["b:1", "b:2"]] }]);

const listMarkers = () =>
  readdirSync(join(folder, "direct"), { recursive: true, withFileTypes: true })
    .filter((item) => item.isFile())
    .map((item) => `${item.parentPath.slice(-1)}/${item.name}`)
    .toSorted();
const write = (...targets: string[]) =>
  table.write("web", { version: `v${targets.length}${targets[0]?.[0] ?? ""}`, targets });

beforeEach(async () => {
  folder = temporaryFolder("table");
  table = new FolderRouteTable({ folder, clock: new VirtualClock() });
  await table.prepare();
  await table.setHosts(new Map(hosts.map((host) => [host, "web"])), "replace");
});

it("markers of direct routes exist only for the targets that the route table currently has for the App", async () => {
  await table.addDirectRoutes(set);
  expect(listMarkers()).toEqual([]);
  await write("a:1");
  expect(listMarkers()).toEqual(["a/web.localhost", "a/web.test"]);
  await write("b:2", "b:1");
  expect(listMarkers()).toEqual(["b/web.localhost", "b/web.test"]);
  await write("b:1");
  expect(listMarkers()).toEqual([]);
  await write("a:1");
  await table.retainTargets("web", new Set(["b:1"]));
  expect(listMarkers()).toEqual([]);
  await write("a:1");
  await table.remove("web");
  expect(listMarkers()).toEqual([]);
});

it("markers of direct routes exist only for hosts of the App", async () => {
  await write("a:1");
  await table.addDirectRoutes(set);
  await table.setHosts(new Map([["web.test", "web"]]), "add");
  expect(listMarkers()).toEqual(["a/web.test"]);
  await table.setHosts(new Map([["web.test", "other"]]), "add");
  expect(listMarkers()).toEqual([]);
});

it("an App may have the name hosts", async () => {
  const named = createDirectRouteSet([{ app: "hosts", hosts: ["h.localhost"], slots: [["a:1"]] }]);
  await table.setHosts(new Map([["h.localhost", "hosts"]]), "replace");
  await table.addDirectRoutes(named);
  await table.write("hosts", { version: "v1", targets: ["a:1"] });
  expect(listMarkers()).toEqual(["a/h.localhost"]);
});

it("markers of an earlier run are removed before the table is used", async () => {
  await table.addDirectRoutes(set);
  await write("a:1");
  table = new FolderRouteTable({ folder, clock: new VirtualClock() });
  await table.prepare();
  expect(listMarkers()).toEqual([]);
  // The table does not know the hosts of the App yet, so it creates no marker for them.
  await table.addDirectRoutes(set);
  expect(listMarkers()).toEqual([]);
});

it("a marker that cannot be created does not prevent the switch to other targets", async () => {
  await table.addDirectRoutes(set);
  rmSync(join(folder, "direct", set.generation), { recursive: true });
  await write("a:1");
  expect((await table.read("web"))?.targets).toEqual(["a:1"]);
});

it("if a marker cannot be removed, the switch to other targets fails, and the next check of the App removes the marker", async () => {
  await table.addDirectRoutes(set);
  await write("a:1");
  const path = join(folder, "direct", set.generation, "a", "web.test");
  rmSync(path);
  // A folder at the marker's path makes its removal fail, as a failing disk would.
  mkdirSync(path);
  writeFileSync(join(path, "in-the-way"), "");
  await expect(write("b:1", "b:2")).rejects.toThrow("the route table cannot be changed");
  rmSync(path, { recursive: true });
  writeFileSync(path, "");
  await table.retainTargets("web", new Set(["b:1", "b:2"]));
  expect(listMarkers()).toEqual(["b/web.localhost", "b/web.test"]);
});
