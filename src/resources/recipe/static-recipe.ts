import {
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8080;
/** The image of the web server. It has to contain Caddy 2 and a shell. */
export const WEB_SERVER_IMAGE = "caddy:2-alpine";
const pagesFolders = ["public", "dist", "build", "_site", "site", "www", "out", "html"];

/**
 * Returns the folder with the pages, which is `""` for the source itself; undefined if there is none. It is the `root`
 * of a Staticfile, or the folder with index.html.
 */
export async function findPagesFolder(reader: SourceReader): Promise<string | undefined> {
  const root = /^root:\s*([\w./-]+)\s*$/m.exec((await reader.read("Staticfile")) ?? "")?.[1];
  const named = root?.replace(/^(\.\/)+/, "").replace(/\/$/, "");
  if (named !== undefined && reader.has(named)) return named;
  if (reader.has("index.html")) return "";
  return pagesFolders.find((folder) => reader.has(`${folder}/index.html`));
}

export async function createStaticDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const folder = await findPagesFolder(reader);
  if (folder === undefined)
    throw undecidedSourceError(
      `there is no index.html, neither in the source nor in ${pagesFolders.join(", ")}`,
      "add one",
    );
  const description = "a static site, served by Caddy";
  const index = folder === "" ? "index.html" : `${folder}/index.html`;
  const decidingFiles = [reader.has(index) ? index : "Staticfile"];
  const errorPage = reader.has(folder === "" ? "404.html" : `${folder}/404.html`);
  return {
    description,
    decidingFiles,
    port: PORT,
    text: formatDockerfile(description, decidingFiles, [
      `FROM ${options.baseImage ?? WEB_SERVER_IMAGE}`,
      ...createWebServerLines(
        `COPY ${folder === "" ? "." : folder} /srv`,
        errorPage ? "error page" : "nothing",
      ),
    ]),
  };
}

/**
 * Creates the lines that serve the files in /srv. `copyInstruction` copies the files there. `fallback` is the response
 * for a path without a file: `index` for apps with routes in the browser, the site's 404.html, or nothing.
 */
export function createWebServerLines(
  copyInstruction: string,
  fallback: "index" | "error page" | "nothing",
): readonly string[] {
  // Caddy replaces {$PORT} by the variable when it starts.
  const config = [
    "{",
    "admin off",
    "auto_https off",
    "}",
    `:{$PORT:${PORT}} {`,
    "root * /srv",
    "encode gzip",
    // Hidden files, and files that only a build needs, are not served.
    "@hidden {",
    "path */.* /Dockerfile /Procfile",
    "not path /.well-known/*",
    "}",
    "error @hidden 404",
    ...(fallback === "index" ? ["try_files {path} {path}/ {path}.html /index.html"] : []),
    ...(fallback === "index" ? [] : ["try_files {path} {path}/ {path}.html"]),
    "file_server",
    ...(fallback === "error page"
      ? ["handle_errors {", "rewrite * /404.html", "file_server", "}"]
      : []),
    "}",
  ];
  const words = config.map((line) => `'${line}'`).join(" \\\n    ");
  return [
    `RUN mkdir -p /etc/caddy && printf '%s\\n' \\\n    ${words} \\\n    > /etc/caddy/Caddyfile`,
    copyInstruction,
    // Caddy saves its configuration. The user of the image has no home directory for that file, so it is written to
    // /tmp.
    `ENV PORT=${PORT} XDG_CONFIG_HOME=/tmp XDG_DATA_HOME=/tmp`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    `CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]`,
  ];
}
