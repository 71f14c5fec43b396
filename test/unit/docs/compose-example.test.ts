import { join } from "node:path";
import { expect, test } from "vitest";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { runCommandLine } from "../../support/run-cli.ts";

const root = join(import.meta.dirname, "../../..");

test("examples/compose/compose.yaml is imported as its comment says", async () => {
  const words = ["import", "examples/compose/compose.yaml", "--secrets", "secret"];
  const { code, output, errors } = await runCommandLine(words, { workingDirectory: root });
  expect(code).toBe(0);
  const parsed = parseManifests(output);
  expect(parsed.errors).toEqual([]);
  expect(parsed.documents.map(({ manifest }) => manifest)).toMatchObject([
    {
      metadata: { name: "guestbook-web", stack: "guestbook" },
      spec: {
        image: "example/guestbook:1.4",
        port: 3000,
        domain: "guestbook.example.org",
        env: { DATABASE_PASSWORD: { secret: "guestbook-web-secrets", key: "DATABASE_PASSWORD" } },
        folders: [{ name: "uploads", path: "/srv/uploads" }],
        dependsOn: ["guestbook-db"],
      },
    },
    {
      metadata: { name: "guestbook-db" },
      spec: { volumes: [{ name: "data" }], shmSize: "128Mi" },
    },
  ]);
  expect(errors).toMatch(/stack guestbook: 2 apps, 0 lost/);
});
