import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  type StartCommand,
  splitPlainWords,
  USER,
} from "./generated-dockerfile.ts";
import { chooseNodeMajor, getScript, type NodePackage, readNodePackage } from "./node-package.ts";
import {
  detectPackageManager,
  listInstallFiles,
  listInstallFolders,
  type PackageManager,
} from "./node-package-manager.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { findStaticBuild } from "./static-frontends.ts";
import { createWebServerLines, WEB_SERVER_IMAGE } from "./static-recipe.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 3000;
/** Scripts of the source that run during an install, and may read any file of the source. */
const installScripts = ["preinstall", "install", "postinstall", "prepare"];
const entryFiles = ["server.js", "index.js", "app.js", "main.js", "server.mjs", "index.mjs"];

/** Creates the Dockerfile for Node.js and Bun. Throws `invalid_request` if no start command can be derived. */
export async function createNodeDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const pkg = await readNodePackage(reader);
  if (pkg === undefined) throw undecidedSourceError("there is no package.json", "add one");
  const manager = await detectPackageManager(reader, pkg);
  const node = await chooseNodeMajor(reader, pkg);
  const isBun = manager.name === "bun";
  const description = isBun ? "Bun" : `Node.js ${node.major} with ${manager.name}`;
  const decidingFiles = [
    "package.json",
    ...[manager.lockFile, node.from].filter((file) => file !== "package.json"),
  ].filter((file) => file !== undefined);
  const buildImage = options.baseImage ?? (isBun ? "oven/bun:1" : `node:${node.major}`);
  const runImage = options.baseImage ?? (isBun ? "oven/bun:1-slim" : `node:${node.major}-slim`);
  const pages = findStaticBuild(pkg);
  if (pages !== undefined) {
    const lines = [
      `FROM ${buildImage} AS build`,
      ...createBuildLines(reader, pkg, manager, "pages"),
      "",
      `FROM ${WEB_SERVER_IMAGE}`,
      ...createWebServerLines(`COPY --from=build /app/${pages.output} /srv`, "index"),
    ];
    const site = `${description}, and Caddy for the pages that ${pages.tool} makes`;
    return {
      description: site,
      decidingFiles,
      port: 8080,
      text: formatDockerfile(site, decidingFiles, lines),
    };
  }
  const start = await findStartCommand(reader, pkg, isBun);
  const needsStage = hasPackages(pkg) || getScript(pkg, "build") !== undefined;
  const text = formatDockerfile(description, decidingFiles, [
    ...(needsStage
      ? [`FROM ${buildImage} AS build`, ...createBuildLines(reader, pkg, manager, "app"), ""]
      : []),
    `FROM ${runImage}`,
    // COPY comes before WORKDIR, so that the working directory itself also belongs to the user who runs the app.
    `COPY ${needsStage ? "--from=build " : ""}--chown=${USER} ${needsStage ? "/app" : "."} /app`,
    "WORKDIR /app",
    `ENV NODE_ENV=production HOST=0.0.0.0 PORT=${PORT} PATH=/app/node_modules/.bin:$PATH`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

function hasPackages(pkg: NodePackage): boolean {
  const all = { ...pkg.dependencies, ...pkg.devDependencies, ...pkg.optionalDependencies };
  return Object.keys(all).length > 0 || pkg.hasWorkspaces;
}

/**
 * Creates the Dockerfile lines that install the packages and build the app in /app. The packages are installed first,
 * so that their layers stay cached when the code changes.
 */
function createBuildLines(
  reader: SourceReader,
  pkg: NodePackage,
  manager: PackageManager,
  result: "app" | "pages",
): readonly string[] {
  const isBuilt = getScript(pkg, "build") !== undefined;
  // With workspaces or install scripts, an install may read any file, so the whole source is copied before it.
  const isWhole =
    pkg.hasWorkspaces || installScripts.some((name) => getScript(pkg, name) !== undefined);
  const prune = result === "app" && isBuilt && !pkg.hasWorkspaces ? manager.prune : undefined;
  const packages = [
    ...(isWhole
      ? ["COPY . ."]
      : [
          `COPY ${listInstallFiles(reader, manager).join(" ")} ./`,
          ...listInstallFolders(reader).map((folder) => `COPY ${folder} ./${folder}`),
        ]),
    `RUN ${isBuilt ? manager.install : manager.installProduction}`,
    ...(isWhole ? [] : ["COPY . ."]),
  ];
  return [
    "WORKDIR /app",
    ...manager.setup,
    ...(hasPackages(pkg) ? packages : ["COPY . ."]),
    ...(isBuilt ? [`RUN ${manager.name} run build`] : []),
    ...(prune === undefined || !hasPackages(pkg) ? [] : [`RUN ${prune}`]),
  ];
}

async function findStartCommand(
  reader: SourceReader,
  pkg: NodePackage,
  isBun: boolean,
): Promise<StartCommand> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return named;
  const runner = isBun ? "bun" : "node";
  const script = getScript(pkg, "start");
  if (script !== undefined) {
    const hasHooks = ["prestart", "poststart"].some((name) => getScript(pkg, name) !== undefined);
    const words = hasHooks ? undefined : splitPlainWords(script);
    // The program is started without npm, so that SIGTERM reaches it.
    if (words !== undefined) return { type: "program", words };
    return { type: "program", words: [isBun ? "bun" : "npm", "run", "start"] };
  }
  const { main } = pkg;
  if (main !== undefined && /^[\w./-]+$/.test(main) && hasMainFile(reader, main))
    return { type: "program", words: [runner, main] };
  const file = [...entryFiles, ...(isBun ? ["index.ts", "server.ts"] : [])].find((name) =>
    reader.has(name),
  );
  if (file !== undefined) return { type: "program", words: [runner, file] };
  throw undecidedSourceError(
    "package.json has neither a start script nor an existing main file",
    'add a start script, such as "scripts": { "start": "node server.js" }, or a Procfile with a web: line',
  );
}

/** Returns true if the main file exists, or is in a folder that only the build creates. */
function hasMainFile(reader: SourceReader, main: string): boolean {
  return reader.has(main.replace(/^\.\//, "")) || /^(\.\/)?(dist|build|lib|out)\//.test(main);
}
