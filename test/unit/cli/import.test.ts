import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { parseManifests } from "../../../src/resources/parse-manifests.ts";
import { type CliOptions, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const fixtures = join(import.meta.dirname, "../../fixtures/compose");
let folder: string;

beforeEach(() => {
  folder = temporaryFolder("import");
  for (const name of ["wordpress", "plausible", "jellyfin"]) {
    cpSync(join(fixtures, `${name}.yaml`), join(folder, `${name}.yaml`));
  }
});

function run(words: string, options: CliOptions = {}) {
  return runCommandLine(["import", ...words.split(" ").filter((word) => word !== "")], {
    workingDirectory: folder,
    ...options,
  });
}

it("berth import prints valid manifests on standard output, and the report on standard error", async () => {
  const { code, output, errors } = await run("wordpress.yaml");
  expect(code).toBe(0);
  const { documents, errors: problems } = parseManifests(output);
  expect(problems).toEqual([]);
  expect(documents.map(({ manifest }) => manifest.metadata.name)).toEqual([
    "wordpress-wordpress",
    "wordpress-db",
  ]);
  expect(errors).toMatch(
    /^wordpress\.yaml:8:9: changed: services\.wordpress\.ports\[0\]: 80 is used/m,
  );
  expect(errors).toMatch(/stack wordpress: 2 apps, 0 lost, 3 changed, \d+ notes\n$/);
  // A finding that concerns two services appears once in the report.
  expect(errors.match(/Berth restarts a new version at most 5 times/g)).toHaveLength(1);
  expect(errors).toContain("also wordpress.yaml:18");
});

it("berth import writes one file for each service, and replaces existing files only with --force", async () => {
  const { code, output } = await run("jellyfin.yaml --accept unsafe -o specs/media");
  expect(code).toBe(0);
  expect(output).toContain("specs/media/jellyfin-jellyfin.yaml written");
  const text = readFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), "utf8");
  expect(text).toMatch(
    /^# Created by berth import from jellyfin\.yaml, service jellyfin\.\n# Not converted:\n/,
  );
  expect(text).toContain(
    "#   jellyfin.yaml:27 services.jellyfin.devices: an App cannot use devices",
  );
  expect(parseManifests(text).errors).toEqual([]);
  writeFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), "mine");
  const again = await run("jellyfin.yaml --accept unsafe -o specs/media");
  expect(again.code).toBe(1);
  expect(again.errors).toContain(
    "nothing was written: specs/media/jellyfin-jellyfin.yaml already exists",
  );
  expect(readFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), "utf8")).toBe("mine");
  const foreign = await run("jellyfin.yaml --accept unsafe -o specs/media --force");
  expect(foreign.errors).toContain("not made by the import of this project");
  expect(readFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), "utf8")).toBe("mine");
  writeFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), `${text}# edited\n`);
  expect((await run("jellyfin.yaml --accept unsafe -o specs/media --force")).code).toBe(0);
  expect(readFileSync(join(folder, "specs/media/jellyfin-jellyfin.yaml"), "utf8")).toBe(text);
  expect(readdirSync(join(folder, "specs/media"))).toEqual(["jellyfin-jellyfin.yaml"]);
});

it("berth import does not delete a file whose name it would use for a temporary file", async () => {
  mkdirSync(join(folder, "specs"));
  writeFileSync(join(folder, "specs/wordpress-db.yaml.new"), "mine");
  const { code, errors } = await run("wordpress.yaml -o specs");
  expect(code).toBe(1);
  expect(errors).toContain("cannot write the files");
  expect(readdirSync(join(folder, "specs"))).toEqual(["wordpress-db.yaml.new"]);
  expect(readFileSync(join(folder, "specs/wordpress-db.yaml.new"), "utf8")).toBe("mine");
});

it("berth import writes nothing in a dry run", async () => {
  const { code, output, errors } = await run("jellyfin.yaml --accept unsafe -o specs --dry-run -q");
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  expect(output).toContain("lost: services.jellyfin.runtime");
  expect(output).not.toContain(": note:");
  expect(readdirSync(folder)).not.toContain("specs");
});

