import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import { importCompose } from "../../../src/compose/import-compose.ts";
import { collectSpecs, fixturesFolder, importTexts } from "./compose-fixtures.ts";

/** Values that need no finding, because they have no effect, or only an effect that Berth has by default. */
const saysNothing: readonly RegExp[] = [
  /^(deploy\.)?mode=replicated$/,
  /^depends_on\.[^.]+\.condition=service_(healthy|started)$/,
  /^depends_on\.[^.]+\.required=false$/,
  /^links\.\d+=/,
  /^profiles\./,
  /^container_name=/,
  /^healthcheck\.disable=false$/,
  /^extra_hosts\.\d+=host\.docker\.internal:host-gateway$/,
  /^ports\.\d+\.protocol=tcp$/,
  /^(deploy\.)?labels\..*traefik\.(enable|http\.routers\.[^.]+\.(entrypoints|tls\.certresolver))/,
];

type Step = string | number;

interface Leaf {
  readonly path: readonly Step[];
  readonly text: string;
  /** The numbers of the lines that belong to the value: its own, and those of every key above it up to the service. */
  readonly lines: ReadonlySet<number>;
}

const files = ["wordpress", "nextcloud", "paperless", "gitea", "vaultwarden", "jellyfin", "traefik"]
  .concat(["home-assistant", "n8n", "ghost", "mastodon", "authentik", "dev/compose"])
  .map((name) => `${name}.yaml`);

describe.each(files)("the fixture %s", (file) => {
  test("every value of every service changes an App or is reported", () => {
    const text = readFileSync(join(fixturesFolder, file), "utf8");
    const whole = importText(file, text);
    const specs = JSON.stringify(collectSpecs(whole));
    const failed = new Set(
      whole.findings.flatMap((f) => (f.level === "failed" ? [f.service] : [])),
    );
    const silent = leavesOf(text)
      .filter(({ path }) => !failed.has(String(path[1])))
      .filter(({ path, text: value }) => {
        const label = `${path.slice(2).join(".")}=${value}`;
        return !saysNothing.some((pattern) => pattern.test(label));
      })
      .filter(({ lines }) => !whole.findings.some((f) => f.file === file && lines.has(f.line)))
      .filter(
        ({ path }) => JSON.stringify(collectSpecs(importText(file, without(text, path)))) === specs,
      );
    expect(silent.map(({ path }) => path.join("."))).toEqual([]);
  });
});

/** A realistic value for each key of a service. */
const samples: Readonly<Record<string, unknown>> = {
  annotations: { a: "b" },
  attach: true,
  blkio_config: { weight: 300 },
  build: { context: "./src", ssh: ["default"], args: ["A=1"] },
  cap_add: ["ALL"],
  cap_drop: ["ALL"],
  cgroup: "host",
  cgroup_parent: "m-executor-abcd",
  command: "run --now",
  configs: ["settings"],
  container_name: "other",
  cpu_shares: 73,
  cpus: 0.5,
  cpuset: "0,1",
  credential_spec: { file: "spec.json" },
  depends_on: { db: { condition: "service_healthy" } },
  deploy: { replicas: 2, placement: { constraints: ["node.role == manager"] } },
  develop: { watch: [] },
  device_cgroup_rules: ["c 1:3 mr"],
  devices: ["/dev/a:/dev/b"],
  dns: "8.8.8.8",
  dns_opt: ["use-vc"],
  dns_search: "example.org",
  domainname: "example.org",
  entrypoint: ["/start"],
  env_file: ["missing.env"],
  environment: { LEVEL: "info" },
  expose: ["3000"],
  external_links: ["redis"],
  extra_hosts: ["nas:10.0.0.1"],
  gpus: "all",
  group_add: ["mail"],
  healthcheck: { test: ["CMD", "true"] },
  hostname: "somewhere",
  init: true,
  ipc: "host",
  isolation: "default",
  label_file: "./labels",
  labels: ["a.b=c"],
  links: ["cache:base"],
  logging: { driver: "syslog" },
  mac_address: "02:42:ac:11:65:43",
  mem_limit: "1g",
  mem_reservation: "64m",
  mem_swappiness: 10,
  memswap_limit: "2g",
  models: ["llm"],
  network_mode: "host",
  networks: { front: { aliases: ["x"] } },
  oom_kill_disable: true,
  oom_score_adj: 100,
  pid: "host",
  pids_limit: 10,
  platform: "linux/arm64",
  ports: ["8080:80"],
  post_start: [{ command: "ls" }],
  pre_stop: [{ command: "ls" }],
  privileged: true,
  provider: { type: "x" },
  pull_policy: "always",
  read_only: true,
  restart: "always",
  runtime: "runc",
  scale: 3,
  secrets: ["token"],
  security_opt: ["label=disable"],
  shm_size: "64m",
  stdin_open: true,
  stop_grace_period: "1m",
  stop_signal: "SIGUSR1",
  storage_opt: { size: "1G" },
  sysctls: ["a.b=1"],
  tmpfs: "/run",
  tty: true,
  ulimits: { nproc: 10 },
  use_api_socket: true,
  user: "1000",
  userns_mode: "host",
  uts: "host",
  volumes: ["data:/data"],
  volumes_from: ["db"],
  working_dir: "/srv",
  "x-own": { a: 1 },
};

