import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { createColours } from "../../../src/cli/colours.ts";
import { formatImportReport } from "../../../src/cli/views/import-report.ts";
import { parseEnvFile } from "../../../src/compose/env-file.ts";
import { importCompose } from "../../../src/compose/import-compose.ts";
import { parseTraefikRule } from "../../../src/compose/traefik-rule.ts";
import { collectSpecs, importTexts } from "./compose-fixtures.ts";

/** Imports texts, and returns the findings of the given level as `line key: message`. */
function findingsOf(level: string, texts: Record<string, string>): string[] {
  return importTexts(texts).findings.flatMap((found) =>
    found.level === level ? [`${found.line} ${found.key}: ${found.message}`] : [],
  );
}

function failuresOf(text: string, others: Record<string, string> = {}): string[] {
  return findingsOf("failed", { "compose.yaml": text, ...others });
}

test("a Traefik rule with many blanks between its values is refused without endless backtracking", () => {
  expect(parseTraefikRule(`Host(${"`a`   ".repeat(2000)}!`)).toBeUndefined();
  expect(parseTraefikRule("Host( `a` , `b`  `c` )")?.[0]?.hosts).toEqual(["a", "b", "c"]);
});

test.each([
  ["a value that repeats the name of a service", `"${"A ".repeat(200_000)}"`, "environment"],
  ["a URL with many colons", `"a://${":".repeat(400_000)}"`, "environment"],
  ["a health check that repeats curl", `"${"curl ".repeat(100_000)}"`, "test"],
])("a file with %s is imported without quadratic time", (_name, value, key) => {
  const body = key === "test" ? `healthcheck: { test: ${value} }` : `environment: { X: ${value} }`;
  const text = `services:\n  A: { image: "a:1" }\n  b: { image: "b:1", ${body} }\n`;
  expect(Object.keys(collectSpecs(importTexts({ "compose.yaml": text })))).toContain("A");
});

test("a suggested command does not contain the text of a profile that a shell would execute", () => {
  const text = 'services: { a: { image: "a:1", profiles: ["x; rm -rf /"] }, b: { image: "b:1" } }';
  const { findings } = importTexts({ "compose.yaml": text });
  expect(findings.find(({ service }) => service === "a")).not.toHaveProperty("hint");
});

test("many routes of a network that many services share do not take quadratic time", () => {
  const labels = Array.from(
    { length: 8000 },
    (_, at) => `      - traefik.http.routers.r${at}.rule=Host(\`h${at}.example.org\`)\n`,
  );
  const members = Array.from(
    { length: 300 },
    (_, at) =>
      `  m${at}: { image: "m:1", network_mode: "service:vpn", healthcheck: { test: "${"curl ".repeat(200)}" } }\n`,
  );
  const text = `services:\n  vpn:\n    image: gluetun:1\n    labels:\n${labels.join("")}${members.join("")}`;
  const { findings } = importTexts({ "compose.yaml": text });
  expect(findings.filter(({ message }) => message.includes("the route is omitted"))).toHaveLength(
    8000,
  );
});

test("more services than a project can have are refused", () => {
  const services = Array.from({ length: 10_000 }, (_, at) => `  s_${at}: { image: "a:1" }`);
  expect(failuresOf(`services:\n${services.join("\n")}\n`)).toEqual([
    "1 services: the project declares 10000 services, and at most 500 can be imported at once",
  ]);
});

test("services whose `extends` would copy a large service many times are refused before they use much memory", () => {
  const base = Array.from({ length: 1000 }, (_, at) => `V${at}: x`).join(", ");
  const services = Array.from({ length: 400 }, (_, at) => `  s${at}: { extends: base }`);
  const text = `services:\n  base: { image: "a:1", environment: { ${base} } }\n${services.join("\n")}\n`;
  expect(failuresOf(text).join("\n")).toContain(
    "the file is too large after its services are extended",
  );
});

test("aliases of long texts are refused before they use much memory", () => {
  const text = `x-a: &a "${"x".repeat(100_000)}"\nservices:\n  a: { image: "a:1", command: [${"*a, ".repeat(1000)}] }\n`;
  expect(failuresOf(text)).toEqual(["1 : the file is too large after its aliases are expanded"]);
});