it("berth import exits with 1 if a service cannot be converted, and with --strict also if a setting is lost", async () => {
  const failed = await run("plausible.yaml -o specs");
  expect(failed.code).toBe(1);
  expect(failed.output).toMatch(/^plausible\.yaml:37:9: failed: .*BASE_URL must be set/m);
  expect(failed.errors).toContain("nothing is written: a service could not be converted");
  expect(readdirSync(folder)).not.toContain("specs");
  expect((await run("plausible.yaml")).output).not.toContain("kind: App");
  expect((await run("plausible.yaml -o specs --partial")).code).toBe(1);
  expect(readdirSync(join(folder, "specs"))).toEqual([
    "plausible-plausible-db.yaml",
    "plausible-plausible-events-db.yaml",
  ]);
  expect((await run("jellyfin.yaml --dry-run --strict")).code).toBe(1);
  expect((await run("wordpress.yaml --dry-run --strict")).code).toBe(0);
});

it("berth import reads variables from --env-file, from .env, and from the shell only with --use-environment", async () => {
  const text = "services: { a: { image: 'x:${TAG}', environment: { HOME_OF: '${WHO}' } } }";
  writeFileSync(join(folder, "compose.yaml"), text);
  writeFileSync(join(folder, ".env"), "TAG=1\nWHO=env\n");
  writeFileSync(join(folder, "other.env"), "TAG=2\n");
  const environment = { TAG: "3" };
  const spec = async (words: string) => {
    const { output } = await run(words, { environment });
    return parseManifests(output).documents[0]?.manifest.spec;
  };
  expect(await spec("")).toMatchObject({ image: "x:1", env: { HOME_OF: "env" } });
  expect(await spec("--env-file other.env")).toMatchObject({ image: "x:2", env: { HOME_OF: "" } });
  expect(await spec("--use-environment")).toMatchObject({ image: "x:3" });
  const unset = await run("--env-file other.env");
  expect(unset.errors).toContain(
    "compose.yaml:1:61: lost: services.a.environment.HOME_OF: the variable WHO",
  );
});

it("berth import finds the Compose file and its override in the working directory, and reads standard input", async () => {
  writeFileSync(join(folder, "docker-compose.yml"), "services: { a: { image: x:1 } }");
  writeFileSync(join(folder, "docker-compose.override.yml"), "services: { a: { user: '7' } }");
  expect((await run("")).output).toContain('user: "7"');
  const piped = await run("-", { input: "services: { b: { image: y:1, pid: host } }" });
  expect(piped.output).toContain("image: y:1");
  expect(piped.errors).toContain("-:1:30: lost: services.b.pid");
});

it("berth import writes no secret to the files or to the report", async () => {
  const { output, errors } = await run("wordpress.yaml --secrets secret");
  expect(output).toContain("secret: wordpress-db-secrets");
  expect(errors).toContain(
    "berth secrets set wordpress-wordpress-secrets WORDPRESS_DB_PASSWORD=VALUE",
  );
  expect(output + errors).not.toContain("examplepass");
});

it("berth import prints the report as JSON", async () => {
  const { output } = await run("jellyfin.yaml --accept unsafe -o out --report json --stack tv");
  expect(JSON.parse(output)).toMatchObject({
    apps: [{ service: "jellyfin", name: "tv-jellyfin", file: "out/tv-jellyfin.yaml" }],
    findings: expect.arrayContaining([
      expect.objectContaining({
        level: "lost",
        key: "services.jellyfin.devices",
        line: 27,
        column: 5,
      }),
    ]),
    secrets: [],
  });
});

