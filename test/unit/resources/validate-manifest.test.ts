import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidSpecError } from "../../../src/base/errors.ts";
import {
  formatIssue,
  validateManifest,
  validatePartialSpec,
  validateSpec,
} from "../../../src/resources/validate-manifest.ts";
import { UNBOUNDED_AFTER_MS } from "../../support/wait-limits.ts";

function document(spec: unknown, kind = "App", name = "hello"): unknown {
  return { apiVersion: "berth.dev/v1", kind, metadata: { name }, spec };
}

/** Returns every issue as `field: message`; empty for a valid document. */
function issuesOf(work: () => unknown): string[] {
  try {
    work();
    return [];
  } catch (error) {
    if (!(error instanceof InvalidSpecError)) throw error;
    return error.issues.map(formatIssue);
  }
}

function pathsOf(value: unknown): string[] {
  try {
    validateManifest(value);
    return [];
  } catch (error) {
    return error instanceof InvalidSpecError ? error.issues.map(({ path }) => path) : [];
  }
}

const issuesOfApp = (spec: unknown) => issuesOf(() => validateManifest(document(spec)));

describe("validateManifest", () => {
  it("returns the document itself", () => {
    const value = document({
      image: "nginx:1.27",
      port: 80,
      env: { A: "b", TOKEN: { secret: "s" } },
    });
    expect(validateManifest(value)).toBe(value);
  });

  it.each([
    ["no document", null, "expected a mapping with apiVersion, kind, metadata and spec"],
    ["a list", [], "expected a mapping with apiVersion, kind, metadata and spec"],
    ["another file", { services: {} }, /^not a document of Berth: it has to start with apiVersion/],
    ["no version", { kind: "App" }, 'missing key "apiVersion" (write apiVersion: berth.dev/v1)'],
    [
      "another version",
      { apiVersion: "apps/v1", kind: "App" },
      'apiVersion: expected "berth.dev/v1", found "apps/v1"',
    ],
    [
      "no kind",
      { apiVersion: "berth.dev/v1" },
      'missing key "kind" (one of App, Model, Template, Secret)',
    ],
    [
      "a misspelt kind",
      { apiVersion: "berth.dev/v1", kind: "app" },
      'kind: unknown kind "app"; did you mean "App"?',
    ],
    [
      "another kind",
      { apiVersion: "berth.dev/v1", kind: "Deployment" },
      'kind: unknown kind "Deployment"; known kinds: App, Model, Template, Secret',
    ],
    [
      "a kind that is not text",
      { apiVersion: "berth.dev/v1", kind: 5 },
      "kind: unknown kind 5; known kinds: App, Model, Template, Secret",
    ],
  ])("reports problems of apiVersion, kind and metadata: %s", (_what, value, expected) => {
    const [first, ...others] = issuesOf(() => validateManifest(value));
    expect(others).toEqual([]);
    expect(first).toMatch(expected);
  });

  it.each<[string, unknown, string]>([
    [
      "an unknown key",
      { image: "a", prot: 80 },
      'spec.prot: unknown key "prot"; did you mean "port"?',
    ],
    [
      "a key in another case",
      { image: "a", health_check: {} },
      'spec.health_check: unknown key "health_check"; did you mean "healthCheck"?',
    ],
    [
      "a missing key that is only misspelt",
      { imgae: "a" },
      'spec.imgae: unknown key "imgae"; did you mean "image"?',
    ],
    [
      "text for a number",
      { image: "a", port: "eighty" },
      'spec.port: expected a whole number from 1 to 65535, found "eighty"',
    ],
    [
      "a number out of range",
      { image: "a", port: 70000 },
      "spec.port: expected a whole number from 1 to 65535, found the number 70000",
    ],
    [
      "a fraction",
      { image: "a", replicas: 1.5 },
      "spec.replicas: expected a whole number from 1 to 50, found the number 1.5",
    ],
    [
      "text for a truth value",
      { image: "a", running: "yes" },
      'spec.running: expected true or false, found "yes"',
    ],
    ["null", { image: "a", env: null }, "spec.env: expected a mapping, found nothing (null)"],
    [
      "a number for text",
      { image: 5 },
      "spec.image: expected image reference, such as nginx:1.27, found the number 5; put it in quotes",
    ],
    [
      "a number without its unit",
      { image: "a", stopGracePeriod: 5 },
      "spec.stopGracePeriod: expected a duration such as 500ms, 10s or 1h30m, found the number 5",
    ],
    [
      "a bad duration",
      { image: "a", stopGracePeriod: "5 s" },
      'spec.stopGracePeriod: expected a duration such as 500ms, 10s or 1h30m, found "5 s"',
    ],
    ["empty text", { image: "a", user: "" }, "spec.user: must not be empty"],
    [
      "too much text",
      { image: "a", user: "x".repeat(256) },
      "spec.user: has 256 characters; at most 255 are allowed",
    ],
    [
      "an empty list",
      { image: "a", healthCheck: { command: [] } },
      "spec.healthCheck.command: needs at least one entry",
    ],
    [
      "a bad choice",
      { image: "a", pullPolicy: "always" },
      'spec.pullPolicy: expected "IfNotPresent" or "Always", found "always"; did you mean "Always"?',
    ],
    [
      "a bad key of free keys",
      { image: "a", env: { "A B": "x" } },
      'spec.env["A B"]: "A B" cannot be a key here: the name of a variable has letters, digits, _ . and -, and does not start with a digit',
    ],
    [
      "a union of scalars",
      { image: "a", resources: { cpu: "lots" } },
      'spec.resources.cpu: expected a number of CPUs such as "0.5" or 500m, found "lots"',
    ],
    [
      "a union of scalars, by its number",
      { image: "a", resources: { cpu: -1 } },
      "spec.resources.cpu: expected a number above 0, found the number -1",
    ],
    [
      "a value that matches no branch of a union",
      { image: "a", env: { A: [] } },
      "spec.env.A: expected text, a number, true or false, or { secret: NAME, key: KEY }, found a list",
    ],
    [
      "a misspelt key in a union",
      { image: "a", env: { A: { secrt: "x" } } },
      'spec.env.A.secrt: unknown key "secrt"; did you mean "secret"?',
    ],
    [
      "a union by its own key",
      { source: { git: {} } },
      'spec.source.git: missing key "url" (https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH)',
    ],
    [
      "a union by a misspelt key",
      { source: { gti: { url: "x" } } },
      'spec.source.gti: unknown key "gti"; did you mean "git"?',
    ],
    [
      "a union without its key",
      { source: {} },
      "spec.source: expected one of git, archive, local or empty, found a mapping with no keys",
    ],
    [
      "two branches of a union",
      { source: { local: "a", archive: "0".repeat(64) } },
      "spec.source: set archive or local, not both",
    ],
    [
      "a volume of both sorts",
      { image: "a", volumes: [{ name: "a", hostPath: "/b", path: "/c" }] },
      "spec.volumes[0]: set name or hostPath, not both",
    ],
    [
      "a volume of unknown type",
      { image: "a", volumes: [{ path: "/c" }] },
      "spec.volumes[0]: expected a named volume (name) or a folder of the machine (hostPath), mounted at path, found a mapping with path",
    ],
    [
      "a path out of its place",
      { image: "a", volumes: [{ name: "a", path: "/a/../b" }] },
      'spec.volumes[0].path: expected an absolute path, found "/a/../b"',
    ],
    [
      "a merge key",
      { image: "a", "<<": {} },
      'spec["<<"]: unknown key "<<": YAML 1.2 has no merge keys; repeat the values',
    ],
  ])("describes the problem in one readable message: %s", (_what, spec, expected) => {
    expect(issuesOfApp(spec)).toEqual([expected]);
  });

  it("lists the known keys if none is similar to the unknown key", () => {
    expect(issuesOfApp({ image: "a", kubernetes: 1 })[0]).toMatch(
      /^spec\.kubernetes: unknown key "kubernetes"; known keys: image, source, build, platform, port/,
    );
  });

  it.each(["Hello", "-a", "a_b", "a".repeat(64), "", "a/b", "../x", "ä"])(
    "refuses the name %j",
    (name) => {
      const issues = issuesOf(() => validateManifest(document({ image: "a" }, "App", name)));
      expect(issues).toHaveLength(1);
      expect(issues[0]).toMatch(/^metadata\.name: /);
    },
  );

  it("reports all issues together, and the message summarizes them", () => {
    const value = document({ image: "a", port: 0, replicas: 0, prot: 1 });
    expect(issuesOf(() => validateManifest(value))).toHaveLength(3);
    expect(() => validateManifest(value)).toThrow(
      /^App "hello" is not valid: spec\.prot: unknown key .* \(and 2 more\)$/,
    );
  });

  it("reports unknown keys, and the parents of missing keys, by their JSON Pointers", () => {
    expect(pathsOf(document({ image: "a", "x/y~z": 1 }))).toEqual(["/spec/x~1y~0z"]);
    expect(pathsOf(document({ image: "a", env: { A: {} } }))).toEqual(["/spec/env/A"]);
    expect(pathsOf(document({ image: "a", volumes: [{ name: "x", path: "y" }] }))).toEqual([
      "/spec/volumes/0/path",
    ]);
  });

  it("never shows values of variables and secrets", () => {
    const texts = [
      ...issuesOfApp({ image: "a", env: { A: ["hunter2"], B: { secret: "Bad_hunter2" } } }),
      ...issuesOf(() =>
        validateManifest(document({ data: { a: ["hunter2"], b: 77123 } }, "Secret")),
      ),
    ];
    expect(texts).toHaveLength(4);
    expect(texts.join("\n")).not.toMatch(/hunter2|77123/);
  });

  it.each<[string, object]>([
    ["spec.volumes[0].hostPath", { volumes: [{ hostPath: "/srv\n/../etc", path: "/a" }] }],
    ["spec.volumes[0].path", { volumes: [{ name: "v", path: "/a\0" }] }],
    ["spec.workingDir", { workingDir: "/a\u001b[2J" }],
    ["spec.user", { user: "root\0" }],
    ["spec.user", { user: "\u202eroot" }],
    ["spec.source.local", { source: { local: "./a\u009b" }, image: undefined }],
    ["spec.ingress.pathPrefix", { ingress: { pathPrefix: "/a\0b" } }],
    ["spec.healthCheck.path", { healthCheck: { path: "/\r\nHost: x" } }],
  ])("refuses a character in %s that cannot be printed: %j", (field, spec) => {
    expect(issuesOfApp({ image: "a:1", ...spec }).join()).toMatch(
      `${field}: contains the character U+`,
    );
  });

  it("refuses control characters in labels, and accepts line breaks in commands and variables", () => {
    const labels = { team: "a\u001b[2Jb", note: "\u2066x", fine: "é b" };
    const value = { ...Object(document({ image: "a:1" })), metadata: { name: "hello", labels } };
    expect(issuesOf(() => validateManifest(value))).toEqual([
      "metadata.labels.team: contains the character U+001B, which cannot be printed",
      "metadata.labels.note: contains the character U+2066, which cannot be printed",
    ]);
    const script = ["sh", "-c", "echo a\n\techo b"];
    const texts = { command: script, env: { KEY: "-----\nabc" }, healthCheck: { command: script } };
    expect(issuesOfApp({ image: "a:1", ...texts })).toEqual([]);
  });

  it("refuses keys that give access to a prototype, whether parsed from JSON or set in code", () => {
    const parsed: unknown = JSON.parse('{"image":"a","env":{"__proto__":"x"}}');
    expect(issuesOfApp(parsed)).toEqual(['spec.env.__proto__: the key "__proto__" is not allowed']);
    expect(issuesOfApp({ image: "a", env: { constructor: "x" } })).toEqual([
      'spec.env.constructor: the key "constructor" is not allowed',
    ]);
  });

  it("refuses values that JSON cannot express, too deep nesting and too large values", () => {
    expect(issuesOfApp({ image: "a", port: Number.NaN })).toEqual([
      "spec.port: NaN is not a number that can be stored",
    ]);
    expect(issuesOfApp({ image: "a", env: { A: () => 1 } })).toEqual([
      "spec.env.A: not a JSON value",
    ]);
    const circular: Record<string, unknown> = { image: "a" };
    circular["env"] = circular;
    expect(issuesOfApp(circular)).toEqual(["spec.env: nested deeper than 64 levels"]);
    const wide = Array.from({ length: 1000 }, () => Array.from({ length: 300 }, () => 1));
    expect(issuesOfApp({ image: "a", command: wide })).toEqual([
      "spec.command: too large once its aliases are expanded",
    ]);
  });

  it("returns quickly with short messages for random input", () => {
    const env = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`A${i}`, []]));
    const started = performance.now();
    expect(issuesOfApp({ image: "a", env }).length).toBeLessThanOrEqual(100);
    expect(performance.now() - started).toBeLessThan(UNBOUNDED_AFTER_MS);
  });

  it("throws only InvalidSpecError, for any input", () => {
    const anything = fc.oneof(
      fc.anything(),
      fc.jsonValue().map((spec) => document(spec)),
      fc
        .record(
          {
            image: fc.anything(),
            source: fc.anything(),
            env: fc.anything(),
            volumes: fc.anything(),
          },
          { requiredKeys: [] },
        )
        .map((spec) => document(spec)),
    );
    fc.assert(
      fc.property(anything, (value) => {
        const issues = issuesOf(() => validateManifest(value));
        expect(issues.length).toBeLessThanOrEqual(100);
      }),
      { numRuns: 500 },
    );
  });
});

