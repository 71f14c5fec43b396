import fc from "fast-check";
import { expect, test } from "vitest";
import { hashJson } from "../../../../src/base/canonical-json.ts";
import { buildModelSettings } from "../../../../src/controller/apps/model-inputs.ts";
import { revisionHash } from "../../../../src/controller/apps/revision-hash.ts";
import { MODELS_PORT } from "../../../../src/controller/models/container-listener.ts";
import { resolveAppDefaults } from "../../../../src/resources/app-defaults.ts";
import { AppSpec } from "../../../../src/resources/app-spec.ts";

/** Computes the revision hash as earlier versions of Berth did: only from the fields that affect containers. */
function hashOfEarlierVersions(spec: AppSpec, image: string | null): string {
  const {
    replicas: _replicas,
    oneShot: _oneShot,
    running: _running,
    suspend: _suspend,
    domain: _domain,
    ingress: _ingress,
    rollout: _rollout,
    restart: _restart,
    healthCheck: _health,
    dependsOn: _dependsOn,
    pullSecret: _pullSecret,
    models = [],
    ...container
  } = spec;
  const built = spec.source === undefined ? {} : { image };
  const modelSettings =
    models.length === 0
      ? {}
      : { models: buildModelSettings(resolveAppDefaults(spec), MODELS_PORT) };
  return hashJson({ ...container, ...built, ...modelSettings }).slice(0, 16);
}

const name = fc.constantFrom("a", "web", "data", "x1");
const port = fc.integer({ min: 1, max: 65_535 });
const duration = fc.constantFrom("1s", "30s", "2m");
const values: Record<keyof AppSpec, fc.Arbitrary<unknown>> = {
  image: fc.constantFrom("web:1", "web:2", "registry.example.org/web:1"),
  source: fc.oneof(
    fc.record({ archive: fc.constantFrom("a".repeat(64), "b".repeat(64)) }),
    fc.record({ git: fc.record({ url: fc.constant("https://example.org/web.git") }) }),
  ),
  build: fc.record({ target: name, args: fc.dictionary(name, fc.string()) }, { requiredKeys: [] }),
  platform: fc.constantFrom("linux/amd64", "linux/arm64"),
  ulimits: fc.dictionary(fc.constantFrom("nofile", "nproc"), fc.nat()),
  port,
  domain: fc.domain(),
  ingress: fc.record({ domains: fc.array(fc.domain()) }, { requiredKeys: [] }),
  env: fc.dictionary(
    fc.constantFrom("A", "B", "OPENAI_MODEL", "PORT"),
    fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.record({ secret: name })),
  ),
  entrypoint: fc.array(fc.string()),
  command: fc.array(fc.string()),
  user: fc.constantFrom("root", "1000"),
  workingDir: fc.constantFrom("/", "/app"),
  oneShot: fc.boolean(),
  running: fc.boolean(),
  suspend: fc.boolean(),
  replicas: fc.integer({ min: 1, max: 50 }),
  resources: fc.record(
    { memory: fc.constantFrom("64Mi", "1Gi"), cpu: fc.constant(0.5) },
    { requiredKeys: [] },
  ),
  volumes: fc.array(fc.record({ name, path: fc.constant("/data"), readOnly: fc.boolean() })),
  folders: fc.array(fc.record({ name, path: fc.constant("/data"), shared: fc.boolean() })),
  files: fc.array(fc.record({ path: fc.constant("/etc/a"), content: fc.string() })),
  ports: fc.array(fc.record({ host: port, container: port })),
  healthCheck: fc.record({ path: fc.constant("/"), interval: duration }, { requiredKeys: [] }),
  rollout: fc.record({ drain: duration, autoRevert: fc.boolean() }, { requiredKeys: [] }),
  restart: fc.record({ attempts: fc.nat(10), backoff: duration }, { requiredKeys: [] }),
  stopGracePeriod: duration,
  models: fc.uniqueArray(name),
  aliases: fc.uniqueArray(name),
  hostname: name,
  security: fc.record(
    { readOnlyRoot: fc.boolean(), dropCapabilities: fc.constant(["ALL"]) },
    { requiredKeys: [] },
  ),
  tmpfs: fc.array(fc.record({ path: fc.constant("/tmp") })),
  shmSize: fc.constantFrom("64Mi", "1Gi"),
  dependsOn: fc.uniqueArray(name),
  pullPolicy: fc.constantFrom("IfNotPresent", "Always"),
  pullSecret: name,
};
// Each value has the type of its field, which fast-check cannot express.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
const specs = fc.record(values, { requiredKeys: [] }).map((spec) => spec as AppSpec);

test("the values of this test cover every field of an App's spec", () => {
  expect(Object.keys(values).toSorted()).toEqual(Object.keys(AppSpec.properties).toSorted());
});

test("every spec keeps the revision hash that earlier versions of Berth stored", () => {
  fc.assert(
    fc.property(specs, fc.option(fc.constantFrom("built:1", "built:2")), (spec, image) => {
      expect(revisionHash(spec, image, null)).toBe(hashOfEarlierVersions(spec, image));
    }),
    { numRuns: 1_000 },
  );
});