it("berth import reports errors in the command line", async () => {
  const missing = await run("nowhere.yaml");
  expect(missing.code).toBe(2);
  expect(missing.errors).toContain("there is no file nowhere.yaml");
  mkdirSync(join(folder, "sub"));
  expect((await run("sub")).errors).toContain("sub is a folder");
  expect((await run("", { workingDirectory: join(folder, "sub") })).errors).toContain(
    "no Compose file",
  );
  expect((await run("wordpress.yaml -o json")).errors).toContain(
    '-o names a folder here, but "json"',
  );
  expect((await run("wordpress.yaml --secrets plain")).code).toBe(2);
});

it("berth import reports mounts as unsafe if they reach the engine, or files outside of the project", async () => {
  mkdirSync(join(folder, "inside"));
  symlinkSync("/", join(folder, "disk"));
  const mounts = [
    "./inside:/a",
    "/etc/localtime:/etc/localtime:ro",
    "/var/run/docker.sock:/var/run/docker.sock:ro",
    "/:/host:ro",
    "../:/b",
    "./disk/etc:/c",
    "/run/user/1000/podman/podman.sock:/p",
    "bound:/d",
  ];
  writeFileSync(join(folder, "../berth-outside.env"), "KEY=secret");
  const compose = {
    services: {
      build: { build: "..", env_file: ["../berth-outside.env"] },
      a: { image: "bb:1", volumes: mounts, configs: [{ source: "shadow", target: "/x" }] },
    },
    volumes: { bound: { driver_opts: { type: "none", o: "bind", device: "/srv" } } },
    configs: { shadow: { file: "/etc/shadow" } },
  };
  writeFileSync(join(folder, "compose.yaml"), JSON.stringify(compose));
  const refused = await run("-o specs --report json");
  expect(refused.code).toBe(1);
  expect(readdirSync(folder)).not.toContain("specs");
  const { findings }: { findings: { level: string; key: string }[] } = JSON.parse(refused.output);
  expect(findings.filter(({ level }) => level === "unsafe").map(({ key }) => key)).toEqual([
    "services.build.build",
    "services.build.env_file[0]",
    ...[2, 3, 4, 5, 6, 7].map((index) => `services.a.volumes[${index}]`),
    "services.a.configs[0]",
  ]);
  expect((await run("-o specs --accept unsafe")).code).toBe(0);
  rmSync(join(folder, "../berth-outside.env"));
});

it("berth import writes an app that is less safe than the file requests only with --accept unsafe", async () => {
  writeFileSync(
    join(folder, "compose.yaml"),
    "services: { a: { image: x:1, network_mode: none } }",
  );
  const refused = await run("--stack s -o specs");
  expect(refused.code).toBe(1);
  expect(refused.output).toContain("unsafe: services.a.network_mode");
  expect(refused.errors).toContain("--accept unsafe writes it");
  expect(readdirSync(folder)).not.toContain("specs");
  const accepted = await run("--stack s -o specs --accept unsafe");
  expect(accepted.code).toBe(0);
  expect(readFileSync(join(folder, "specs/s-a.yaml"), "utf8")).toContain("services.a.network_mode");
});

it("berth import lists the public services at the end of its report, or suggests --public for a service that is probably a web server", async () => {
  const { output } = await run("wordpress.yaml -o specs");
  expect(output).toContain(
    "Public:\n  wordpress-wordpress: http://wordpress-wordpress.<base domain> leads to port 80 (the usual port of wordpress:6.8-apache), because its port is published on every address of the machine (wordpress.yaml:8)\n",
  );
  writeFileSync(
    join(folder, "compose.yaml"),
    "services: { a: { image: x:1, expose: ['8080'] }, b: { image: y:1 } }",
  );
  expect((await run("--dry-run")).output).toContain(
    "Nothing is public: no service publishes a web port or has a route. --public a gives the likely service a domain.",
  );
  const made = await run("--dry-run --stack s --public b:9000 --report json");
  expect(JSON.parse(made.output)).toMatchObject({
    public: [
      {
        app: "s-b",
        url: "http://s-b.<base domain>",
        why: "--public names it",
        httpPort: 9000,
        evidence: "--public",
      },
    ],
  });
});
