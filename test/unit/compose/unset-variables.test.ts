import { expect, test } from "vitest";
import { collectSpecs, importTexts } from "./compose-fixtures.ts";

/** Imports a service with this body, and returns the findings of its line as `level: message`. */
function findingsOf(body: string, env = ""): string[] {
  const text = `services:\n  app:\n    ${body}\n    restart: always\n`;
  return importTexts({ "compose.yaml": text, ".env": env }).findings.flatMap(
    ({ line, level, message }) =>
      line === 3 && level !== "note" && level !== "changed" ? [`${level}: ${message}`] : [],
  );
}

test.each([
  ["image: a:1\n    hostname: ${NAME}", "the variable NAME is not set, and is"],
  ["image: a:1\n    mem_limit: ${LIMIT}", "the variable LIMIT is not set, and is"],
  ["image: a:1\n    hostname: mail.${DOMAIN}", "the variable DOMAIN is not set, and is"],
  ['image: a:1\n    ports: ["${PORT}:8080"]', "the variable PORT is not set, and is"],
  ['image: a:1\n    volumes: ["${FOLDER}:/data"]', "the variable FOLDER is not set, and is"],
  [
    'image: a:1\n    environment: ["URL=$USER:$PASSWORD@$HOST"]',
    "the variables USER PASSWORD HOST are not set, and are",
  ],
])("a value with unset variables gives one finding: %s", (body, names) => {
  const own = body.split("\n    ").at(-1) ?? "";
  expect(findingsOf(`${own}\n    image: a:1`)).toEqual([`lost: ${names} replaced by nothing`]);
});

test("an image that is unusable without an unset variable gives one finding, which names the variable", () => {
  const [finding, ...others] = findingsOf("image: example/app:${TAG}");
  expect(finding).toBe(
    'failed: the image "example/app:" has a tag that is not letters, digits, _ . and - (at most 128): the variable TAG is not set',
  );
  expect(others).toEqual([]);
  expect(findingsOf("image: example/app:${TAG}", "TAG=2")).toEqual([]);
});

test("a host name that is none does not prevent the conversion of its service", () => {
  const text = 'services: { app: { image: "a:1", hostname: "mail_server." } }';
  const result = importTexts({ "compose.yaml": text });
  expect(collectSpecs(result)["app"]).toEqual({ image: "a:1" });
  expect(result.findings.map(({ level, key }) => [level, key])).toEqual([
    ["lost", "services.app.hostname"],
  ]);
});
