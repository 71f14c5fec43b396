import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { collectSpecs, fixturesFolder, importFixture, importTexts } from "./compose-fixtures.ts";

const at = (path: string) => join(fixturesFolder, path);

/** Imports a YAML project with the services `app`, which has the given body, and `db`. */
function app(body: string, extra = {}) {
  const lines = body
    .trim()
    .split("\n")
    .map((line) => `    ${line}`);
  const text = `services:\n  app:\n    image: example/app:1\n${lines.join("\n")}\n  db: { image: "example/db:1" }\n`;
  const result = importTexts({ "compose.yaml": text }, extra);
  return { spec: collectSpecs(result)["app"], result };
}

test("WordPress: the port, volumes, dependencies and variables are converted", () => {
  expect(collectSpecs(importFixture("wordpress.yaml"))).toEqual({
    wordpress: {
      image: "wordpress:6.8-apache",
      port: 80,
      env: {
        WORDPRESS_DB_HOST: "db",
        WORDPRESS_DB_USER: "exampleuser",
        WORDPRESS_DB_PASSWORD: "examplepass",
        WORDPRESS_DB_NAME: "exampledb",
      },
      volumes: [{ name: "wordpress", path: "/var/www/html" }],
      dependsOn: ["wordpress-db"],
    },
    db: {
      image: "mysql:8.0",
      env: {
        MYSQL_DATABASE: "exampledb",
        MYSQL_USER: "exampleuser",
        MYSQL_PASSWORD: "examplepass",
        MYSQL_RANDOM_ROOT_PASSWORD: "1",
      },
      volumes: [{ name: "db", path: "/var/lib/mysql" }],
    },
  });
});

test("Nextcloud: env files and a command with several words are converted, and a loopback port stays private", () => {
  const { db, app: nextcloud, cron } = collectSpecs(importFixture("nextcloud.yaml"));
  expect(db?.command).toEqual(["--transaction-isolation=READ-COMMITTED", "--binlog-format=ROW"]);
  expect(db?.env).toEqual({
    MYSQL_PASSWORD: "a # sharp $one",
    MYSQL_DATABASE: "nextcloud",
    MYSQL_USER: "nextcloud",
  });
  expect(nextcloud).toMatchObject({ port: 80, dependsOn: ["cloud-db", "cloud-redis"] });
  expect(nextcloud?.env).toMatchObject({ MYSQL_HOST: "db", MYSQL_USER: "nextcloud" });
  expect(nextcloud).toMatchObject({
    domain: "none",
    ports: [{ host: 8080, container: 80, address: "127.0.0.1" }],
  });
  expect(cron?.entrypoint).toEqual(["/cron.sh"]);
});

test("Immich: variables of an env file, relative folders, and a health check with a shell are converted", () => {
  const specs = collectSpecs(importFixture("immich.yaml", { envFiles: [at("immich.env")] }));
  expect(specs["immich-server"]).toMatchObject({
    image: "registry.example.org/immich-app/immich-server:v2",
    port: 2283,
    volumes: [{ hostPath: "/etc/localtime", path: "/etc/localtime", readOnly: true }],
    folders: [{ name: "library", path: "/data" }],
  });
  // Compose's default interval and timeout of 30 s are longer than Berth's, so the spec has to set both.
  expect(specs["redis"]?.healthCheck).toEqual({
    command: ["/bin/sh", "-c", "redis-cli ping || exit 1"],
    interval: "30s",
    timeout: "30s",
  });
});

test("Gitea: the ports of SSH and the database stay published, and the HTTP port becomes `port`", () => {
  const { server, db } = collectSpecs(importFixture("gitea.yaml"));
  expect(server).toMatchObject({ port: 3000, ports: [{ host: 222, container: 22 }] });
  expect(db?.ports).toEqual([{ host: 5432, container: 5432, address: "127.0.0.1" }]);
  expect(db).not.toHaveProperty("port");
});

test("Vaultwarden: escaped dollar signs and `expose` are converted", () => {
  const { vaultwarden } = collectSpecs(importFixture("vaultwarden.yaml"));
  expect(vaultwarden).toMatchObject({
    port: 80,
    env: { ADMIN_TOKEN: "$argon2id$v=19$m=65540,t=3,p=4$c2FsdA$aGFzaA", SIGNUPS_ALLOWED: "false" },
  });
});

test("Jellyfin: UDP ports, volumes in the long form, and the user are converted", () => {
  expect(collectSpecs(importFixture("jellyfin.yaml"))["jellyfin"]).toMatchObject({
    port: 8096,
    user: "1000:1000",
    ports: [{ host: 7359, container: 7359, protocol: "udp" }],
    volumes: [
      { hostPath: "/srv/jellyfin/config", path: "/config" },
      { name: "cache", path: "/cache" },
      { hostPath: "/srv/media", path: "/media", readOnly: true },
    ],
  });
});