test("variables that refer to each other and would expand to a huge text are refused before they use much memory", () => {
  const levels = Array.from({ length: 12 }, (_, at) =>
    at === 0 ? `V0=${"x".repeat(1000)}` : `V${at}=${`\${V${at - 1}}`.repeat(10)}`,
  );
  const { problems } = parseEnvFile(levels.join("\n"), new Map());
  expect(problems[0]?.message).toContain("longer than 1 MiB after its variables are expanded");
  const many = `services:\n  a: { image: "a:1", command: ["${"$X".repeat(300)}"] }\n`;
  expect(failuresOf(many, { ".env": `X=${"x".repeat(100_000)}` })).toEqual([
    "2 services.a.command[0]: this value is longer than 1 MiB after its variables are expanded",
  ]);
  const values = Array.from({ length: 30 }, () => '"$X"').join(", ");
  const total = `services:\n  a: { image: "a:1", command: [${values}] }\n`;
  expect(failuresOf(total, { ".env": `X=${"x".repeat(900_000)}` })[0]).toContain(
    "the project is longer than 8 MiB after its variables are expanded",
  );
});

test("a file with very many errors gives a short report", () => {
  const text = Array.from({ length: 150_000 }, () => "a: b: c").join("\n");
  const failures = failuresOf(text);
  expect(failures.length).toBeGreaterThan(0);
  expect(failures.length).toBeLessThanOrEqual(100);
});

test.each([["1.2.3s"], ["99999999999999999999999h"], ["."], ["9e9s"]])(
  "the invalid duration %s causes a finding, and does not fail the import",
  (duration) => {
    const text = `services: { a: { image: "a:1", stop_grace_period: "${duration}", healthcheck: { test: x, interval: "${duration}" } } }`;
    const messages = findingsOf("lost", { "compose.yaml": text });
    expect(messages).toHaveLength(2);
    expect(messages[0]).toContain(`"${duration}" is not a duration`);
  },
);

test.each(["!!js/function", "!!python/object", "!!binary"])("the YAML tag %s is refused", (tag) => {
  expect(failuresOf(`services: { a: { image: ${tag} "x" } }`)[0]).toContain(
    "is not a tag of Compose",
  );
});

test.each(["__proto__", "constructor", "prototype"])(
  "the name %s is refused for a service, and reported for a variable and for a build argument",
  (name) => {
    expect(failuresOf(`services: { ${name}: { image: "a:1" } }`)[0]).toContain(
      `the key "${name}" is not allowed`,
    );
    const text = `services: { a: { build: { context: ., args: ["${name}=x"] }, environment: ["${name}=x", "B=y"] } }`;
    expect(collectSpecs(importTexts({ "compose.yaml": text }))["a"]?.env).toEqual({ B: "y" });
    expect(findingsOf("lost", { "compose.yaml": text })).toHaveLength(2);
  },
);

test("invalid service names are refused, as by Compose", () => {
  for (const name of ["../../etc/x", "a b", "a\\nb", "a;b"]) {
    expect(failuresOf(`services: { "${name}": { image: "a:1" } }`)[0]).toContain(
      "the name of a service contains only letters, digits, dots, underscores and hyphens",
    );
  }
});

test("a line break in a value cannot forge a line of the report", () => {
  const forged = "x\\nPublic:\\u2028  nothing\\u0085y";
  const text = `services: { a: { image: "a:1", labels: { "${forged}": z }, pull_policy: "${forged}" } }`;
  const result = importTexts({ "compose.yaml": text });
  const colours = createColours(false, {}, false);
  const report = formatImportReport(result, { quiet: false, colours });
  expect(report).not.toMatch(/^(Public:| {2}nothing|y)/m);
  expect(report).not.toMatch(/[\u2028\u0085]/);
});

test("a suggested command does not contain the text of a volume name that a shell would execute", () => {
  const text = `services: { a: { image: "a:1", volumes: ["v:/d"] } }\nvolumes: { v: { name: "x; rm -rf /" } }`;
  const hints = importTexts({ "compose.yaml": text }).findings.map(({ hint }) => hint ?? "");
  expect(hints.join("\n")).toContain("docker run --rm -v VOLUME:/from:ro");
  expect(hints.join("\n")).not.toContain("rm -rf");
});

