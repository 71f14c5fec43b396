import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { type FrameworkBuild, findFramework } from "./node-frameworks.ts";
import { findNodeLibraries } from "./node-libraries.ts";
import { getScript, type NodePackage, readNodePackage } from "./node-package.ts";
import {
  detectPackageManager,
  listInstallFiles,
  listInstallFolders,
  type PackageManager,
} from "./node-package-manager.ts";
import { findNodeStart } from "./node-start.ts";
import { chooseNodeVersion } from "./node-version.ts";
import type { SourceReader } from "./source-reader.ts";
import { createWebServerLines, WEB_SERVER_IMAGE } from "./static-recipe.ts";
import { findToolVersion } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 3000;
const DEFAULT_BUN = "1";
/** Scripts of the source that run during an install, and may read any file of the source. */
const installScripts = ["preinstall", "install", "postinstall", "prepare"];

/** Creates the Dockerfile for Node.js and Bun. Throws `invalid_request` if no start command can be derived. */
export async function createNodeDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const pkg = await readNodePackage(reader);
  if (pkg === undefined) throw undecidedSourceError("there is no package.json", "add one");
  const manager = await detectPackageManager(reader, pkg);
  const node = await chooseNodeVersion(reader, pkg);
  const bun = await chooseBunVersion(reader, pkg);
  const isBun = manager.name === "bun";
  const framework = await findFramework(reader, pkg);
  const platform = isBun
    ? bun === DEFAULT_BUN
      ? "Bun"
      : `Bun ${bun}`
    : `Node.js ${node.tag} with ${manager.name}`;
  const decidingFiles = [
    "package.json",
    ...[manager.lockFile, node.from].filter((file) => file !== "package.json"),
  ].filter((file) => file !== undefined);
  const buildImage = options.baseImage ?? (isBun ? `oven/bun:${bun}` : `node:${node.tag}`);
  const runImage = options.baseImage ?? `${buildImage}-slim`;
  if (framework?.type === "pages") {
    const site = `${platform}, and Caddy for the pages that ${framework.name} makes`;
    return {
      description: site,
      decidingFiles,
      port: 8080,
      text: formatDockerfile(site, decidingFiles, [
        `FROM ${buildImage} AS build`,
        ...createBuildLines(reader, pkg, { manager, framework, keepsAll: true }),
        "",
        `FROM ${WEB_SERVER_IMAGE}`,
        ...createWebServerLines(
          `COPY --from=build /app/${framework.output} /srv`,
          framework.fallback,
        ),
      ]),
    };
  }
  const start = await findNodeStart(reader, pkg, { isBun, framework });
  const libraries = findNodeLibraries(pkg);
  const needsStage = hasPackages(pkg) || getScript(pkg, "build") !== undefined;
  const description = framework === undefined ? platform : `${framework.name} on ${platform}`;
  const addsBun = start.runsBun && !isBun && options.baseImage === undefined;
  // A framework that builds a complete folder needs nothing else of the source, unless a start script runs in it.
  const isComplete =
    framework?.output !== undefined &&
    start.command.type === "program" &&
    start.command.words.join(" ") === framework.start.join(" ");
  const isInside = isComplete && framework.replacesStart === true;
  const target = !isComplete || isInside ? "/app" : `/app/${framework.output}`;
  const lines = [
    ...(needsStage
      ? [
          `FROM ${buildImage} AS build`,
          ...(libraries.environment.length === 0 ? [] : [`ENV ${libraries.environment.join(" ")}`]),
          ...createBuildLines(reader, pkg, {
            manager,
            framework,
            keepsAll: start.needsDevelopmentPackages || isComplete,
          }),
          "",
        ]
      : []),
    `FROM ${runImage}`,
    ...(libraries.debian.length === 0 ? [] : [installDebian(libraries.debian)]),
    ...(addsBun ? [`COPY --from=oven/bun:${bun}-slim /usr/local/bin/bun /usr/local/bin/bun`] : []),
    // COPY comes before WORKDIR, so that the working directory itself also belongs to the user who runs the app.
    `COPY ${needsStage ? "--from=build " : ""}--chown=${USER} ${needsStage ? `/app${isComplete ? `/${framework.output}` : ""}` : "."} ${target}`,
    "WORKDIR /app",
    `ENV NODE_ENV=production HOST=0.0.0.0 PORT=${PORT} PATH=/app/node_modules/.bin:$PATH`,
    ...(libraries.environment.length === 0 ? [] : [`ENV ${libraries.environment.join(" ")}`]),
    ...libraries.lines,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start.command),
  ];
  const text = formatDockerfile(description, decidingFiles, lines);
  return { description, decidingFiles, port: PORT, text };
}