test("Traefik labels become domains, path, stripped prefix and port", () => {
  const { whoami, api } = collectSpecs(importFixture("traefik.yaml"));
  expect(whoami).toMatchObject({
    port: 8000,
    domain: "whoami.example.org",
    ingress: { domains: ["www.example.org"] },
  });
  expect(api).toMatchObject({
    port: 3000,
    domain: "www.example.org",
    ingress: { pathPrefix: "/api", stripPrefix: true },
    replicas: 2,
  });
});

test("Compose file of Plausible: names that are not DNS labels, references to them, and required variables are converted", () => {
  const without = importFixture("plausible.yaml");
  expect(Object.keys(collectSpecs(without))).toEqual(["plausible_db", "plausible_events_db"]);
  expect(without.findings.filter(({ level }) => level === "failed")).toMatchObject([
    { line: 37, message: "the variable BASE_URL must be set: the public address" },
    { line: 38, message: "the variable SECRET_KEY_BASE must be set: a long random text" },
  ]);
  const { plausible } = collectSpecs(
    importFixture("plausible.yaml", { envFiles: [at("plausible.env")] }),
  );
  expect(plausible?.dependsOn).toEqual(["plausible-plausible-db", "plausible-plausible-events-db"]);
  expect(plausible?.env).toMatchObject({
    BASE_URL: "https://stats.example.org",
    DATABASE_URL: "postgres://postgres:postgres@plausible_db:5432/plausible",
  });
});

test("n8n: anchors, merge keys and extension fields are resolved", () => {
  const { "n8n-worker": worker, postgres, n8n } = collectSpecs(importFixture("n8n.yaml"));
  expect(n8n).toMatchObject({
    image: "n8nio/n8n:1.110",
    port: 5678,
    dependsOn: ["n8n-redis", "n8n-postgres"],
  });
  expect(worker).toMatchObject({
    command: ["worker"],
    env: { DB_POSTGRESDB_PASSWORD: "n8n", N8N_CONCURRENCY: "5" },
    dependsOn: ["n8n-n8n", "n8n-postgres", "n8n-redis"],
  });
  expect(postgres?.healthCheck?.command?.[2]).toBe(
    "pg_isready -h localhost -U ${POSTGRES_USER} -d ${POSTGRES_DB}",
  );
});

test("Ghost: nginx-proxy variables, limits, restarts and an external volume are converted", () => {
  const result = importFixture("ghost.yaml");
  const { ghost, db } = collectSpecs(result);
  expect(ghost).toMatchObject({
    port: 2368,
    domain: "blog.example.org",
    ingress: { domains: ["www.blog.example.org"] },
    resources: { memory: "512Mi", cpu: "0.5" },
    restart: { attempts: 0 },
  });
  expect(db).toMatchObject({ restart: { attempts: 3 }, stopGracePeriod: "1m30s" });
  const copies = result.findings.flatMap(({ hint }) =>
    hint?.includes("docker run") ? [hint] : [],
  );
  expect(copies).toHaveLength(2);
  expect(copies[0]).toContain("-v compose_ghost:/from:ro");
  expect(copies[1]).toContain("-v old_blog_db:/from:ro");
});

test("Authentik: secrets from files are mounted, and all other secrets and inline configs become files", () => {
  const result = importFixture("authentik.yaml");
  const { postgresql, server, migrate, worker } = collectSpecs(result);
  expect(postgresql?.volumes).toContainEqual({
    hostPath: at("pg_pass.txt"),
    path: "/run/secrets/pg_pass",
    readOnly: true,
  });
  expect(server?.env).toMatchObject({
    AUTHENTIK_SECRET_KEY_FILE: "/run/secrets/secret_key",
  });
  expect(server?.files).toEqual([
    {
      path: "/run/secrets/secret_key",
      mode: "0440",
      from: { secret: "authentik-server-secrets", key: "secret_key" },
    },
    { path: "/web/branding.css", content: "body { color: red }\n" },
  ]);
  expect(result.secretValues).toEqual([{ secret: "authentik-server-secrets", key: "secret_key" }]);
  expect(server?.dependsOn).toEqual(["authentik-postgresql", "authentik-migrate"]);
  expect(migrate).toMatchObject({ oneShot: true, command: ["ak", "migrate"] });
  expect(worker).toBeUndefined();
});

