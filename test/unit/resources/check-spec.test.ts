import { describe, expect, it } from "vitest";
import { InvalidSpecError } from "../../../src/base/errors.ts";
import type { Kind } from "../../../src/resources/kinds.ts";
import { formatIssue, validateSpec } from "../../../src/resources/validate-manifest.ts";

function issuesOf(kind: Kind, spec: unknown): string[] {
  try {
    validateSpec(kind, spec, "me");
    return [];
  } catch (error) {
    if (!(error instanceof InvalidSpecError)) throw error;
    return error.issues.map(formatIssue);
  }
}

describe("an App", () => {
  it.each<[string, Record<string, unknown>, string]>([
    [
      "neither image nor source",
      { port: 80 },
      "spec: needs image (an image reference) or source (something to build)",
    ],
    [
      "image and source",
      { image: "a", source: { local: "." } },
      "spec.source: set image or source, not both",
    ],
    [
      "a one-shot with a port",
      { image: "a", oneShot: true, port: 80 },
      "spec.port: cannot be combined with oneShot: the container runs once to its end",
    ],
    [
      "a one-shot with restarts",
      { image: "a", oneShot: true, restart: { attempts: 3 } },
      "spec.restart: cannot be combined with oneShot: the container runs once to its end",
    ],
    [
      "several replicas of a one-shot",
      { image: "a", oneShot: true, replicas: 2 },
      "spec.replicas: cannot be combined with oneShot: the container runs only once",
    ],
    [
      "a file without text",
      { image: "a", files: [{ path: "/a" }] },
      "spec.files[0]: expected a file with path, and its text in content or from, found a mapping with path",
    ],
    [
      "a file with two texts",
      { image: "a", files: [{ path: "/a", content: "x", from: { secret: "s" } }] },
      "spec.files[0]: set content or from, not both",
    ],
    [
      "a file whose mode is a number",
      { image: "a", files: [{ path: "/a", content: "", mode: 292 }] },
      'spec.files[0].mode: expected octal permissions in quotes, such as "0400" or "0555", found the number 292',
    ],
    [
      "a file outside of every folder",
      { image: "a", files: [{ path: "/a/../b", content: "" }] },
      'spec.files[0].path: expected an absolute path, found "/a/../b"',
    ],
    [
      "a folder as a file",
      { image: "a", files: [{ path: "/a/", content: "" }] },
      "spec.files[0].path: names a folder: a file's path does not end with /",
    ],
    [
      "a file at the path of a volume",
      { image: "a", volumes: [{ name: "v", path: "/a" }], files: [{ path: "/a", content: "" }] },
      'spec.files[0].path: "/a" is mounted already by volumes[0]',
    ],
    [
      "a file with too much text",
      { image: "a", files: [{ path: "/a", content: "x".repeat(262_145) }] },
      "spec.files[0].content: has 262145 characters; at most 262144 are allowed",
    ],
    [
      "files with too much text together",
      {
        image: "a",
        files: ["/a", "/b", "/c"].map((path) => ({ path, content: "ü".repeat(100_000) })),
      },
      "spec.files: the files have 585.9 KiB of text, and may have 512 KiB together",
    ],
    [
      "an image in capitals",
      { image: "Nginx" },
      'spec.image: "Nginx" has upper-case letters; image names are lower case',
    ],
    [
      "an image without a name",
      { image: ":1.27" },
      'spec.image: ":1.27" is not an image reference, such as nginx:1.27 or registry.example.org/team/app:v1',
    ],
    [
      "an image with an odd registry",
      { image: "a_b.c:5000/app" },
      'spec.image: "a_b.c:5000/app" has a registry that is not a host name or host:port',
    ],
    [
      "an image with an odd tag",
      { image: "nginx:-1" },
      'spec.image: "nginx:-1" has a tag that is not letters, digits, _ . and - (at most 128)',
    ],
    [
      "an image with a short digest",
      { image: "nginx@sha256:abc" },
      'spec.image: "nginx@sha256:abc" has a digest that is not of the form @sha256:<64 hexadecimal digits>',
    ],
    [
      "a folder outside the repository",
      { source: { git: { url: "https://x/y", path: "a/../../b" } } },
      "spec.source.git.path: has to be a path inside the repository, without ..",
    ],
    [
      "an absolute Dockerfile",
      { source: { git: { url: "https://x/y", dockerfile: "/etc/passwd" } } },
      "spec.source.git.dockerfile: has to be a path inside the repository, without ..",
    ],
    [
      "a folder of the machine as a repository",
      { source: { git: { url: "/srv/repository.git" } } },
      'spec.source.git.url: expected https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH, found "/srv/repository.git"',
    ],
    [
      "a file URL",
      { source: { git: { url: "file://me:hunter2@srv/repository.git" } } },
      'spec.source.git.url: expected https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH, found "file://...@srv/repository.git"',
    ],
    [
      "a program in place of a host",
      { source: { git: { url: "ext::sh -c id" } } },
      'spec.source.git.url: expected https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH, found "ext::sh -c id"',
    ],
    [
      "white space in a URL",
      { source: { git: { url: "https://x/y z" } } },
      "spec.source.git.url: contains white space",
    ],
    [
      "a password in a URL",
      { source: { git: { url: "https://me:hunter2@x/y" } } },
      "spec.source.git.url: contains a user or a password, which would be readable: put them into a Secret and name it in credential",
    ],
    [
      "an option in place of a branch",
      { source: { git: { url: "https://x/y", ref: "--upload-pack=id" } } },
      "spec.source.git.ref: is not the name of a branch or tag, nor a commit",
    ],
    [
      "build without source",
      { image: "a", build: { target: "x" } },
      "spec.build: configures the build of source, but there is no source: set source, or remove build",
    ],
    [
      "a Dockerfile outside the source",
      { source: { local: "." }, build: { dockerfile: "../Dockerfile" } },
      "spec.build.dockerfile: has to be a path inside the source, without ..",
    ],
    [
      "two Dockerfiles",
      { source: { git: { url: "https://x/y", dockerfile: "A" } }, build: { dockerfile: "B" } },
      "spec.build.dockerfile: set build.dockerfile or source.git.dockerfile, not both",
    ],
    [
      "a base image in addition to a Dockerfile",
      { source: { local: "." }, build: { dockerfile: "A", baseImage: "node:22" } },
      "spec.build.baseImage: is for a generated Dockerfile, and dockerfile names one: set one of them",
    ],
    [
      "a base image in capitals",
      { source: { local: "." }, build: { baseImage: "Node" } },
      'spec.build.baseImage: "Node" has upper-case letters; image names are lower case',
    ],
    [
      "a domain without a port",
      { image: "a", domain: "a.example.org" },
      "spec.domain: needs port: the port in the container to which requests are sent",
    ],
    [
      "ingress without a port",
      { image: "a", ingress: { https: "off" } },
      "spec.ingress: needs port: the port in the container to which requests are sent",
    ],
    [
      "a wildcard for the app's own domain",
      { image: "a", port: 80, domain: "*.example.org" },
      'spec.domain: "*.example.org" stands for many domains, and this field is the app\'s address: put the pattern into ingress.domains',
    ],
    [
      "options of the ingress for an app without a domain",
      { image: "a", port: 80, domain: "none", ingress: { domains: ["b.org"] } },
      "spec.ingress: has no effect with domain: none, because the app gets no requests from outside",
    ],
    [
      "a domain twice",
      { image: "a", port: 80, domain: "a.org", ingress: { domains: ["b.org", "a.org"] } },
      'spec.ingress.domains[1]: "a.org" is listed already as domain',
    ],
    [
      "a redirect from a domain of its own",
      {
        image: "a",
        port: 80,
        ingress: { domains: ["b.org"], redirects: [{ from: "b.org", to: "https://c.org" }] },
      },
      'spec.ingress.redirects[0].from: "b.org" is a domain of the app itself (ingress.domains[0]): leave out one',
    ],
    [
      "two redirects from one domain",
      {
        image: "a",
        port: 80,
        ingress: { redirects: [{ from: "b.org" }, { from: "b.org" }] },
      },
      'spec.ingress.redirects[1].from: "b.org" is redirected already by redirects[0]',
    ],
    [
      "a redirect to its own source",
      {
        image: "a",
        port: 80,
        ingress: { redirects: [{ from: "*.b.org", to: "https://www.b.org/x" }] },
      },
      'spec.ingress.redirects[0].to: redirects back to "*.b.org", which makes a loop',
    ],
    [
      "a path that climbs",
      { image: "a", port: 80, ingress: { pathPrefix: "/a/../b" } },
      "spec.ingress.pathPrefix: contains an empty segment, . or .., which no request path has",
    ],
    [
      "an encoded path",
      { image: "a", port: 80, ingress: { pathPrefix: "/a%2fb" } },
      "spec.ingress.pathPrefix: is compared with paths after decoding: write it without % and \\",
    ],
    [
      "stripPrefix alone",
      { image: "a", port: 80, ingress: { stripPrefix: true } },
      "spec.ingress.stripPrefix: has no effect without pathPrefix",
    ],
    [
      "two maintenance pages",
      { image: "a", port: 80, ingress: { maintenance: { message: "a", html: "b" } } },
      "spec.ingress.maintenance: set message or html, not both",
    ],
    [
      "an empty program",
      { image: "a", command: [""] },
      "spec.command[0]: names no program: the first entry is empty",
    ],
    [
      "an empty entrypoint",
      { image: "a", entrypoint: ["", "x"] },
      "spec.entrypoint[0]: names no program: the first entry is empty",
    ],
    [
      "a NUL in an argument",
      { image: "a", command: ["a", "b\0"] },
      "spec.command[1]: contains a NUL character",
    ],
    [
      "a NUL in a variable",
      { image: "a", env: { A: "\0" } },
      "spec.env.A: contains a NUL character",
    ],
    [
      "a rounded number",
      { image: "a", env: { A: 2 ** 60 } },
      "spec.env.A: loses digits as a number; put it in quotes",
    ],
    [
      "path and command",
      { image: "a", port: 1, healthCheck: { path: "/", command: ["x"] } },
      "spec.healthCheck.command: set path or command, not both",
    ],
    [
      "port and command",
      { image: "a", healthCheck: { port: 1, command: ["x"] } },
      "spec.healthCheck.command: set port or command, not both",
    ],
    [
      "a path without a port",
      { image: "a", healthCheck: { path: "/" } },
      "spec.healthCheck.path: needs a port: set spec.port or spec.healthCheck.port",
    ],
    [
      "a path with a blank",
      { image: "a", port: 1, healthCheck: { path: "/a b" } },
      "spec.healthCheck.path: contains white space; write it as %20",
    ],
    [
      "no interval",
      { image: "a", healthCheck: { interval: "0s" } },
      "spec.healthCheck.interval: has to be longer than 0",
    ],
    [
      "no timeout",
      { image: "a", healthCheck: { timeout: "0.1ms" } },
      "spec.healthCheck.timeout: has to be longer than 0",
    ],
    [
      "no deadline",
      { image: "a", rollout: { progressDeadline: "0m" } },
      "spec.rollout.progressDeadline: has to be longer than 0",
    ],
    [
      "no restart interval",
      { image: "a", restart: { interval: "0s" } },
      "spec.restart.interval: has to be longer than 0",
    ],
    [
      "a grace of years",
      { image: "a", stopGracePeriod: "400d" },
      "spec.stopGracePeriod: is longer than a year (365d)",
    ],
    [
      "a grace without end",
      { image: "a", stopGracePeriod: `${"9".repeat(400)}d` },
      "spec.stopGracePeriod: is longer than a year (365d)",
    ],
    [
      "little memory",
      { image: "a", resources: { memory: "256" } },
      "spec.resources.memory: 256 is 256 B; a container needs at least 6Mi",
    ],
    [
      "endless memory",
      { image: "a", resources: { memory: `${"9".repeat(400)}Gi` } },
      "spec.resources.memory: is more memory than any machine has",
    ],
    [
      "no CPU",
      { image: "a", resources: { cpu: "0" } },
      "spec.resources.cpu: has to be at least 0.01 (10m)",
    ],
    [
      "next to no CPU",
      { image: "a", resources: { cpu: 1e-7 } },
      "spec.resources.cpu: has to be at least 0.01 (10m)",
    ],
    [
      "one path for two volumes",
      {
        image: "a",
        volumes: [
          { name: "a", path: "/d/" },
          { hostPath: "/x", path: "//d" },
        ],
      },
      'spec.volumes[1].path: "//d" is mounted already by volumes[0]',
    ],
    [
      "one name for a volume of the app and one of its stack",
      {
        image: "a",
        volumes: [
          { name: "a", path: "/d" },
          { name: "a", path: "/e", shared: true },
        ],
      },
      'spec.volumes[1].shared: "a" is the name of volumes[0], with another value of shared',
    ],
    [
      "a source without files and without a Dockerfile",
      { source: { empty: true } },
      "spec.source.empty: needs build.inline: a Dockerfile, since there are no files",
    ],
    [
      "a Dockerfile in the spec and one in the source",
      { source: { archive: "a".repeat(64) }, build: { inline: "FROM a", dockerfile: "b" } },
      "spec.build.dockerfile: not with build.inline, which is the Dockerfile",
    ],
    [
      "a soft limit above the hard one",
      { image: "a", ulimits: { nofile: { soft: 2, hard: 1 } } },
      "spec.ulimits.nofile.soft: is above hard, which is 1",
    ],
    [
      "a folder over a volume",
      { image: "a", volumes: [{ name: "a", path: "/d" }], folders: [{ name: "a", path: "/d/" }] },
      'spec.folders[0].path: "/d/" is mounted already by volumes[0]',
    ],
    [
      "a volume over everything",
      { image: "a", volumes: [{ name: "a", path: "/./" }] },
      "spec.volumes[0].path: cannot be the root of the container",
    ],
    [
      "replicas with a port of the machine",
      { image: "a", replicas: 2, ports: [{ host: 1, container: 1 }] },
      "spec.ports: a port of the machine belongs to one container: set replicas to 1 or leave ports out",
    ],
    [
      "one port twice",
      {
        image: "a",
        ports: [
          { host: 1, container: 1 },
          { host: 1, container: 2, address: "127.0.0.1" },
        ],
      },
      "spec.ports[1].host: 1 is published already by ports[0]",
    ],
    [
      "an invalid address",
      { image: "a", ports: [{ host: 1, container: 1, address: "1.2.3" }] },
      'spec.ports[0].address: "1.2.3" is not an IP address',
    ],
    [
      "itself",
      { image: "a", dependsOn: ["me"] },
      "spec.dependsOn[0]: an app cannot depend on itself",
    ],
    [
      "a dependency twice",
      { image: "a", dependsOn: ["b", "b"] },
      'spec.dependsOn[1]: "b" is listed twice',
    ],
    [
      "an address for a domain",
      { image: "a", port: 80, domain: "10.0.0.1" },
      'spec.domain: "10.0.0.1" is an address; a domain is a name, such as hello.example.org',
    ],
    [
      "a long part of a domain",
      { image: "a", port: 80, domain: `${"a".repeat(64)}.org` },
      `spec.domain: "${"a".repeat(64)}.org" has a part longer than 63 characters`,
    ],
  ])("refuses %s", (_what, spec, expected) => {
    expect(issuesOf("App", spec)).toEqual([expected]);
  });

  it.each<[string, Record<string, unknown>]>([
    ["an image by name", { image: "nginx" }],
    ["an image of a registry", { image: "localhost:5000/team/app_x:v1.2-rc" }],
    ["an image of a host in capitals", { image: "Registry.Example.org/team/app" }],
    ["an image by digest", { image: `ghcr.io/a/b:1@sha256:${"0".repeat(64)}` }],
    ["an image by its id", { image: `sha256:${"0".repeat(64)}` }],
    ["an image of an IPv6 registry", { image: "[::1]:5000/a" }],
    [
      "zero in fields that allow it",
      {
        image: "a",
        stopGracePeriod: "0s",
        rollout: { drain: "0s" },
        restart: { backoff: "0s", attempts: 0 },
        healthCheck: { startPeriod: "0s" },
      },
    ],
    [
      "one port over TCP and UDP",
      {
        image: "a",
        ports: [
          { host: 53, container: 53 },
          { host: 53, container: 53, protocol: "udp" },
        ],
      },
    ],
    [
      "one port on two addresses",
      {
        image: "a",
        ports: [
          { host: 1, container: 1, address: "10.0.0.1" },
          { host: 1, container: 1, address: "10.0.0.2" },
        ],
      },
    ],
    [
      "empty lists",
      { image: "a", command: [], entrypoint: [], volumes: [], ports: [], dependsOn: [] },
    ],
    ["an empty argument behind an entrypoint", { image: "a", entrypoint: ["x"], command: [""] }],
    [
      "one folder of the machine at two places",
      {
        image: "a",
        volumes: [
          { hostPath: "/x", path: "/a" },
          { hostPath: "/x", path: "/b" },
        ],
      },
    ],
    [
      "a wildcard in addition to the app's own domain",
      { image: "a", port: 80, ingress: { domains: ["*.example.org"] } },
    ],
    [
      "a redirect from below a wildcard, and from one",
      {
        image: "a",
        port: 80,
        domain: "www.example.org",
        ingress: {
          domains: ["*.example.org"],
          redirects: [{ from: "old.example.org" }, { from: "*.example.net", permanent: true }],
        },
      },
    ],
    ["a path of several parts", { image: "a", port: 80, ingress: { pathPrefix: "/a/b.c" } }],
    [
      "a repository over ssh",
      { source: { git: { url: "ssh://git@host:2222/a/b.git", ref: "v1" } } },
    ],
    ["a repository in the short form", { source: { git: { url: "git@host.example:a/b.git" } } }],
    [
      "a Dockerfile, a stage and arguments",
      { source: { local: "app" }, build: { dockerfile: "a/D", target: "t", args: { A: "" } } },
    ],
    ["a check on a port of its own", { image: "a", healthCheck: { path: "/healthz", port: 9000 } }],
  ])("accepts %s", (_what, spec) => {
    expect(issuesOf("App", spec)).toEqual([]);
  });
});

