import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { createNodeLines } from "./node-assets.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 4000;
const DEFAULT_ELIXIR = "1.18";
const NODE = "24";

/** Creates the Dockerfile for Elixir, which runs a release of Mix. Throws `invalid_request` if it has no name. */
export async function createElixirDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const mix = await reader.read("mix.exs");
  if (mix === undefined) throw undecidedSourceError("there is no mix.exs", "run `mix new`");
  const name = /\breleases:\s*\[\s*(\w+):/.exec(mix)?.[1] ?? /\bapp:\s*:(\w+)/.exec(mix)?.[1];
  if (name === undefined)
    throw undecidedSourceError(
      "mix.exs names neither an app nor a release, as in an umbrella project",
      "add `releases:` with one release to mix.exs",
    );
  const elixir = await chooseElixirVersion(reader);
  const isPhoenix = /\{:phoenix,/.test(mix);
  const description = `${isPhoenix ? "Phoenix on " : ""}Elixir ${elixir.version}`;
  const decidingFiles = ["mix.exs", ...elixir.from];
  const hasConfig = reader.list("config").length > 0;
  const hasAssetPackages = reader.has("assets/package.json");
  const deploysAssets = /["']assets\.deploy["']\s*:/.test(mix);
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${options.baseImage ?? `elixir:${elixir.version}`} AS build`,
    "WORKDIR /src",
    ...(hasAssetPackages ? createNodeLines(NODE) : []),
    "ENV MIX_ENV=prod LANG=C.UTF-8",
    "RUN mix local.hex --force && mix local.rebar --force",
    `COPY ${["mix.exs", "mix.lock"].filter((file) => reader.has(file)).join(" ")} ./`,
    "RUN mix deps.get --only prod",
    ...(hasConfig ? ["COPY config ./config"] : []),
    "RUN mix deps.compile",
    "COPY . .",
    ...(hasAssetPackages ? ["RUN npm install --prefix assets"] : []),
    "RUN mix compile",
    ...(deploysAssets ? ["RUN mix assets.deploy"] : []),
    "RUN mix release --path /out",
    "",
    // A release contains Erlang, but needs the libraries with which Erlang was built.
    `FROM ${options.baseImage ?? `elixir:${elixir.version}-slim`}`,
    `COPY --from=build --chown=${USER} /out /app`,
    "WORKDIR /app",
    `ENV LANG=C.UTF-8 HOME=/tmp PORT=${PORT}${isPhoenix ? " PHX_SERVER=true" : ""}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(
      (await readProcfileStart(reader)) ?? {
        type: "program",
        words: [`/app/bin/${name}`, "start"],
      },
    ),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

async function chooseElixirVersion(
  reader: SourceReader,
): Promise<{ readonly version: string; readonly from: readonly string[] }> {
  const tool = await findToolVersion(reader, ["elixir"], [".elixir-version"]);
  const version = /^1\.\d+(\.\d+)?/.exec(tool?.version ?? "")?.[0];
  // `elixir: "~> 1.14"` in mix.exs is a minimum, which the default satisfies.
  return tool === undefined || version === undefined
    ? { version: DEFAULT_ELIXIR, from: [] }
    : { version, from: [tool.from] };
}