test("a file for development: builds, extends, include, profiles and a git repository are converted", () => {
  const specs = collectSpecs(importFixture("dev/compose.yaml"));
  expect(Object.keys(specs)).toEqual(["queue", "web_app", "api", "docs"]);
  expect(specs["web_app"]).toMatchObject({
    source: { local: "web" },
    build: {
      dockerfile: "docker/Dockerfile.dev",
      target: "dev",
      args: { NODE_ENV: "development" },
    },
    port: 3000,
    workingDir: "/srv/app",
    env: { LOG_LEVEL: "debug" },
    folders: [
      { name: "shared-certificates", path: "/certificates", readOnly: true },
      { name: "web", path: "/srv/app" },
    ],
    stopGracePeriod: "2s",
  });
  expect(specs["api"]).toMatchObject({ source: { local: "../api" }, replicas: 2 });
  expect(specs["docs"]?.source).toEqual({
    git: { url: "https://git.example.org/team/docs.git", ref: "main", path: "site" },
  });
  expect(specs["queue"]).toMatchObject({
    port: 15_672,
    resources: { memory: "256Mi", cpu: "0.50" },
    rollout: { strategy: "recreate" },
    restart: { attempts: 3, interval: "2m", backoff: "5s" },
  });
  expect(collectSpecs(importFixture("dev/compose.yaml", { profiles: ["tools"] }))).toHaveProperty(
    "mailhog",
  );
  const elsewhere = importFixture("dev/compose.yaml", { specFolder: at("dev/specs") });
  expect(collectSpecs(elsewhere)["web_app"]?.source).toEqual({ local: "../web" });
});

test("references to Secrets replace the secret values, which appear nowhere in the result", () => {
  const result = importFixture("wordpress.yaml", { secrets: "secret" });
  expect(collectSpecs(result)["wordpress"]?.env).toMatchObject({
    WORDPRESS_DB_PASSWORD: { secret: "wordpress-wordpress-secrets", key: "WORDPRESS_DB_PASSWORD" },
    WORDPRESS_DB_USER: "exampleuser",
  });
  expect(result.secretValues).toEqual([
    { secret: "wordpress-wordpress-secrets", key: "WORDPRESS_DB_PASSWORD" },
    { secret: "wordpress-db-secrets", key: "MYSQL_PASSWORD" },
    { secret: "wordpress-db-secrets", key: "MYSQL_RANDOM_ROOT_PASSWORD" },
  ]);
  expect(JSON.stringify(result)).not.toContain("examplepass");
});

test("apps form a stack, in whose network each is reached under every name that it has in Compose", () => {
  const text = `name: my_blog
services:
  web: { image: "web:1", links: ["db:database"], depends_on: [db] }
  db:
    image: db:1
    container_name: blog_database
    hostname: db.internal
    networks: { back: { aliases: [postgres, "no name!"] } }
`;
  const result = importTexts({ "compose.yaml": text });
  expect(result.stack).toBe("my-blog");
  expect(result.apps.map(({ manifest }) => manifest.metadata)).toMatchObject([
    { name: "my-blog-web", stack: "my-blog" },
    { name: "my-blog-db", stack: "my-blog" },
  ]);
  const { web, db } = collectSpecs(result);
  expect(web).toMatchObject({ dependsOn: ["my-blog-db"] });
  expect(web).not.toHaveProperty("aliases");
  expect(db).toMatchObject({
    aliases: ["blog_database", "db.internal", "postgres", "database"],
    hostname: "db.internal",
  });
  expect(result.findings).toContainEqual(
    expect.objectContaining({
      level: "lost",
      message: 'other apps do not reach the app as "no name!": that is no host name',
    }),
  );
});

test("the user can choose the name of the stack", () => {
  const result = importFixture("wordpress.yaml", { stack: "blog" });
  expect(result.apps.map(({ manifest }) => manifest.metadata.name)).toContain("blog-db");
  expect(collectSpecs(result)["wordpress"]).toMatchObject({ dependsOn: ["blog-db"] });
});

test("a service keeps its own name as an alias if the name of its app cannot contain it", () => {
  const result = importTexts({ "compose.yaml": 'services: { my_db: { image: "db:1" } }' });
  expect(result.apps[0]?.manifest).toMatchObject({
    metadata: { name: "project-my-db" },
    spec: { aliases: ["my_db"] },
  });
});

test("services whose apps would have the same name, or one that is too long, are refused", () => {
  const service = { image: "a:1" };
  expect(refusals({ my_app: service, "my.app": service, other: service })).toEqual([
    'my_app: the app of this service would be called project-my-app, like the app of the service "my.app"',
    'my.app: the app of this service would be called project-my-app, like the app of the service "my_app"',
  ]);
  const long = "s".repeat(60);
  expect(refusals({ [long]: service }, "blog")).toEqual([
    `${long}: the app of this service would be called blog-${long}, which has 65 characters: at most 63 are allowed`,
  ]);
  expect(refusals({ ___: service })).toEqual([
    "___: no app name can be derived from the name of this service",
  ]);
});

