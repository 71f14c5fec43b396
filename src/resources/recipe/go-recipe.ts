import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  type StartCommand,
  USER,
} from "./generated-dockerfile.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8080;
/** The oldest Go version to use: newer versions can build modules for older ones. */
const OLDEST_VERSION: readonly [number, number] = [1, 24];

/** Creates the Dockerfile for Go modules. Throws `invalid_request` if the program to build is ambiguous. */
export async function createGoDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const workspace = await reader.read("go.work");
  const module = (await reader.read("go.mod")) ?? workspace;
  if (module === undefined) throw undecidedSourceError("there is no go.mod", "run `go mod init`");
  const named = await readProcfileStart(reader);
  const main =
    workspace === undefined
      ? await findMainPackage(reader, module, programOf(named))
      : await findWorkspacePackage(reader, workspace, programOf(named));
  const version = chooseGoVersion(module);
  const sums = (await reader.read("go.sum")) ?? "";
  // These packages compile C code, so a program that uses one is built with cgo. All other programs are built without
  // cgo.
  const needsC = cPackages.some((name) => sums.includes(`${name} `) || sums.includes(`${name}/`));
  const isVendored = reader.has("vendor/modules.txt");
  const description = `Go ${version}`;
  const decidingFiles = [
    workspace === undefined ? "go.mod" : "go.work",
    ...(main === "." ? [] : [main.slice(2)]),
  ];
  const start = createStart(named);
  const runImage = options.baseImage ?? (needsC ? "debian:stable-slim" : "alpine:3");
  const certificates = "/etc/ssl/certs/ca-certificates.crt";
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${options.baseImage ?? `golang:${version}`} AS build`,
    "WORKDIR /src",
    ...(isVendored || workspace !== undefined
      ? []
      : [`COPY go.mod ${sums === "" ? "" : "go.sum "}./`, "RUN go mod download"]),
    "COPY . .",
    `RUN CGO_ENABLED=${needsC ? 1 : 0} go build -trimpath -tags timetzdata -ldflags='-s -w' -o /out/app ${main}`,
    "",
    `FROM ${runImage}`,
    needsC &&
      options.baseImage === undefined &&
      `COPY --from=build ${certificates} ${certificates}`,
    "COPY --from=build /out/app /usr/local/bin/app",
    // Copies templates and pages, which the program reads from its working directory.
    `COPY --chown=${USER} . /app`,
    "WORKDIR /app",
    `ENV PORT=${PORT}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

const cPackages = [
  "github.com/mattn/go-sqlite3",
  "github.com/confluentinc/confluent-kafka-go",
  "github.com/h2non/bimg",
  "github.com/chai2010/webp",
  "gocv.io/x/gocv",
];

/** A Procfile of Go names the program in bin/, where other platforms put it: `bin/shop`, `./shop`. */
const ownProgram = /^(?:\.\/|bin\/|\.\/bin\/|\$GOPATH\/bin\/)([\w.-]+)(?=\s|$)/;

function programOf(named: StartCommand | undefined): string | undefined {
  return named?.type === "shell" ? ownProgram.exec(named.line)?.[1] : undefined;
}

function createStart(named: StartCommand | undefined): StartCommand {
  const program = "/usr/local/bin/app";
  if (named === undefined) return { type: "program", words: [program] };
  return named.type === "shell"
    ? { type: "shell", line: named.line.replace(ownProgram, program) }
    : named;
}

function chooseGoVersion(module: string): string {
  const asked = ["toolchain go", "go "].map((word) =>
    new RegExp(`^${word}(\\d+)\\.(\\d+)`, "m").exec(module),
  );
  let [major, minor] = OLDEST_VERSION;
  for (const match of asked) {
    const [askedMajor, askedMinor] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
    if (askedMajor > major || (askedMajor === major && askedMinor > minor))
      [major, minor] = [askedMajor, askedMinor];
  }
  return `${major}.${minor}`;
}

/** Finds the main package among the modules of a workspace. A Procfile chooses one of several. */
async function findWorkspacePackage(
  reader: SourceReader,
  workspace: string,
  named: string | undefined,
): Promise<string> {
  const used = [...workspace.matchAll(/^\s*(?:use\s+)?(\.\/[\w./-]+)\s*$/gm)].map(([, path = ""]) =>
    path.replace(/\/$/, ""),
  );
  const programs: string[] = [];
  for (const path of used) if (await hasMainPackage(reader, path.slice(2))) programs.push(path);
  const [first, ...others] = programs;
  if (first !== undefined && others.length === 0) return first;
  const chosen = programs.find((path) => path.split("/").at(-1) === named);
  if (chosen !== undefined) return chosen;
  throw undecidedSourceError(
    first === undefined
      ? "no module of go.work contains a package main"
      : `several modules of go.work are programs (${programs.join(", ")})`,
    "name the program in a Procfile, such as `web: bin/api`",
  );
}

/**
 * Finds the argument of `go build`: the main package of the module, or the program in cmd/. A Procfile chooses one of
 * several.
 */
async function findMainPackage(
  reader: SourceReader,
  module: string,
  named: string | undefined,
): Promise<string> {
  if (named !== undefined && (await hasMainPackage(reader, `cmd/${named}`)))
    return `./cmd/${named}`;
  if (await hasMainPackage(reader, "")) return ".";
  const commands: string[] = [];
  for (const name of reader.list("cmd"))
    if (/^[\w.-]+$/.test(name) && (await hasMainPackage(reader, `cmd/${name}`)))
      commands.push(name);
  const [first, ...others] = commands;
  if (first !== undefined && others.length === 0) return `./cmd/${first}`;
  const name = /^module\s+"?(\S+?)"?(?:\/v\d+)?\s*$/m.exec(module)?.[1]?.split("/").at(-1);
  const own = commands.find((command) => command === name);
  if (own !== undefined) return `./cmd/${own}`;
  throw first === undefined
    ? undecidedSourceError("there is no package main, neither in the source nor in cmd/", "add one")
    : undecidedSourceError(
        `cmd/ contains several programs (${commands.join(", ")}), and none has the module's name`,
        "give the program to run the name of the module, or name it in a Procfile, such as `web: bin/api`",
      );
}

async function hasMainPackage(reader: SourceReader, folder: string): Promise<boolean> {
  for (const name of reader.list(folder)) {
    if (!name.endsWith(".go") || name.endsWith("_test.go")) continue;
    const text = await reader.read(folder === "" ? name : `${folder}/${name}`);
    if (text !== undefined && /^package main\b/m.test(text)) return true;
  }
  return false;
}
