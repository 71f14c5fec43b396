import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  type StartCommand,
  USER,
} from "./generated-dockerfile.ts";
import { createNodeAssets, createNodeLines } from "./node-assets.ts";
import { readProcfileStart } from "./procfile.ts";
import { listGems, listLockedGems, readRubyVersion } from "./ruby-project.ts";
import type { SourceReader } from "./source-reader.ts";
import { createWebServerLines, WEB_SERVER_IMAGE } from "./static-recipe.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 3000;
const NODE = "24";

/** Libraries of the system that gems load at run time, as packages of Debian. */
const RUNTIME_LIBRARIES: readonly (readonly [string, string])[] = [
  ["pg", "libpq5"],
  ["mysql2", "libmariadb3"],
  ["ruby-vips", "libvips42"],
  ["rmagick", "libmagickwand-7.q16-10"],
];
const programFiles = ["app.rb", "main.rb", "server.rb", "bot.rb"];

/**
 * Creates the Dockerfile for Ruby with Bundler. Assets of Rails are precompiled. Throws `invalid_request` if no start
 * command can be derived.
 */
export async function createRubyDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const gemfile = await reader.read("Gemfile");
  if (gemfile === undefined) throw undecidedSourceError("there is no Gemfile", "add one");
  const gems = listGems(gemfile);
  const locked = await listLockedGems(reader);
  const hasGem = (name: string) => gems.has(name) || locked.has(name);
  const ruby = await readRubyVersion(reader, gemfile);
  const decidingFiles = ["Gemfile", ...ruby.from.filter((file) => file !== "Gemfile")];
  const image = options.baseImage ?? `ruby:${ruby.version}`;
  const runImage = options.baseImage ?? `ruby:${ruby.version}-slim`;
  const isRails = gems.has("rails") || reader.has("config/application.rb");
  const description = `${isRails ? "Rails on " : ""}Ruby ${ruby.version}`;
  const assets = await createNodeAssets(reader);
  const needsNode = assets !== undefined || hasGem("execjs");
  const install = [
    `FROM ${image} AS build`,
    "WORKDIR /app",
    ...(assets?.setup ?? (needsNode ? createNodeLines(NODE) : [])),
    `ENV BUNDLE_PATH=/bundle BUNDLE_WITHOUT=development:test${reader.has("Gemfile.lock") ? " BUNDLE_DEPLOYMENT=1" : ""}`,
    ...copyForBundler(reader, gemfile),
    "RUN bundle install && rm -rf /bundle/ruby/*/cache",
  ];
  if (gems.has("jekyll")) {
    const site = `Jekyll on Ruby ${ruby.version}, and Caddy for its pages`;
    return {
      description: site,
      decidingFiles,
      port: 8080,
      text: formatDockerfile(site, decidingFiles, [
        ...install,
        "COPY . .",
        "RUN JEKYLL_ENV=production bundle exec jekyll build --destination /site",
        "",
        `FROM ${WEB_SERVER_IMAGE}`,
        ...createWebServerLines("COPY --from=build /site /srv", "error page"),
      ]),
    };
  }
  const start = await findRubyStart(reader, { isRails, hasGem });
  const libraries = RUNTIME_LIBRARIES.filter(([gem]) => hasGem(gem)).map(([, name]) => name);
  const text = formatDockerfile(description, decidingFiles, [
    ...install,
    "COPY . .",
    ...(assets?.install ?? []),
    ...(isRails && reader.has("app/assets")
      ? [
          // Rails refuses to start without a secret key, but the assets do not depend on the key.
          "RUN RAILS_ENV=production SECRET_KEY_BASE_DUMMY=1 SECRET_KEY_BASE=assets bundle exec rails assets:precompile",
        ]
      : (assets?.build ?? [])),
    ...(assets === undefined ? [] : ["RUN rm -rf node_modules"]),
    "",
    `FROM ${runImage}`,
    ...(libraries.length === 0
      ? []
      : [
          `RUN apt-get update && apt-get install -y --no-install-recommends ${libraries.join(" ")} && rm -rf /var/lib/apt/lists/*`,
        ]),
    ...(hasGem("execjs") ? [`COPY --from=build /usr/local/bin/node /usr/local/bin/node`] : []),
    "COPY --from=build /bundle /bundle",
    `COPY --from=build --chown=${USER} /app /app`,
    "WORKDIR /app",
    `ENV BUNDLE_PATH=/bundle BUNDLE_WITHOUT=development:test RACK_ENV=production HOME=/tmp PORT=${PORT}`,
    isRails &&
      "ENV RAILS_ENV=production RAILS_LOG_TO_STDOUT=1 RAILS_SERVE_STATIC_FILES=1 RUBY_YJIT_ENABLE=1",
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

/** Bundler reads only these files, unless a gem is in a folder of the source. */
function copyForBundler(reader: SourceReader, gemfile: string): readonly string[] {
  const isLocal = /^\s*(gemspec\b|gem\b.*\bpath:|path\s)/m.test(gemfile);
  const files = ["Gemfile", "Gemfile.lock", ".ruby-version", ".tool-versions"];
  return isLocal ? ["COPY . ."] : [`COPY ${files.filter((file) => reader.has(file)).join(" ")} ./`];
}

const shell = (line: string): StartCommand => ({ type: "shell", line });

async function findRubyStart(
  reader: SourceReader,
  { isRails, hasGem }: { readonly isRails: boolean; readonly hasGem: (name: string) => boolean },
): Promise<StartCommand> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return named;
  if (isRails)
    // A container that is restarted still has the file with the process id of its previous run.
    return shell(
      "rm -f tmp/pids/server.pid; exec bundle exec rails server --binding 0.0.0.0 --port $PORT",
    );
  if (reader.has("config.ru"))
    return shell(
      hasGem("puma")
        ? "bundle exec puma --bind tcp://0.0.0.0:$PORT"
        : "bundle exec rackup --host 0.0.0.0 --port $PORT",
    );
  const file = programFiles.find((name) => reader.has(name));
  if (file !== undefined)
    return hasGem("sinatra")
      ? shell(`bundle exec ruby ${file} -o 0.0.0.0 -p $PORT`)
      : { type: "program", words: ["bundle", "exec", "ruby", file] };
  throw undecidedSourceError(
    `no start command can be derived: there is no Procfile, no config.ru, no config/application.rb, and none of ${programFiles.join(", ")}`,
    "add a Procfile such as `web: bundle exec puma --bind tcp://0.0.0.0:$PORT`",
  );
}
