import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tryValidateManifest } from "../../../src/resources/validate-manifest.ts";
import {
  collectFindingLines,
  fixturesFolder,
  importFixture,
  readExpectedLines,
} from "./compose-fixtures.ts";

/** A fixture, the other files that it reads, and its env file. */
type Fixture = readonly [file: string, others?: readonly string[], envFile?: string];
const fixtures: readonly Fixture[] = [
  ["wordpress.yaml"],
  ["nextcloud.yaml", ["nextcloud-db.env"]],
  ["immich.yaml", ["immich.env"], "immich.env"],
  ["paperless.yaml"],
  ["gitea.yaml"],
  ["vaultwarden.yaml"],
  ["jellyfin.yaml"],
  ["home-assistant.yaml"],
  ["traefik.yaml"],
  ["plausible.yaml", [], "plausible.env"],
  ["n8n.yaml"],
  ["ghost.yaml"],
  ["mastodon.yaml", ["mastodon.env"]],
  ["authentik.yaml"],
  ["dev/compose.yaml", ["dev/shared/base.yaml", "dev/shared/queue.yaml"]],
];

function run(file: string) {
  const envFile = fixtures.find(([name]) => name === file)?.[2];
  return importFixture(
    file,
    envFile === undefined ? {} : { envFiles: [join(fixturesFolder, envFile)] },
  );
}

test("every fixture file is in the list of fixtures", () => {
  const files = readdirSync(fixturesFolder, { recursive: true, encoding: "utf8" });
  const known = new Set(fixtures.flatMap(([file, others]) => [file, ...(others ?? [])]));
  expect(files.filter((file) => file.endsWith(".yaml") && !known.has(file))).toEqual([]);
});

describe.each(fixtures.map(([file]) => file))("the fixture %s", (file) => {
  test("has findings in the report for exactly the marked lines", () => {
    const others = fixtures.find(([name]) => name === file)?.[1] ?? [];
    const marked = [file, ...others].flatMap(readExpectedLines);
    expect(collectFindingLines(run(file))).toEqual(marked.toSorted());
  });

  test("gives only valid Apps", () => {
    const { apps } = run(file);
    expect(apps.length).toBeGreaterThan(0);
    for (const { manifest } of apps) expect(tryValidateManifest(manifest)).toEqual({ manifest });
  });
});