/** Generates a value for any key, but never 1: a replica count of 1 changes nothing, and needs no report. */
const anyValue = fc.oneof(
  fc.constantFrom("text", "yes", "a:b", "2", "/x", "$$", "-"),
  fc.integer({ min: 2, max: 9 }),
  fc.array(fc.constantFrom("a", "b=c", "/d"), { minLength: 1, maxLength: 2 }),
  fc.dictionary(fc.constantFrom("a", "test", "limits"), fc.constantFrom("1", "x"), { minKeys: 1 }),
);
const unknownKey = fc.stringMatching(/^[a-z][a-z_]{2,12}$/).map((name) => `zz_${name}`);
const service = fc
  .record({
    known: fc.subarray(Object.keys(samples), { minLength: 1, maxLength: 12 }),
    odd: fc.dictionary(fc.constantFrom(...Object.keys(samples)), anyValue, { maxKeys: 3 }),
    unknown: fc.dictionary(unknownKey, anyValue, { maxKeys: 3 }),
  })
  .map(({ known, odd, unknown }) => ({
    image: "example/app:1",
    ...Object.fromEntries(known.map((key) => [key, samples[key]])),
    ...odd,
    ...unknown,
  }));

test("every key of a service is converted or reported, in any combination", () => {
  fc.assert(
    fc.property(service, (body: Readonly<Record<string, unknown>>) => {
      const whole = importBody(body);
      if (whole.findings.some(({ level }) => level === "failed")) return;
      for (const key of Object.keys(body)) {
        if (key === "image" && body["build"] !== undefined) continue;
        const path = `services.app.${key}`;
        const isReported = whole.findings.some(
          (found) =>
            found.key === path ||
            found.key.startsWith(`${path}.`) ||
            found.key.startsWith(`${path}[`),
        );
        if (isReported) continue;
        const { [key]: _, ...rest } = body;
        expect({ key, specs: collectSpecs(importBody(rest)) }).not.toEqual({
          key,
          specs: collectSpecs(whole),
        });
      }
    }),
    { numRuns: 150 },
  );
});

test.each(Object.entries(samples))("the key %s is converted or reported", (key, value) => {
  const { findings } = importBody({ image: "example/app:1", [key]: value });
  const found = findings.filter((finding) => finding.key.startsWith(`services.app.${key}`));
  const before = collectSpecs(importBody({ image: "example/app:1" }));
  const changes =
    JSON.stringify(collectSpecs(importBody({ image: "example/app:1", [key]: value }))) !==
    JSON.stringify(before);
  expect({ key, isReported: found.length > 0, changes }).not.toEqual({
    key,
    isReported: false,
    changes: false,
  });
});

function importBody(app: Readonly<Record<string, unknown>>) {
  const other = { image: "example/other:1" };
  const project = { services: { app, db: other, cache: other } };
  return importTexts({ "compose.yaml": JSON.stringify(project) });
}

/** Imports a fixture with changed text; its other files are read from disk. */
function importText(file: string, text: string) {
  const path = join(fixturesFolder, file);
  return importCompose(
    {
      files: [path],
      specFolder: dirname(path),
      profiles: ["*"],
      environment: new Map([["AUTHENTIK_KEY", "x"]]),
    },
    {
      read: (asked) => {
        if (asked === path) return { text };
        try {
          return { text: readFileSync(asked, "utf8") };
        } catch {
          return { problem: "there is no such file" };
        }
      },
      displayPath: (asked) => asked.slice(fixturesFolder.length + 1),
    },
  );
}

function without(text: string, path: readonly Step[]): string {
  const document = parseDocument(text);
  document.deleteIn(path);
  return document.toString();
}

function leavesOf(text: string): Leaf[] {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const leaves: Leaf[] = [];
  const visit = (node: unknown, path: readonly Step[], lines: readonly number[]) => {
    const own = [...lines, lineOf(node, counter)];
    if (isMap<Node, Node>(node)) {
      for (const { key, value } of node.items) {
        const name = isScalar(key) ? String(key.value) : "";
        visit(value, [...path, name], path.length < 2 ? [] : [...own, lineOf(key, counter)]);
      }
    } else if (isSeq(node)) {
      for (const [index, item] of node.items.entries()) visit(item, [...path, index], own);
    } else if (isAlias(node) || (isScalar(node) && node.value !== null)) {
      leaves.push({ path, text: isScalar(node) ? String(node.value) : "", lines: new Set(own) });
    }
  };
  visit(document.get("services"), ["services"], []);
  expect(leaves.length).toBeGreaterThan(5);
  return leaves;
}

function lineOf(node: unknown, counter: LineCounter): number {
  const isPlaced = isScalar(node) || isMap(node) || isSeq(node) || isAlias(node);
  return isPlaced && node.range ? counter.linePos(node.range[0]).line : 0;
}
