import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { systemClock } from "../../../src/base/clock.ts";
import { importCompose } from "../../../src/compose/import-compose.ts";
import type { Manifest } from "../../../src/resources/kinds.ts";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";
import { readFolderFiles } from "../../support/compose-reader.ts";
import { type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const root = join(import.meta.dirname, "../../..");

let api: TestApi;
let url: string;
let folder: string;
beforeEach(async () => {
  api = await openTestApi({ clock: systemClock });
  url = await api.listen();
  folder = temporaryFolder("export");
});
afterEach(() => api[Symbol.asyncDispose]());

function run(commandLine: string): Promise<CliResult> {
  return runCommandLine(commandLine.split(" "), {
    workingDirectory: folder,
    environment: { BERTH_URL: url, BERTH_TOKEN: api.token("admin"), XDG_CONFIG_HOME: folder },
  });
}

const apply = async (manifests: readonly unknown[], query = "") =>
  api.request({ method: "POST", url: `/api/apply${query}`, payload: { manifests } });

/** Exports the stack as a Compose file, imports it again, and returns the results of a dry run of `berth apply`. */
async function exportAndImport(stack: string) {
  const exported = await run(`export stack/${stack} --format compose`);
  expect(exported).toMatchObject({ code: 0 });
  writeFileSync(join(folder, "compose.yaml"), exported.output);
  const imported = await run("import -q --accept unsafe compose.yaml");
  expect(imported).toMatchObject({ code: 0 });
  const manifests = parseAllDocuments(imported.output).map((document) => document.toJS());
  const answer = await apply(manifests, "?dry_run=true");
  expect(answer).toMatchObject({ statusCode: 200 });
  return { exported, results: answer.json().results };
}

const expectNoChange = (results: { action: string; name: string; changes: unknown }[]) =>
  expect(results.filter(({ action }) => action !== "unchanged")).toEqual([]);

/** Imports the first Compose file of each folder, or each file, below `parent`. */
function listProjects(parent: string): string[] {
  return readdirSync(join(root, parent), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.ya?ml$/.test(file) && !/\/(shared|parts)\//.test(`/${file}`))
    .map((file) => join(parent, file))
    .toSorted();
}

function importProject(file: string) {
  const path = join(root, file);
  const specFolder = join(path, "..");
  return importCompose(
    { files: [path], specFolder, profiles: ["*"], partial: true, home: "/home/me" },
    readFolderFiles(specFolder),
  );
}

const projects = ["test/fixtures/stacks", "test/fixtures/compose", "examples/compose"].flatMap(
  listProjects,
);

describe("berth export stack/NAME --format compose", () => {
  it.for(projects)(
    "prints a Compose file that plans no change when it is imported again: %s",
    async (file) => {
      const { stack, apps } = importProject(file);
      // The API refuses to build folders of the server, so each app with a source becomes an app of an uploaded archive
      // here.
      const manifests = apps.map(({ manifest }) => withArchive(manifest));
      expect(manifests).not.toEqual([]);
      const answer = await apply(manifests);
      expect(answer).toMatchObject({ statusCode: 200 });
      const { results } = await exportAndImport(stack);
      expect(results).toHaveLength(manifests.length);
      expectNoChange(results);
    },
  );

  it("plans no change for the stack of examples/specs/stack.yaml", async () => {
    const text = readFileSync(join(root, "examples/specs/stack.yaml"), "utf8");
    await apply(parseManifests(text).documents.map(({ manifest }) => manifest));
    const { exported, results } = await exportAndImport("shop");
    expect(results).toHaveLength(4);
    expectNoChange(results);
    expect(exported.output).not.toContain("change-me");
  });

  it("keeps every field of an App, and names those that Compose cannot express", async () => {
    const text = readFileSync(join(root, "examples/specs/every-field.yaml"), "utf8");
    const manifests = parseManifests(text).documents.map(({ manifest }) => manifest);
    expect((await apply(manifests)).statusCode).toBe(200);
    const { exported, results } = await exportAndImport("every");
    expect(results.map(({ name }: { name: string }) => name)).toContain("every-field");
    expectNoChange(results);
    expect(exported.errors).toMatch(/field: Compose cannot express .*domain.*rollout.*models/);
    const { field } = parse(exported.output).services;
    expect(field).toMatchObject({
      image: "registry.example.org/every:1.0",
      environment: { TEXT: "hello", NUMBER: "8080", TOKEN: "${EVERY_FIELD_TOKEN:?}" },
      hostname: "every",
      read_only: true,
      cap_drop: ["NET_RAW"],
      tmpfs: ["/tmp:size=67108864"],
      expose: ["8080"],
    });
    expect(exported.errors).toContain(
      "EVERY_FIELD_TOKEN: in Berth, the value of this variable comes from the Secret every-field, its value token",
    );
  });

  it("never prints the value of a Secret, and escapes dollar signs", async () => {
    await apply([
      secret("shop-db", { password: "s3cret-$value" }),
      app("shop-db", { image: "mysql:8", env: { P: { secret: "shop-db" }, Q: "a$b${C}$$" } }),
      app("shop-web", {
        image: "web:1",
        dependsOn: ["shop-db", "shop-cache"],
        volumes: [{ name: "data", path: "/data" }],
      }),
      app("shop-cache", { image: "redis:8", volumes: [{ name: "data", path: "/data" }] }),
    ]);
    const { exported, results } = await exportAndImport("shop");
    expectNoChange(results);
    expect(exported.output).not.toContain("s3cret");
    const { services, volumes } = parse(exported.output);
    expect(services.db.environment).toEqual({ P: "${SHOP_DB:?}", Q: "a$$b$${C}$$$$" });
    expect(services.web.depends_on).toEqual(["db", "cache"]);
    expect(Object.keys(volumes).toSorted()).toEqual(["cache-data", "web-data"]);
  });
});

describe("berth export stack/NAME", () => {
  it("prints manifests that plan no change, and names the Secrets that it leaves out", async () => {
    await apply([secret("shop-db", { password: "x" }), app("shop-db", { image: "mysql:8" })]);
    const { output, errors } = await run("export stack/shop");
    expect(errors).toContain("secret/shop-db");
    const manifests = parseAllDocuments(output).map((document) => document.toJS());
    expectNoChange((await apply(manifests, "?dry_run=true")).json().results);
  });

  it("needs the name of a stack that exists", async () => {
    expect((await run("export web")).errors).toContain("export needs the name of a stack");
    expect((await run("export stack/none")).errors).toContain('there is no stack "none"');
  });
});

const app = (name: string, spec: object) => ({
  apiVersion: "berth.dev/v1",
  kind: "App",
  metadata: { name, stack: "shop" },
  spec,
});

const secret = (name: string, data: object) => ({
  apiVersion: "berth.dev/v1",
  kind: "Secret",
  metadata: { name, stack: "shop" },
  spec: { data },
});

function withArchive(manifest: Manifest<"App">): Manifest<"App"> {
  const { source, ...spec } = manifest.spec;
  return source && "local" in source
    ? { ...manifest, spec: { ...spec, source: { archive: "a".repeat(64) } } }
    : manifest;
}
