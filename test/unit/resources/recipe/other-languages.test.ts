import { describe, expect, test } from "vitest";
import { chooseDockerfile } from "../../../../src/resources/recipe/choose-dockerfile.ts";
import { createMemorySource } from "./memory-source-reader.ts";

type Files = Readonly<Record<string, unknown>>;

async function generate(files: Files) {
  const chosen = await chooseDockerfile(createMemorySource(files), {});
  if (chosen.type !== "generated") throw new Error(`${chosen.path} was found`);
  expect(chosen.text).toMatch(/^USER 1000:1000$/m);
  expect(chosen.text).toMatch(new RegExp(`PORT=${chosen.port}\\b`));
  expect(chosen.text).toContain(`\nEXPOSE ${chosen.port}\n`);
  return chosen;
}
const textOf = async (files: Files) => (await generate(files)).text;
const commandOf = async (files: Files) => (await textOf(files)).trim().split("\n").at(-1);
const refusalOf = async (files: Files) => {
  try {
    await chooseDockerfile(createMemorySource(files), {});
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error("the source was not refused");
};

const mix = 'def project do\n  [app: :shop, deps: [{:phoenix, "~> 1.7"}]]';
const pom = "<project></project>";

describe("the language of a source with files of two languages", () => {
  test.each<[string, Files, string]>([
    [
      "Go and package.json",
      { "go.mod": "module a", "main.go": "package main", "package.json": {} },
      "go",
    ],
    [
      "Rust and package.json",
      { "Cargo.toml": '[package]\nname = "a"', "src/main.rs": "", "package.json": {} },
      "rust",
    ],
    ["Phoenix and its assets", { "mix.exs": mix, "assets/package.json": {} }, "elixir"],
    [
      "Maven and package.json with a start script",
      { "pom.xml": pom, "package.json": { scripts: { start: "vite" } } },
      "java",
    ],
    [
      "Laravel and Vite",
      {
        "composer.json": { require: {} },
        "public/index.php": "",
        "package.json": { scripts: { build: "vite build" } },
      },
      "php",
    ],
    [
      "composer.json for tools and a Node.js program",
      { "composer.json": {}, "package.json": { scripts: { start: "node a.js" } } },
      "node",
    ],
    [
      "Rails and Node.js packages",
      {
        Gemfile: 'gem "rails"',
        "config/application.rb": "",
        "package.json": { scripts: { start: "x" } },
      },
      "ruby",
    ],
    [
      "a Gemfile for tools and a Node.js program",
      { Gemfile: 'gem "cocoapods"', "package.json": { scripts: { start: "node a.js" } } },
      "node",
    ],
    [
      "Deno and package.json without a start script",
      { "deno.json": {}, "main.ts": "", "package.json": {} },
      "deno",
    ],
    [
      "pages beside a project of .NET",
      { "shop.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web">' },
      "dotnet",
    ],
    ["only a script", { "start.sh": "#!/bin/bash\n" }, "shell"],
  ])("is chosen by a fixed order: %s", async (_, files, language) => {
    const { language: chosen } = await generate(files);
    expect(chosen).toBe(language);
  });

  test.each([
    ["CMakeLists.txt", "it has CMakeLists.txt, for which there is no recipe"],
    ["gleam.toml", "it has gleam.toml, for which there is no recipe"],
    ["run.rb", "it only contains run.rb"],
  ])(
    "is unknown for a source with only %s, and the error says what was seen",
    async (file, why) => {
      expect(await refusalOf({ [file]: "" })).toContain(why);
    },
  );
});

describe("PHP", () => {
  const laravel = {
    artisan: "",
    "composer.json": { require: { php: "^8.2", "laravel/framework": "^12", "ext-redis": "*" } },
    "composer.lock": "{}",
    "public/index.php": "",
  };

  test("with Laravel serves public/, with the extensions that composer.json and Laravel need", async () => {
    const text = await textOf(laravel);
    expect(text).toContain("FROM php:8.4-apache AS base");
    expect(text).toContain(
      "RUN install-php-extensions bcmath intl opcache pcntl pdo_mysql pdo_pgsql redis zip\n",
    );
    expect(text).toContain("/var/www/html/public");
    expect(text).toContain("COPY composer.json composer.lock ./\nRUN composer install --no-dev");
    expect(text).not.toContain("npm");
  });

  test("with a build script of package.json builds the assets after the packages of Composer", async () => {
    const text = await textOf({
      ...laravel,
      "package.json": { scripts: { build: "vite build" } },
      "package-lock.json": "{}",
    });
    expect(text).toMatch(
      /composer install[^]*composer install[^]*RUN npm ci\nRUN npm run build\nRUN rm -rf node_modules\n/,
    );
  });

  test("without Composer serves the folder, and never its hidden files", async () => {
    const text = await textOf({ "index.php": "<?php $db = new mysqli('db');" });
    expect(text).toContain("RUN install-php-extensions mysqli\n");
    expect(text).not.toContain("composer install");
    expect(text).toContain("Require all denied");
  });

  test("with the files of WordPress gets its extensions", async () => {
    expect(await textOf({ "index.php": "", "wp-config-sample.php": "" })).toContain(
      "RUN install-php-extensions exif gd intl mysqli opcache zip\n",
    );
  });

  test.each([
    ["^8.2", "8.4"],
    [">=7.4 <8.1", "8.0"],
    ["8.2.*", "8.2"],
    ["^7.4|^8.0", "8.4"],
    ["~8.1.0", "8.1"],
  ])("with the requirement %s runs on PHP %s", async (range, minor) => {
    const files = { "composer.json": { require: { php: range } }, "index.php": "" };
    expect(await textOf(files)).toContain(`FROM php:${minor}-apache AS base`);
  });

  test("without an index.php or packages is refused", async () => {
    await expect(
      chooseDockerfile(createMemorySource({ a: "" }), { language: "php" }),
    ).rejects.toThrow("index.php");
  });
});

describe("Ruby", () => {
  test("with Rails precompiles the assets, and has the library of its database", async () => {
    const text = await textOf({
      Gemfile: 'ruby "3.2.1"\ngem "rails", "~> 7"\ngem "pg"',
      "Gemfile.lock": "GEM\n  specs:\n    pg (1.5)\n",
      "config/application.rb": "",
      "app/assets/a.css": "",
    });
    expect(text).toContain("FROM ruby:3.2.1 AS build");
    expect(text).toContain("BUNDLE_DEPLOYMENT=1");
    expect(text).toContain("rails assets:precompile");
    expect(text).toContain("--no-install-recommends libpq5 ");
    expect(text).toMatch(
      /rm -f tmp\/pids\/server.pid; exec bundle exec rails server --binding 0.0.0.0/,
    );
  });

  test.each<[string, Files, string]>([
    [
      "config.ru and Puma",
      { Gemfile: 'gem "puma"', "config.ru": "" },
      "exec bundle exec puma --bind tcp://0.0.0.0:$PORT",
    ],
    [
      "config.ru alone",
      { Gemfile: 'gem "rackup"', "config.ru": "" },
      "exec bundle exec rackup --host 0.0.0.0 --port $PORT",
    ],
    [
      "Sinatra in app.rb",
      { Gemfile: "gem 'sinatra'", "app.rb": "" },
      "exec bundle exec ruby app.rb -o 0.0.0.0 -p $PORT",
    ],
    ["a Procfile", { Gemfile: "", Procfile: "web: ruby x.rb" }, "exec ruby x.rb"],
  ])("with %s has a start command", async (_, files, command) => {
    expect(await commandOf(files)).toBe(`CMD ["/bin/sh", "-c", ${JSON.stringify(command)}]`);
  });

  test.each<[Files, string]>([
    [{ Gemfile: "" }, "3.4"],
    [{ Gemfile: "", ".ruby-version": "ruby-3.3.0\n" }, "3.3.0"],
    [{ Gemfile: "", ".tool-versions": "# tools\nruby 3.1.2\n" }, "3.1.2"],
    [{ Gemfile: "", "mise.toml": '[tools]\nruby = { version = "3.2" }' }, "3.2"],
    [{ Gemfile: "", "Gemfile.lock": "RUBY VERSION\n   ruby 3.0.6p216\n" }, "3.0.6"],
  ])("with %j runs on Ruby %s", async (files, version) => {
    expect(await textOf({ ...files, "app.rb": "" })).toContain(`FROM ruby:${version}-slim`);
  });

  test("with Jekyll becomes pages", async () => {
    expect(await textOf({ Gemfile: 'gem "jekyll"' })).toMatch(
      /jekyll build[^]*COPY --from=build \/site \/srv/,
    );
  });

  test("without a start command is refused", async () => {
    expect(await refusalOf({ Gemfile: "" })).toContain("no start command can be derived");
  });
});

describe("Java", () => {
  const boot =
    "<parent><artifactId>spring-boot-starter-parent</artifactId>\n<version>3.4.1</version></parent><java.version>17</java.version><plugin>spring-boot-maven-plugin</plugin>";

  test("with Spring Boot and Maven is copied in the layers of its jar", async () => {
    const text = await textOf({ "pom.xml": boot });
    expect(text).toContain("FROM maven:3-eclipse-temurin-17 AS build");
    expect(text).toContain("extract --layers --destination /out");
    expect(text).toMatch(
      /out\/dependencies\/ \/app\/\nCOPY .*spring-boot-loader\/ \/app\/\n.*snapshot-dependencies.*\n.*\/out\/application\/ \/app\//,
    );
    expect(text).toContain("FROM eclipse-temurin:17-jre");
    expect(await commandOf({ "pom.xml": boot })).toContain("-Dserver.port=$PORT");
  });

  test("with Quarkus runs its folder", async () => {
    expect(await textOf({ "pom.xml": "quarkus-maven-plugin" })).toContain(
      "quarkus-app /out && mv /out/quarkus-run.jar /out/app.jar",
    );
  });

  test("with Gradle builds the module that is a program, with the version of the wrapper", async () => {
    const text = await textOf({
      "settings.gradle.kts": 'rootProject.name = "shop"\ninclude("app", "lib")',
      "app/build.gradle.kts":
        "plugins { application }\njava { toolchain { languageVersion = JavaLanguageVersion.of(17) } }",
      "lib/build.gradle.kts": "plugins { `java-library` }",
      "gradle/wrapper/gradle-wrapper.properties":
        "distributionUrl=https\\://example.test/gradle-8.8-bin.zip",
    });
    expect(text).toContain("FROM gradle:8.8-jdk17 AS build");
    expect(text).toContain("RUN gradle --no-daemon :app:installDist");
    expect(text).toContain("RUN cp -r app/build/install/app /out");
    expect(text).toContain("exec sh bin/app");
  });

  test("with Maven and a main class runs it with its libraries", async () => {
    const files = {
      "pom.xml": "<maven.compiler.release>8</maven.compiler.release>",
      "src/main/java/a/b/App.java": "public static void main(String[] a) {}",
    };
    expect(await textOf(files)).toContain("dependency:copy-dependencies");
    expect(await commandOf(files)).toContain("-cp 'app.jar:lib/*' a.b.App");
    expect(await textOf(files)).toContain("eclipse-temurin:8-jre");
  });

  test.each<[Files, number]>([
    [{ "pom.xml": pom }, 21],
    [{ "pom.xml": pom, ".sdkmanrc": "java=17.0.9-tem" }, 17],
    [{ "pom.xml": pom, "system.properties": "java.runtime.version=11" }, 11],
    [{ "pom.xml": pom, ".tool-versions": "java temurin-21.0.2+13" }, 21],
    [{ "pom.xml": "<java.version>1.8</java.version>" }, 8],
    [{ "build.gradle": "sourceCompatibility = '19'\napply plugin: 'application'" }, 21],
  ])("with %j runs on Java %i", async (files, release) => {
    expect(await textOf(files)).toContain(`FROM eclipse-temurin:${release}-jre`);
  });

  test("with several programs is refused with their names", async () => {
    const files = {
      "pom.xml": "<module>api</module><module>jobs</module>",
      "api/pom.xml": "spring-boot-maven-plugin",
      "jobs/pom.xml": "spring-boot-maven-plugin",
    };
    expect(await refusalOf(files)).toBe("several modules are programs (api, jobs)");
  });
});

const web = (version: string) =>
  `<Project Sdk="Microsoft.NET.Sdk.Web"><TargetFramework>net${version}</TargetFramework>`;

describe(".NET", () => {
  test("with a web project is published and listens on PORT", async () => {
    const files = {
      "Shop.sln": "",
      "src/Shop/Shop.csproj": web("8.0"),
      "test/Shop.Test/Shop.Test.csproj": "Microsoft.NET.Test.Sdk",
    };
    const text = await textOf(files);
    expect(text).toContain("RUN dotnet publish src/Shop/Shop.csproj --configuration Release");
    expect(text).toContain("dotnet/aspnet:8.0");
    expect(await commandOf(files)).toContain("ASPNETCORE_URLS=http://+:$PORT exec dotnet Shop.dll");
  });

  test("with a program that is no server needs only the runtime", async () => {
    const text = await textOf({
      "job.csproj":
        '<Project Sdk="Microsoft.NET.Sdk"><OutputType>Exe</OutputType><AssemblyName>Job</AssemblyName>',
    });
    expect(text).toContain("dotnet/runtime:10.0");
    expect(text).toContain("exec dotnet Job.dll");
  });

  test("with several web projects is refused with their names", async () => {
    expect(await refusalOf({ "a/a.csproj": web("8.0"), "b/b.csproj": web("8.0") })).toBe(
      "there are several projects (a/a.csproj, b/b.csproj)",
    );
  });
});

describe("Rust", () => {
  const manifest = '[package]\nname = "shop"\n';

  test("is built with its lock file and runs in an image without Rust", async () => {
    const text = await textOf({
      "Cargo.toml": `${manifest}[dependencies]\nopenssl = "0.10"`,
      "Cargo.lock": 'name = "openssl-sys"\n',
      "src/main.rs": "",
    });
    expect(text).toContain("cargo build --release --locked --bin shop ");
    expect(text).toContain("ca-certificates libssl3 ");
    expect(text).toContain("FROM debian:bookworm-slim");
  });

  test.each<[string, Files, string]>([
    [
      "default-run",
      {
        "Cargo.toml": `${manifest}default-run = "one"`,
        "src/bin/one.rs": "",
        "src/bin/two.rs": "",
      },
      "one",
    ],
    [
      "a table [[bin]]",
      { "Cargo.toml": `${manifest}[[bin]]\nname = "web"\npath = "src/main.rs"`, "src/main.rs": "" },
      "web",
    ],
    [
      "a workspace",
      {
        "Cargo.toml": '[workspace]\nmembers = ["crates/*"]',
        "crates/a/Cargo.toml": '[package]\nname = "a"',
        "crates/a/src/lib.rs": "",
        "crates/b/Cargo.toml": '[package]\nname = "b"',
        "crates/b/src/main.rs": "",
      },
      "b",
    ],
    [
      "the package's own name",
      { "Cargo.toml": manifest, "src/main.rs": "", "src/bin/tool.rs": "" },
      "shop",
    ],
  ])("builds the program that %s names", async (_, files, binary) => {
    expect(await textOf(files)).toContain(`--bin ${binary} `);
  });

  test("with several programs is refused with their names", async () => {
    expect(
      await refusalOf({ "Cargo.toml": manifest, "src/bin/one.rs": "", "src/bin/two.rs": "" }),
    ).toContain("(one, two)");
  });

  test.each<[Files, string]>([
    [{}, "rust:1-bookworm"],
    [{ "rust-toolchain.toml": '[toolchain]\nchannel = "1.85"' }, "rust:1.85-bookworm"],
    [{ "rust-toolchain": "1.59.0\n" }, "rust:1.59.0"],
    [{ ".tool-versions": "rust 1.88.0" }, "rust:1.88.0-bookworm"],
  ])("with %j is built in %s", async (files, image) => {
    expect(await textOf({ ...files, "Cargo.toml": manifest, "src/main.rs": "" })).toContain(
      `FROM ${image} AS build`,
    );
  });

  test("with Rocket listens on PORT of all addresses", async () => {
    expect(
      await commandOf({
        "Cargo.toml": `${manifest}[dependencies]\nrocket = "0.5"`,
        "src/main.rs": "",
      }),
    ).toContain("ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT");
  });
});

describe("Elixir", () => {
  test("with Phoenix becomes a release that starts the server", async () => {
    const text = await textOf({
      "mix.exs": `${mix}\naliases: ["assets.deploy": []]`,
      "mix.lock": "",
      "config/config.exs": "",
      ".tool-versions": "elixir 1.17.2-otp-27",
    });
    expect(text).toContain("FROM elixir:1.17.2 AS build");
    expect(text).toMatch(
      /COPY mix.exs mix.lock .*\nRUN mix deps.get --only prod\nCOPY config .*\nRUN mix deps.compile\n/,
    );
    expect(text).toContain("RUN mix assets.deploy\nRUN mix release --path /out");
    expect(text).toContain("PHX_SERVER=true");
    expect(text).toContain('CMD ["/app/bin/shop", "start"]');
  });

  test("in an umbrella project without a release is refused", async () => {
    expect(await refusalOf({ "mix.exs": 'apps_path: "apps"' })).toContain("umbrella");
  });
});

describe("Deno", () => {
  test.each<[string, Files, string]>([
    [
      "a task start",
      { "deno.json": { tasks: { start: "deno run -A main.ts" } } },
      "exec deno task start",
    ],
    [
      "an entry file",
      { "deno.jsonc": '{\n  // tasks\n  "tasks": { "dev": "x", },\n}', "main.ts": "" },
      "exec deno run --allow-all main.ts",
    ],
    [
      "a task that watches",
      { "deno.json": { tasks: { start: "deno run --watch main.ts" } }, "main.ts": "" },
      "exec deno run --allow-all main.ts",
    ],
  ])("with %s listens on PORT", async (_, files, command) => {
    expect(await commandOf(files)).toContain(`DENO_SERVE_ADDRESS=tcp:0.0.0.0:$PORT ${command}`);
  });

  test("runs its task build, and the version that the source asks for", async () => {
    const text = await textOf({
      "deno.json": { tasks: { build: "x", start: "y" } },
      ".deno-version": "2.2.2\n",
    });
    expect(text).toContain("FROM denoland/deno:2.2.2\n");
    expect(text).toContain("RUN deno task build\n");
  });
});

test.each([
  ["#!/bin/bash\n", "bash"],
  ["#!/usr/bin/env bash\n", "bash"],
  ["echo hello\n", "sh"],
])("a script that begins with %j runs with %s", async (text, shell) => {
  expect(await commandOf({ "start.sh": text })).toBe(`CMD ["${shell}", "start.sh"]`);
});
