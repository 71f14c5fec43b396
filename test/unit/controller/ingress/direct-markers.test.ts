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

it("the marker file of a direct route exists only while the route table has the targets of this route for the App", async () => {
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

it("the marker file of a direct route exists only for hosts that the route table assigns to the route's App", async () => {
  await write("a:1");
  await table.addDirectRoutes(set);
  await table.setHosts(new Map([["web.test", "web"]]), "add");
  expect(listMarkers()).toEqual(["a/web.test"]);
  await table.setHosts(new Map([["web.test", "other"]]), "add");
  expect(listMarkers()).toEqual([]);
});

it("an App with the name hosts gets direct routes, because its lock has another key than the lock for all hosts", async () => {
  const named = createDirectRouteSet([{ app: "hosts", hosts: ["h.localhost"], slots: [["a:1"]] }]);
  await table.setHosts(new Map([["h.localhost", "hosts"]]), "replace");
  await table.addDirectRoutes(named);
  await table.write("hosts", { version: "v1", targets: ["a:1"] });
  expect(listMarkers()).toEqual(["a/h.localhost"]);
});

it("prepare() removes the marker files of direct routes that an earlier Berth process has left", async () => {
  await table.addDirectRoutes(set);
  await write("a:1");
  table = new FolderRouteTable({ folder, clock: new VirtualClock() });
  await table.prepare();
  expect(listMarkers()).toEqual([]);
  // The new route table does not know any host of the App yet, so it creates no marker files of direct routes.
  await table.addDirectRoutes(set);
  expect(listMarkers()).toEqual([]);
});

it("if a marker file of a direct route cannot be created, the App still switches to its new targets in the route table", async () => {
  await table.addDirectRoutes(set);
  rmSync(join(folder, "direct", set.generation), { recursive: true });
  await write("a:1");
  expect((await table.read("web"))?.targets).toEqual(["a:1"]);
});

it("if a marker file of a direct route cannot be removed, the switch to new targets fails, and retainTargets() removes the file later", async () => {
  await table.addDirectRoutes(set);
  await write("a:1");
  const path = join(folder, "direct", set.generation, "a", "web.test");
  rmSync(path);
  // A folder with content, at the path of the marker file, makes the removal of that file fail.
  mkdirSync(path);
  writeFileSync(join(path, "in-the-way"), "");
  await expect(write("b:1", "b:2")).rejects.toThrow("the route table cannot be changed");
  rmSync(path, { recursive: true });
  writeFileSync(path, "");
  await table.retainTargets("web", new Set(["b:1", "b:2"]));
  expect(listMarkers()).toEqual(["b/web.localhost", "b/web.test"]);
});
