import { type StartCommand, splitPlainWords } from "./generated-dockerfile.ts";
import { type FrameworkBuild, isDevServer } from "./node-frameworks.ts";
import { getScript, type NodePackage } from "./node-package.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const entryFiles = ["server.js", "index.js", "app.js", "main.js", "server.mjs", "index.mjs"];

export interface NodeStart {
  readonly command: StartCommand;
  /** True if the command needs packages that the source lists only for development, such as tsx. */
  readonly needsDevelopmentPackages: boolean;
  /** True if the command runs Bun. */
  readonly runsBun: boolean;
}

/** Finds the start command of a Node.js or Bun app. Throws `invalid_request` if there is none. */
export async function findNodeStart(
  reader: SourceReader,
  pkg: NodePackage,
  { isBun, framework }: { readonly isBun: boolean; readonly framework: FrameworkBuild | undefined },
): Promise<NodeStart> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return describe(pkg, named);
  const program = (words: readonly string[]) => describe(pkg, { type: "program", words });
  const script = getScript(pkg, "start");
  // Without a build script there is no built server to start.
  const server =
    framework?.type === "server" && getScript(pkg, "build") !== undefined ? framework : undefined;
  if (
    server !== undefined &&
    (script === undefined || server.replacesStart === true || isDevServer(script))
  ) {
    const production = getScript(pkg, "start:prod");
    return production !== undefined && server.replacesStart !== true
      ? startScript(pkg, "start:prod", production, isBun)
      : program(server.start);
  }
  if (script !== undefined) return startScript(pkg, "start", script, isBun);
  const { main } = pkg;
  const runner = isBun ? "bun" : "node";
  if (main !== undefined && /^[\w./-]+$/.test(main) && hasMainFile(reader, main))
    return program([runner, main]);
  const file = [...entryFiles, ...(isBun ? ["index.ts", "server.ts"] : [])].find((name) =>
    reader.has(name),
  );
  if (file !== undefined) return program([runner, file]);
  throw undecidedSourceError(
    "package.json has neither a start script nor an existing main file",
    'add a start script, such as "scripts": { "start": "node server.js" }, or a Procfile with a web: line',
  );
}

function startScript(pkg: NodePackage, name: string, script: string, isBun: boolean): NodeStart {
  const line = withoutWatching(script);
  const hasHooks = [`pre${name}`, `post${name}`].some((hook) => getScript(pkg, hook) !== undefined);
  const words = hasHooks ? undefined : splitPlainWords(line);
  // The program is started without npm, so that SIGTERM reaches it.
  if (words !== undefined) return describe(pkg, { type: "program", words });
  const command = { type: "program", words: [isBun ? "bun" : "npm", "run", name] } as const;
  return { ...describe(pkg, { type: "shell", line }), command };
}

/** A program that restarts when files change is started without that. */
function withoutWatching(script: string): string {
  return script
    .replace(/^nodemon (?=\S+\.[cm]?js\b)/, "node ")
    .replace(/^(tsx|bun|node) (watch|--watch) /, "$1 ");
}

/** Programs of packages that have another name. */
const packageOfProgram: Readonly<Record<string, string>> = {
  nest: "@nestjs/cli",
  "react-router-serve": "@react-router/serve",
  "remix-serve": "@remix-run/serve",
  "ts-node-dev": "ts-node-dev",
  tsnd: "ts-node-dev",
};

function describe(pkg: NodePackage, command: StartCommand): NodeStart {
  const words =
    command.type === "program" ? command.words : command.line.split(/[\s;&|=]+/).filter(Boolean);
  const packages = words.map((word) => packageOfProgram[word] ?? word.replace(/\/register$/, ""));
  return {
    command,
    needsDevelopmentPackages: packages.some(
      (name) => name in pkg.devDependencies && !(name in pkg.dependencies),
    ),
    runsBun: words[0] === "bun" || words.includes("bunx"),
  };
}

/** Returns true if the main file exists, or is in a folder that only the build creates. */
function hasMainFile(reader: SourceReader, main: string): boolean {
  return reader.has(main.replace(/^\.\//, "")) || /^(\.\/)?(dist|build|lib|out)\//.test(main);
}