test("a name that Compose refuses as the name of a project is refused, unless the user names the stack", () => {
  const text = 'name: "My Blog"\nservices: { a: { image: "a:1" } }';
  expect(importTexts({ "compose.yaml": text }).findings).toContainEqual(
    expect.objectContaining({ level: "failed", line: 1, hint: "choose another one with --stack" }),
  );
  const named = importTexts({ "compose.yaml": text }, { stack: "blog" });
  expect(named.findings.filter(({ level }) => level === "failed")).toEqual([]);
});

test("restrictions of a container, its host name and its memory below /dev/shm are kept", () => {
  const text = `services:
  app:
    image: a:1
    hostname: somewhere
    read_only: true
    cap_drop: [all, CAP_NET_RAW]
    security_opt: ["no-new-privileges:true"]
    shm_size: 256mb
    tmpfs: ["/run", "/tmp:size=64m,noexec", "/x:uid=7"]
    volumes: [{ type: tmpfs, target: /cache, tmpfs: { size: 1048576 } }]
`;
  const result = importTexts({ "compose.yaml": text });
  expect(collectSpecs(result)["app"]).toMatchObject({
    hostname: "somewhere",
    security: {
      readOnlyRoot: true,
      dropCapabilities: ["ALL", "NET_RAW"],
      noNewPrivileges: true,
    },
    shmSize: "256Mi",
    tmpfs: [
      { path: "/run" },
      { path: "/tmp", size: "64Mi" },
      { path: "/x" },
      { path: "/cache", size: "1Mi" },
    ],
  });
  expect(result.findings.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    "lost: the option uid=7 of the folder in memory /x is omitted",
  ]);
});

test.each([
  ['ports: ["80:80"]', { port: 80 }],
  ['ports: ["80"]', { port: 80, domain: "none" }],
  ['ports: ["127.0.0.1::8080"]', { port: 8080, domain: "none" }],
  [
    'ports: ["127.0.0.1:8088:80"]',
    {
      port: 80,
      domain: "none",
      ports: [{ host: 8088, container: 80, address: "127.0.0.1" }],
    },
  ],
  [
    'ports: ["192.0.2.1:8088:80"]',
    { port: 80, domain: "none", ports: [{ host: 8088, container: 80, address: "192.0.2.1" }] },
  ],
  ['expose: ["3000"]', { port: 3000, domain: "none" }],
  ['expose: ["3306", "33060"]', {}],
  [
    'ports: ["33060:33060", "25565:25565", "1025:1025"]',
    {
      ports: [
        { host: 33060, container: 33060 },
        { host: 25565, container: 25565 },
        { host: 1025, container: 1025 },
      ],
    },
  ],
  [
    'ports: ["9229:9229", "9999:9999"]\nenvironment: { PORT: 9999 }',
    { port: 9999, env: { PORT: "9999" }, ports: [{ host: 9229, container: 9229 }] },
  ],
  [
    'ports: ["4567:4567"]\nlabels: { caddy: a.example.org }',
    { port: 4567, domain: "a.example.org" },
  ],
  [
    'ports: ["7000:7000"]\nhealthcheck: { test: "curl -f localhost:7000/up" }',
    {
      port: 7000,
      healthCheck: {
        command: ["/bin/sh", "-c", "curl -f localhost:7000/up"],
        interval: "30s",
        timeout: "30s",
      },
    },
  ],
  ['labels: { traefik.enable: "false" }\nexpose: ["8080"]', { port: 8080, domain: "none" }],
  ['ports: ["[::1]:25:25"]', { ports: [{ host: 25, container: 25, address: "::1" }] }],
  ['ports: ["443:443", "8080:80"]', { port: 80 }],
  [
    'ports: ["8000:8000", "6881-6882:6881-6882/udp"]',
    {
      port: 8000,
      ports: [
        { host: 6881, container: 6881, protocol: "udp" },
        { host: 6882, container: 6882, protocol: "udp" },
      ],
    },
  ],
  [
    "ports: [{ target: 53, published: 5353, protocol: udp, host_ip: 10.0.0.1 }]",
    {
      ports: [{ host: 5353, container: 53, protocol: "udp", address: "10.0.0.1" }],
    },
  ],
  [
    "healthcheck: { test: [CMD, ping, db], retries: 5, timeout: 3s }",
    {
      healthCheck: { command: ["ping", "db"], interval: "30s", timeout: "3s", retries: 5 },
    },
  ],
  [
    "labels: { caddy: blog.example.org, caddy.reverse_proxy: '{{upstreams 2368}}' }",
    {
      port: 2368,
      domain: "blog.example.org",
    },
  ],
  ["network_mode: bridge", {}],
  ["platform: linux/arm64/v8", { platform: "linux/arm64/v8" }],
  ["platform: x86_64", { platform: "linux/amd64" }],
  [
    "ulimits: { nofile: { soft: 1024, hard: 2048 }, nproc: 512, core: -1 }",
    { ulimits: { nofile: { soft: 1024, hard: 2048 }, nproc: 512, core: -1 } },
  ],
  ["volumes: ['~/data:/data']", { volumes: [{ hostPath: "/home/me/data", path: "/data" }] }],
  ["mem_limit: 1.5g", { resources: { memory: "1536Mi" } }],
  ["stop_grace_period: 1500000us", { stopGracePeriod: "1500ms" }],
  ["deploy: { replicas: 0 }", { running: false }],
])("the setting %s is converted", (body, fields) => {
  expect(app(body).spec).toEqual({ image: "example/app:1", ...fields });
});

