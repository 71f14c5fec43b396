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
const DEFAULT_VERSION = "10.0";
const IMAGES = "mcr.microsoft.com/dotnet";

interface DotnetProject {
  readonly path: string;
  readonly text: string;
  readonly isWeb: boolean;
  readonly isProgram: boolean;
}

/** Creates the Dockerfile for .NET. Throws `invalid_request` if the project to run is ambiguous. */
export async function createDotnetDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const project = await chooseProject(reader);
  const version =
    /<TargetFrameworks?>[^<]*?net(\d+\.\d+)/.exec(project.text)?.[1] ?? DEFAULT_VERSION;
  const file = project.path.split("/").at(-1) ?? project.path;
  const assembly =
    /<AssemblyName>([\w.-]+)<\/AssemblyName>/.exec(project.text)?.[1] ??
    file.replace(/\.(cs|fs|vb)proj$/, "");
  const description = `${project.isWeb ? "ASP.NET" : ".NET"} ${version}`;
  const start = (await readProcfileStart(reader)) ?? {
    type: "shell",
    line: `ASPNETCORE_URLS=http://+:$PORT exec dotnet ${assembly}.dll`,
  };
  const text = formatDockerfile(
    description,
    [project.path],
    [
      `FROM ${options.baseImage ?? `${IMAGES}/sdk:${version}`} AS build`,
      "WORKDIR /src",
      "COPY . .",
      `RUN dotnet restore ${project.path}`,
      `RUN dotnet publish ${project.path} --configuration Release --no-restore --output /out`,
      "",
      `FROM ${options.baseImage ?? `${IMAGES}/${project.isWeb ? "aspnet" : "runtime"}:${version}`}`,
      `COPY --from=build --chown=${USER} /out /app`,
      "WORKDIR /app",
      `ENV PORT=${PORT} DOTNET_EnableDiagnostics=0`,
      `EXPOSE ${PORT}`,
      `USER ${USER}`,
      formatCmdInstruction(start),
    ],
  );
  return { description, decidingFiles: [project.path], port: PORT, text };
}

const isProject = (path: string) => /^[\w./-]+\.(cs|fs|vb)proj$/.test(path);

/** Lists the project files in the source and in its folders, at most two levels deep. */
export function listProjectFiles(reader: SourceReader): readonly string[] {
  const level = (folders: readonly string[]) =>
    folders.flatMap((folder) =>
      reader.list(folder).map((name) => (folder === "" ? name : `${folder}/${name}`)),
    );
  const first = level([""]);
  const second = level(first.filter((path) => !path.includes(".")));
  const third = level(second.filter((path) => !path.split("/").at(-1)?.includes(".csproj")));
  return [...first, ...second, ...third].filter(isProject);
}

/** Chooses the only web project, else the only program. Tests do not count. */
async function chooseProject(reader: SourceReader): Promise<DotnetProject> {
  const projects: DotnetProject[] = [];
  for (const path of listProjectFiles(reader)) {
    const text = (await reader.read(path)) ?? "";
    if (/Microsoft\.NET\.Test\.Sdk/.test(text)) continue;
    const isWeb = /Sdk="Microsoft\.NET\.Sdk\.(Web|BlazorWebAssembly)"/.test(text);
    const isProgram =
      isWeb || /<OutputType>\s*(Exe|WinExe)\s*</i.test(text) || /Sdk\.Worker"/.test(text);
    projects.push({ path, text, isWeb, isProgram });
  }
  const web = projects.filter(({ isWeb }) => isWeb);
  const programs = projects.filter(({ isProgram }) => isProgram);
  for (const candidates of [web, programs, projects]) {
    const [only, ...others] = candidates;
    if (only === undefined) continue;
    if (others.length === 0) return only;
    throw undecidedSourceError(
      `there are several projects (${candidates.map(({ path }) => path).join(", ")})`,
      "deploy the folder of the project to run",
    );
  }
  throw undecidedSourceError("there is no project file of .NET, such as shop.csproj", "add one");
}
