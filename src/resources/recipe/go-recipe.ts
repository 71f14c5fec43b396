import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
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
  const module = await reader.read("go.mod");
  if (module === undefined) throw undecidedSourceError("there is no go.mod", "run `go mod init`");
  const main = await findMainPackage(reader, module);
  const version = chooseGoVersion(module);
  const sums = (await reader.read("go.sum")) ?? "";
  // go-sqlite3 compiles SQLite's C code, so a program that uses it is built with cgo. All other programs are built
  // without cgo.
  const needsC = /^github\.com\/mattn\/go-sqlite3 /m.test(sums);
  const isVendored = reader.has("vendor/modules.txt");
  const description = `Go ${version}`;
  const decidingFiles = ["go.mod", ...(main === "." ? [] : [main.slice(2)])];
  const start = (await readProcfileStart(reader)) ?? {
    type: "program",
    words: ["/usr/local/bin/app"],
  };
  const runImage = options.baseImage ?? (needsC ? "debian:stable-slim" : "alpine:3");
  const certificates = "/etc/ssl/certs/ca-certificates.crt";
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${options.baseImage ?? `golang:${version}`} AS build`,
    "WORKDIR /src",
    ...(isVendored ? [] : [`COPY go.mod ${sums === "" ? "" : "go.sum "}./`, "RUN go mod download"]),
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

/** Finds the argument of `go build`: the main package of the module, or the program in cmd/. */
async function findMainPackage(reader: SourceReader, module: string): Promise<string> {
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
        "give the program to run the name of the module",
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