describe("a Secret", () => {
  it("of type registry requires server, username and password", () => {
    expect(issuesOf("Secret", { type: "registry", data: { server: "x", username: "y" } })).toEqual([
      'spec.data: missing key "password": a registry Secret contains server, username and password',
    ]);
    const whole = { server: "x", username: "y", password: "z" };
    expect(issuesOf("Secret", { type: "registry", data: whole })).toEqual([]);
    expect(issuesOf("Secret", { data: {} })).toEqual([]);
  });
});

describe("a Model", () => {
  it("accepts only a file inside its repository", () => {
    expect(issuesOf("Model", { source: "org/name", file: "../x.gguf" })).toEqual([
      "spec.file: has to be a path inside the repository, without ..",
    ]);
    expect(issuesOf("Model", { source: "org/name", file: "q4/x.gguf" })).toEqual([]);
  });
});

describe("a Template", () => {
  const entry = { title: "T", description: "D", category: "web", app: { image: "${image}" } };

  it("requires parameter names that are unique and not reserved, valid patterns, and at most one of default and generate", () => {
    const parameters = [
      { name: "a" },
      { name: "a" },
      { name: "name" },
      { name: "b", default: "x", generate: 8 },
      { name: "c", pattern: "(" },
    ];
    expect(issuesOf("Template", { ...entry, parameters })).toEqual([
      'spec.parameters[1].name: there are two parameters named "a"',
      'spec.parameters[2].name: "name" is reserved for the new app\'s name and cannot be a parameter',
      "spec.parameters[3].default: a parameter has a default or a generated value, not both",
      "spec.parameters[4].pattern: is not a regular expression",
    ]);
  });

  it("requires known keys in its apps, and a unique suffix for each companion app", () => {
    const companions = [
      { suffix: "db", app: { image: "a" } },
      { suffix: "db", app: {} },
    ];
    expect(issuesOf("Template", { ...entry, app: { image: "x", prot: 1 }, companions })).toEqual([
      'spec.app.prot: unknown key "prot"; did you mean "port"?',
      'spec.companions[1].suffix: there are two companions with the suffix "db"',
      "spec.companions[1].app: needs image or source",
    ]);
  });
});