describe("an inline Dockerfile", () => {
  const convert = (build: string, image = "") =>
    importTexts({ "compose.yaml": `services:\n  app:\n    ${image}build:\n${build}` }).apps[0]
      ?.manifest.spec;

  test("that copies nothing from its context is built without files", () => {
    const text = "      dockerfile_inline: |\n        FROM alpine\n        RUN echo $$HOME\n";
    expect(convert(`      context: .\n${text}`)).toEqual({
      source: { empty: true },
      build: { inline: "FROM alpine\nRUN echo $HOME\n" },
    });
    const copies = [
      "COPY --chown=1 --from=build /a /b",
      "COPY <<EOF /a",
      "RUN --mount=type=cache,target=/c make",
    ];
    for (const line of copies)
      expect(convert(`${text}        ${line}\n`)).toHaveProperty("source", { empty: true });
  });

  test.each([
    "COPY a /b",
    "ADD --chown=1 a /b",
    "copy \\\n          a /b",
    "RUN --mount=source=a,target=/b make",
  ])("with the instruction %j is built with the files of its context", (line) => {
    const text = `      dockerfile_inline: |\n        FROM alpine\n        ${line}\n`;
    expect(convert(`      context: ./src\n${text}`)).toMatchObject({
      source: { local: "src" },
      build: { inline: expect.stringContaining("FROM alpine") },
    });
  });
});

describe("data that services share", () => {
  const text = `
services:
  web:
    image: example/web:1
    volumes: ["uploads:/srv/uploads", "./media:/srv/media", "cache:/a", "cache:/b"]
  worker:
    image: example/worker:1
    volumes: ["uploads:/work:ro", "./media/:/media", "./own:/own"]
volumes: { uploads: , cache: }
`;

  test("becomes a volume or a folder of the stack, and other data belongs to its app", () => {
    const result = importTexts({ "blog/compose.yaml": text });
    expect(collectSpecs(result)).toMatchObject({
      web: {
        volumes: [
          { name: "uploads", path: "/srv/uploads", shared: true },
          { name: "cache", path: "/a" },
          { name: "cache", path: "/b" },
        ],
        folders: [{ name: "media", path: "/srv/media", shared: true }],
      },
      worker: {
        volumes: [{ name: "uploads", path: "/work", readOnly: true, shared: true }],
        folders: [
          { name: "media", path: "/media", shared: true },
          { name: "own", path: "/own" },
        ],
      },
    });
    expect(result.findings.filter(({ level }) => level === "lost")).toEqual([]);
  });

  test("is copied once, by a command that stops the stack", () => {
    const { findings } = importTexts({ "blog/compose.yaml": text });
    const copies = findings.filter(({ message }) => message.includes('"uploads"'));
    expect(copies.map(({ service }) => service)).toEqual(["web"]);
    expect(copies[0]?.message).toContain("of the stack, which web, worker share");
    expect(copies[0]?.hint).toContain("berth stop stack/blog");
    expect(copies[0]?.hint).toContain("label=dev.berth.stack=blog");
  });

  test("has names that differ if the names in the file differ only in punctuation", () => {
    const both = text.replace("uploads: , cache: ", "my_data: , my.data: ");
    const volumes = 'volumes: ["my.data:/x", "my_data:/y"]';
    const { apps } = importTexts({
      "compose.yaml": both.replaceAll(/volumes: \[.*\]/g, volumes),
    });
    for (const { manifest } of apps)
      expect(manifest.spec.volumes).toEqual([
        { name: "my-data-2", path: "/x", shared: true },
        { name: "my-data", path: "/y", shared: true },
      ]);
  });
});

