import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let dir = "";

beforeEach(async () => {
  dir = temporaryFolder("build");
  await mkdir(join(dir, "site"));
  await writeFile(join(dir, "site/index.html"), "hello");
});

const run = (...words: string[]) => runCommandLine(["build", ...words], { workingDirectory: dir });

test("berth build prints the generated Dockerfile, and with --eject writes it unless the folder already has a Dockerfile", async () => {
  const printed = await run("site", "--print-dockerfile");
  expect(printed).toMatchObject({
    code: 0,
    output: expect.stringContaining("FROM caddy:2-alpine\n"),
  });
  expect(printed.errors).toBe("generated from index.html: a static site, served by Caddy\n");

  const ejected = await run("site", "--eject");
  expect(ejected).toMatchObject({ code: 0, output: "" });
  expect(ejected.errors).toBe("wrote site/Dockerfile; the app listens on PORT, by default 8080\n");
  expect(await readFile(join(dir, "site/Dockerfile"), "utf8")).toBe(printed.output);

  const again = await run("site", "--eject");
  expect(again.code).toBe(1);
  expect(again.errors).toContain("error: site already has Dockerfile: nothing was written");
  const forced = await run("site", "--eject", "--language", "static", "--base-image", "web:1");
  expect(forced.errors).toContain("site already has Dockerfile: nothing was written");
  expect(await readFile(join(dir, "site/Dockerfile"), "utf8")).toBe(printed.output);
});

test("berth build prints an existing Dockerfile, and names it", async () => {
  await writeFile(join(dir, "site/web.Dockerfile"), "FROM scratch");
  const printed = await run("site", "--print-dockerfile", "-f", "web.Dockerfile");
  expect(printed).toEqual({
    code: 0,
    output: "FROM scratch\n",
    errors: "web.Dockerfile of site:\n",
  });
  const missing = await run("site", "--print-dockerfile", "-f", "none");
  expect(missing).toMatchObject({
    code: 1,
    errors: expect.stringContaining("there is no Dockerfile none"),
  });
});

test("berth build generates the Dockerfile for the given language and base image", async () => {
  await writeFile(join(dir, "site/package.json"), '{"scripts":{"start":"node a.js"}}');
  expect((await run("site", "--print-dockerfile")).output).toContain("FROM node:");
  const options = ["--language", "static", "--base-image", "registry.example/web:1"];
  expect((await run("site", "--print-dockerfile", ...options)).output).toContain(
    "FROM registry.example/web:1\n",
  );
  expect((await run("site", "--print-dockerfile", "--language", "cobol")).code).toBe(2);
});

test("berth build suggests the next step if it has no flag, if the folder is empty, and if the folder is missing", async () => {
  const bare = await run("site");
  expect(bare).toMatchObject({ code: 2, errors: expect.stringContaining("`berth deploy site`") });
  await mkdir(join(dir, "empty"));
  const empty = await run("empty", "--print-dockerfile");
  expect(empty).toMatchObject({
    code: 1,
    errors: expect.stringContaining("cannot detect how to build"),
  });
  expect((await run("none", "--print-dockerfile")).errors).toContain(
    "there is no such source folder",
  );
});