/** Creates the line that installs packages of Debian, without what they only recommend. */
function installDebian(packages: readonly string[]): string {
  return `RUN apt-get update && apt-get install -y --no-install-recommends ${packages.join(" ")} && rm -rf /var/lib/apt/lists/*`;
}

async function chooseBunVersion(reader: SourceReader, pkg: NodePackage): Promise<string> {
  const named = /^bun@(\d+(?:\.\d+){0,2})/.exec(pkg.packageManager ?? "")?.[1];
  const tool = named ?? (await findToolVersion(reader, ["bun"], [".bun-version"]))?.version;
  return /^\d+(\.\d+){0,2}$/.exec(tool ?? "")?.[0] ?? DEFAULT_BUN;
}

function hasPackages(pkg: NodePackage): boolean {
  const all = { ...pkg.dependencies, ...pkg.devDependencies, ...pkg.optionalDependencies };
  return Object.keys(all).length > 0 || pkg.hasWorkspaces;
}

/**
 * Creates the Dockerfile lines that install the packages and build the app in /app. The packages are installed first,
 * so that their layers stay cached when the code changes. Unless `keepsAll`, packages for development are left out of
 * the result.
 */
function createBuildLines(
  reader: SourceReader,
  pkg: NodePackage,
  {
    manager,
    framework,
    keepsAll,
  }: {
    readonly manager: PackageManager;
    readonly framework: FrameworkBuild | undefined;
    readonly keepsAll: boolean;
  },
): readonly string[] {
  const hasBuild = getScript(pkg, "build") !== undefined;
  const ownBuild = framework?.type === "pages" ? framework.build : undefined;
  const build = hasBuild ? `${manager.name} run build` : ownBuild;
  const hasInstallScripts = installScripts.some((name) => getScript(pkg, name) !== undefined);
  // With workspaces or install scripts, an install may read any file, so the whole source is copied before it.
  const isWhole = pkg.hasWorkspaces || hasInstallScripts;
  // Install scripts such as `husky` run programs of packages for development, which are therefore installed first.
  const installsAll = build !== undefined || keepsAll || hasInstallScripts;
  const prune = installsAll && !keepsAll && !pkg.hasWorkspaces ? manager.prune : undefined;
  const packages = [
    ...(isWhole
      ? ["COPY . ."]
      : [
          `COPY ${listInstallFiles(reader, manager).join(" ")} ./`,
          ...listInstallFolders(reader).map((folder) => `COPY ${folder} ./${folder}`),
        ]),
    `RUN ${installsAll ? manager.install : manager.installProduction}`,
    ...(isWhole ? [] : ["COPY . ."]),
  ];
  const server = framework?.type === "server" ? framework : undefined;
  const environment = server?.environment ?? [];
  return [
    "WORKDIR /app",
    ...manager.setup,
    ...(hasPackages(pkg) ? packages : ["COPY . ."]),
    ...(build === undefined ? [] : [`RUN ${[...environment, build].join(" ")}`]),
    ...(prune === undefined || !hasPackages(pkg) ? [] : [`RUN ${prune}`]),
    ...(server?.afterBuild ?? []).map((command) => `RUN ${command}`),
  ];
}