/** Returns a project whose service `app` has this mount. */
function composeWithMount(mount: string): Record<string, string> {
  return {
    "compose.yaml": `services:\n  app:\n    image: example/app:1\n    volumes: ["${mount}"]\n`,
  };
}

function convertMount(texts: Readonly<Record<string, string>>) {
  const { apps, findings } = importTexts(texts);
  return { spec: apps[0]?.manifest.spec, findings };
}

describe("a relative path", () => {
  test("stays a file of the machine if it exists", () => {
    const texts = { ...composeWithMount("./app.conf:/etc/app.conf:ro"), "app.conf": "x" };
    expect(convertMount(texts).spec).toEqual({
      image: "example/app:1",
      volumes: [{ hostPath: "/project/app.conf", path: "/etc/app.conf", readOnly: true }],
    });
  });

  test("becomes a folder that Berth makes if it does not exist, with its place in a note", () => {
    const { spec, findings } = convertMount(composeWithMount("./data/db:/var/lib/db"));
    expect(spec?.folders).toEqual([{ name: "data-db", path: "/var/lib/db" }]);
    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "note",
        hint: expect.stringContaining("folders/apps/project-app/data-db in Berth's data directory"),
      }),
    );
  });

  test("is reported as lost if it names a file that the project lacks", () => {
    const { spec, findings } = convertMount(composeWithMount("./nginx.conf:/etc/nginx/nginx.conf"));
    expect(spec).toEqual({ image: "example/app:1" });
    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "lost",
        message: expect.stringContaining("/etc/nginx/nginx.conf is missing in the container"),
      }),
    );
  });

  test("outside of the project is unsafe, whether it exists or not", () => {
    const { findings } = convertMount(composeWithMount("../other:/data"));
    expect(findings.map(({ level }) => level)).toContain("unsafe");
  });

  test("inside of another one becomes a separate folder, which is reported", () => {
    const { spec, findings } = convertMount(composeWithMount('./data:/data", "./data/sub:/sub'));
    expect(spec?.folders).toEqual([
      { name: "data", path: "/data" },
      { name: "data-sub", path: "/sub" },
    ]);
    expect(findings.filter(({ level }) => level === "changed")).toHaveLength(2);
  });
});

test("the mounts that Coolify adds to Compose become files with their content, and folders", () => {
  const result = importTexts({
    "compose.yaml": `
services:
  db:
    image: example/db:1
    volumes:
      - type: bind
        source: ./volumes/init/roles.sql
        target: /init/roles.sql
        content: |
          SELECT '$HOME', '\${NONE}';
      - { type: bind, source: ./volumes/data.d, target: /data, is_directory: true }
      - { type: bind, source: ./empty.conf, target: /empty, read_only: true, content: "" }
  tool:
    image: example/tool:1
    volumes: ["./volumes/init:/sql:ro", "./volumes/init/roles.sql:/roles.sql:ro"]
`,
  });
  const content = "SELECT '$HOME', '${NONE}';\n";
  expect(collectSpecs(result)).toMatchObject({
    db: {
      files: [
        { path: "/init/roles.sql", content },
        { path: "/empty", content: "" },
      ],
      folders: [{ name: "volumes-data-d", path: "/data" }],
    },
    tool: {
      files: [
        { path: "/sql/roles.sql", content },
        { path: "/roles.sql", content },
      ],
    },
  });
  const levels = result.findings.filter(({ level }) => level !== "note");
  expect(levels.map(({ level, line }) => [level, line])).toEqual([["changed", 6]]);
});

test.each([
  ["ports: ['99999:80']", "this port is omitted: it is not a port from 1 to 65535"],
  ["ports: ['1-3:80-81']", "this port is omitted: it has ranges of different lengths"],
  [
    'command: "sh -c \'x"',
    "this command has an unclosed quotation mark, or a backslash at its end",
  ],
  ["mem_limit: lots", '"lots" is not a valid memory limit: the minimum is 6m'],
  ["user: [a]", "this value is omitted: a single value was expected here"],
  ["depends_on: [gone]", '"gone" is not part of this import, so the app does not wait for it'],
  [
    "entrypoint: []",
    "an empty entrypoint would remove the one of the image, which an App cannot do",
  ],
  [
    "platform: windows/amd64",
    '"windows/amd64" is no platform of Linux containers, such as linux/arm64',
  ],
  [
    "ulimits: { nofile: many }",
    "ulimits.nofile is omitted: it is no number, and has no soft and hard",
  ],
  ["volumes: ['C:\\x:/data']", '"C:\\x" cannot be resolved to a folder'],
  ["environment: { 'A B': 1 }", '"A B" is not a valid name for a variable of an App'],
])('the problem of the service field "%s" is reported', (body, message) => {
  expect(app(body).result.findings).toContainEqual(expect.objectContaining({ line: 4, message }));
});