test.each([
  ['name: "${NAME:?why}"', "1 name"],
  ['volumes: { v: { driver_opts: { device: "${NAME:?why}" } } }', "1 volumes.v.driver_opts.device"],
  ['secrets: { s: { file: "${NAME:?why}" } }', "1 secrets.s.file"],
  ['networks: { n: { name: "${NAME:?why}" } }', "1 networks.n.name"],
])("a required variable outside of the services is a failure: %s", (section, place) => {
  const text = `${section}\nservices: { a: { image: "a:1", volumes: ["v:/d"], secrets: [s] } }\n`;
  expect(failuresOf(text)).toEqual([`${place}: the variable NAME must be set: why`]);
});

test("the reason of a required variable does not show the values of other variables", () => {
  const text = 'services: { a: { image: "a:1", command: "${A:?not $PASSWORD}" } }';
  expect(failuresOf(text, { ".env": "PASSWORD=s3cret" })).toEqual([
    "1 services.a.command: the variable A must be set: not $PASSWORD",
  ]);
});

test("a service with very many ports is read up to a limit", () => {
  const ports = Array.from({ length: 2000 }, (_, at) => `"${at * 7 + 1}-${at * 7 + 100}"`);
  for (const key of ["ports", "expose"]) {
    const text = `services: { a: { image: "a:1", ${key}: [${ports.join(", ")}] } }`;
    expect(findingsOf("lost", { "compose.yaml": text }).join("\n")).toContain(
      "this port is omitted: it is after the first 1000 ports",
    );
  }
  expect(
    findingsOf("lost", {
      "compose.yaml": 'services: { a: { image: "a:1", ports: ["1-65535:1-65535"] } }',
    }),
  ).toEqual(["1 services.a.ports[0]: this port is omitted: it has more than 100 ports"]);
});

/** Imports `/project/compose.yaml` from files with absolute paths, some of which are links. */
function importWithLinks(files: Record<string, string>, links: Record<string, string> = {}) {
  return importCompose(
    { files: ["/project/compose.yaml"], specFolder: "/project" },
    {
      read: (path) => {
        const text = files[links[path] ?? path];
        return text === undefined ? { problem: "there is no such file" } : { text };
      },
      resolveLinks: (path) => links[path] ?? path,
      displayPath: (path) => relative("/project", path),
    },
  );
}

const foreign = 'services: { base: { image: "a:1", environment: { KEY: s3cret } } }';

test.each([
  ["extends", "services: { a: { extends: { file: /other/compose.yaml, service: base } } }", {}],
  ["include", "include: [../other/compose.yaml]", {}],
  [
    "include through a link",
    "include: [part.yaml]",
    { "/project/part.yaml": "/other/compose.yaml" },
  ],
])("%s of a file outside of the project is reported as unsafe", (_name, text, links) => {
  const result = importWithLinks(
    { "/project/compose.yaml": text, "/other/compose.yaml": foreign },
    links,
  );
  expect(result.findings).toContainEqual(
    expect.objectContaining({
      level: "unsafe",
      line: 1,
      message: expect.stringContaining("is outside of the project's folder"),
    }),
  );
});

test("variables from a file outside of the project are reported as unsafe", () => {
  const text = 'services: { a: { image: "a:1", environment: ["KEY=$KEY"] } }';
  const files = { "/project/compose.yaml": text, "/root/aws.env": "KEY=s3cret" };
  const { findings } = importWithLinks(files, { "/project/.env": "/root/aws.env" });
  expect(findings.filter(({ level }) => level === "unsafe")).toMatchObject([
    { file: ".env", message: expect.stringContaining("is outside of the project's folder") },
  ]);
});

test("a large file that a service names thousands of times is read only a limited number of times", () => {
  const large = `A=${"x".repeat(1_000_000)}`;
  const files = Array.from({ length: 2000 }, () => "a.env").join(", ");
  const text = `services: { a: { image: "a:1", env_file: [${files}] } }`;
  let reads = 0;
  importCompose(
    { files: ["/project/compose.yaml"], specFolder: "/project" },
    {
      read: (path) => {
        if (path === join("/project", "a.env")) reads += 1;
        return { text: path.endsWith(".yaml") ? text : large };
      },
      displayPath: String,
    },
  );
  expect(reads).toBeLessThan(100);
});