describe("validateSpec", () => {
  it("reports the path of each problem from the root of the manifest, such as spec.port", () => {
    expect(issuesOf(() => validateSpec("App", { image: "a", port: 0 }))).toEqual([
      "spec.port: expected a whole number from 1 to 65535, found the number 0",
    ]);
    expect(issuesOf(() => validateSpec("App", 5))).toEqual([
      "spec: expected a mapping, found the number 5",
    ]);
  });

  it("checks the rules about the name only if the name is given", () => {
    const spec = { image: "a", dependsOn: ["me"] };
    expect(issuesOf(() => validateSpec("App", spec))).toEqual([]);
    expect(issuesOf(() => validateSpec("App", spec, "me"))).toEqual([
      "spec.dependsOn[0]: an app cannot depend on itself",
    ]);
  });
});

describe("validatePartialSpec", () => {
  it.each([
    [{}],
    [{ running: false }],
    [{ image: null, env: { A: null, B: "x", C: { secret: "s" } }, healthCheck: { path: null } }],
    [{ source: { git: { ref: "main" } } }],
    [{ volumes: [{ name: "a", path: "/a" }] }],
  ])("accepts %j", (fields) => {
    expect(validatePartialSpec("App", fields)).toBe(fields);
  });

  it.each<[unknown, string]>([
    [{ runing: true }, 'spec.runing: unknown key "runing"; did you mean "running"?'],
    [{ port: "80" }, 'spec.port: expected a whole number from 1 to 65535, found "80"'],
    [
      { env: { A: [] } },
      "spec.env.A: expected text, a number, true or false, or { secret: NAME, key: KEY }, found an array",
    ],
    [
      { domain: 5 },
      "spec.domain: expected a host name in lower case, such as hello.example.org, or none, found the number 5",
    ],
    [{ volumes: [{ name: "a" }] }, 'spec.volumes[0]: missing key "path" (an absolute path)'],
    [
      { volumes: [null] },
      "spec.volumes[0]: expected a named volume (name) or a folder of the machine (hostPath), mounted at path, found nothing (null)",
    ],
    [null, "spec: expected an object, found nothing (null)"],
  ])("refuses %j", (fields, expected) => {
    expect(issuesOf(() => validatePartialSpec("App", fields))).toEqual([expected]);
  });
});