test.each([
  ["logstash:7.16.1", "5000:5000", ""],
  ["clickhouse/clickhouse-server:25", "8123:8123", ""],
  ["elasticsearch:7.16.1", "9200:9200", "healthcheck: { test: curl -f localhost:9200 }"],
  ["qmcgaw/gluetun", "8080:8080", ""],
  ["example/dns:1", "5054:5054/tcp", 'expose: ["5054"]\n    environment: { PORT: 5054 }'],
])(
  "%s, whose port is not that of a web app, keeps its port %s on the machine, and gets a domain only on request",
  (image, port, rest) => {
    const datagrams = image.startsWith("example") ? ', "5054:5054/udp"' : "";
    const text = `services:\n  app:\n    image: ${image}\n    ports: ["${port}"${datagrams}]\n    ${rest}\n`;
    const { spec } = importTexts({ "compose.yaml": text }).apps[0]?.manifest ?? {};
    const number = Number.parseInt(port, 10);
    expect(spec?.ports).toContainEqual({ host: number, container: number });
    // The HTTP API of a database is known, and private.
    if (/clickhouse|elastic/.test(image))
      expect(spec).toMatchObject({ port: number, domain: "none" });
    else expect(spec).not.toHaveProperty("port");
    const requested = importTexts(
      { "compose.yaml": text },
      { publicPorts: new Map([["app", number]]) },
    );
    expect(requested.apps[0]?.manifest.spec.port).toBe(number);
  },
);

/** Imports a Compose service that exposes port 80 to Traefik, and returns the messages of the import. */
function messagesFor(image: string): string[] {
  const service = { image, expose: ["80"], labels: { "traefik.enable": "true" } };
  const text = JSON.stringify({ services: { app: service } });
  return importTexts({ "compose.yaml": text }).findings.map(({ message }) => message);
}

test("an image with PHP-FPM, which does not speak HTTP, has no known web port", () => {
  const usual = "is the port of the app, because of the usual port of";
  expect(messagesFor("matomo:5").join()).toContain(usual);
  expect(messagesFor("matomo:5-fpm-alpine").join()).not.toContain(usual);
  expect(
    importTexts({ "compose.yaml": 'services: { site: { image: "wordpress:php8.3-fpm" } }' })
      .likelyPublic,
  ).toBeUndefined();
});

test("--public gives a service a domain, and the list of what is public gives the reason for each entry", () => {
  const body = 'ports: ["127.0.0.1:3000:3000", "53:53/udp"]';
  const before = app(body).result;
  expect(before.apps.map(({ publicPlaces }) => publicPlaces)).toMatchObject([
    [{ url: null, port: "53/udp", why: "it is published on every address of the machine" }],
    [],
  ]);
  const { spec, result } = app(body, { publicPorts: new Map([["app", undefined]]) });
  expect(spec).toMatchObject({ port: 3000 });
  expect(spec).not.toHaveProperty("domain");
  expect(result.apps[0]?.publicPlaces).toContainEqual(
    expect.objectContaining({ url: "http://project-app.<base domain>", why: "--public names it" }),
  );
  expect(app("", { publicPorts: new Map([["db", 8080]]) }).result.apps[1]?.manifest.spec.port).toBe(
    8080,
  );
  expect(app("", { publicPorts: new Map([["gone", 80]]) }).result.findings).toContainEqual(
    expect.objectContaining({ level: "failed", message: '--public: there is no service "gone"' }),
  );
});

test("an import without a public app names the app that is likely to be public", () => {
  const text = `services:
  db: { image: "postgres:17" }
  worker: { image: "example/worker:1", depends_on: [db] }
  web: { image: "nginx:1", expose: ["80"], depends_on: [db] }
`;
  expect(importTexts({ "compose.yaml": text }).likelyPublic).toBe("web");
  const known = 'services: { site: { image: "wordpress:6" } }';
  expect(importTexts({ "compose.yaml": known }).likelyPublic).toBe("site");
  expect(
    importTexts({ "compose.yaml": 'services: { a: { image: "x:1" } }' }).likelyPublic,
  ).toBeUndefined();
});

test.each([
  ["network_mode: 'service:db'", "services.app.network_mode"],
  ["network_mode: none", "services.app.network_mode"],
  ["security_opt: ['apparmor:strict']", "services.app.security_opt[0]"],
  ["labels: ['traefik.http.routers.a.middlewares=authelia@docker']", "services.app.labels[0]"],
  ["labels: { caddy.basic_auth: x }", 'services.app.labels."caddy.basic_auth"'],
])("%s, without which the app would be less safe, is reported as unsafe", (body, key) => {
  expect(app(body).result.findings).toContainEqual(
    expect.objectContaining({ level: "unsafe", key }),
  );
});

test("a secret without a file becomes a file with the value of a Secret, for the command that reads it", () => {
  const text = `services:
  cache:
    image: redis:8
    command: ["sh", "-c", 'exec redis-server --requirepass "$$(cat "$$PASSWORD_FILE")"']
    environment: { PASSWORD_FILE: /run/secrets/password }
    secrets: [password]
secrets: { password: { environment: PASSWORD } }
`;
  const result = importTexts({ "compose.yaml": text });
  const reference = { secret: "project-cache-secrets", key: "password" };
  expect(collectSpecs(result)["cache"]).toMatchObject({
    env: { PASSWORD_FILE: "/run/secrets/password" },
    files: [{ path: "/run/secrets/password", from: reference }],
  });
  expect(result.secretValues).toEqual([reference]);
});

test("a service that must end before others start becomes a one-shot, without settings that only long-running services have", () => {
  const text = `services:
  web:
    image: example/web:1
    depends_on: { migrate: { condition: service_completed_successfully } }
  migrate:
    image: example/web:1
    command: migrate
    restart: on-failure
    ports: ["8080:80"]
    healthcheck: { test: [CMD, "true"] }
`;
  const result = importTexts({ "compose.yaml": text });
  const { web, migrate } = collectSpecs(result);
  expect(web).toMatchObject({ dependsOn: ["project-migrate"] });
  expect(migrate).toEqual({ image: "example/web:1", command: ["migrate"], oneShot: true });
  expect(result.apps.flatMap(({ publicPlaces }) => publicPlaces)).toEqual([]);
  expect(result.findings).toContainEqual(
    expect.objectContaining({ level: "lost", message: expect.stringContaining("healthCheck") }),
  );
});

test("configs become files: inline content, variables and modes are converted, owners are reported", () => {
  const text = `services:
  web:
    image: example/web:1
    configs:
      - inline
      - { source: variable, target: /etc/a.conf, mode: 0555, uid: "1000" }
      - { source: outside, mode: 9 }
configs:
  inline: { content: "port \${PORT:-80}" }
  variable: { environment: TEXT }
  outside: { external: true }
`;
  const result = importTexts({ "compose.yaml": text, ".env": "TEXT=hello\n" });
  expect(collectSpecs(result)["web"]?.files).toEqual([
    { path: "/inline", content: "port 80" },
    { path: "/etc/a.conf", mode: "0555", content: "hello" },
  ]);
  expect(result.findings.map(({ level, key }) => [level, key])).toEqual(
    expect.arrayContaining([
      ["lost", "services.web.configs[1].uid"],
      ["lost", "services.web.configs[2].mode"],
      ["lost", "services.web.configs[2]"],
    ]),
  );
});

test("one value of a Compose file that cannot be read gives one finding", () => {
  for (const body of [
    'ports: ["${PORT:?choose one}:80"]',
    'mem_limit: "${LIMIT:?choose one}"',
    'healthcheck: { test: [CMD, x], retries: "${N:?choose one}" }',
    'environment: { A: "${B:?choose one}" }',
    'labels: { traefik.http.routers.a.rule: "Host(`${HOST:?choose one}`)" }',
  ]) {
    const { findings } = app(body).result;
    const own = findings.filter(({ line, level }) => line === 4 && level !== "note");
    expect(own.map(({ level, message }) => [level, message.split(" must")[1]])).toEqual([
      ["failed", " be set: choose one"],
    ]);
  }
});

test("with `partial`, an app does not wait for a service that could not be converted", () => {
  const text = `services:
  db: { image: "\${IMAGE:?}" }
  web: { image: "nginx:1", depends_on: [db, cache] }
  cache: { image: "redis:8" }
`;
  const { apps, findings } = importTexts({ "compose.yaml": text }, { partial: true });
  expect(apps.map(({ manifest }) => manifest.spec.dependsOn)).toEqual([
    ["project-cache"],
    undefined,
  ]);
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: "lost",
      service: "web",
      message: "this app does not wait for db, which could not be converted",
    }),
  );
});

/** Returns the failures of an import of these services. */
function refusals(services: object, stack?: string): string[] {
  return importTexts({ "compose.yaml": JSON.stringify({ services }) }, { stack })
    .findings.filter(({ level }) => level === "failed")
    .map(({ service, message }) => `${service}: ${message}`);
}
