import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { type PythonProject, readPythonProject } from "./python-project.ts";
import { findPythonStart } from "./python-start.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8000;

/**
 * Creates the Dockerfile for Python 3 with pip, uv or Poetry. Throws `invalid_request` if no start command can be
 * derived.
 */
export async function createPythonDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const project = await readPythonProject(reader);
  if (project === undefined)
    throw undecidedSourceError(
      "there is neither requirements.txt nor a project in pyproject.toml",
      "add one",
    );
  const start = await findPythonStart(reader, project.packages);
  const server =
    start.server !== undefined && !project.packages.has(start.server) ? start.server : undefined;
  const image = options.baseImage ?? `python:3.${project.minor}`;
  const description = `Python 3.${project.minor} with ${project.manager}`;
  const text = formatDockerfile(description, project.decidingFiles, [
    `FROM ${image} AS build`,
    ...createInstallLines(project, server),
    "",
    `FROM ${options.baseImage ?? `${image}-slim`}`,
    "COPY --from=build /venv /venv",
    // COPY comes before WORKDIR, because it creates /app with the owner USER, whereas WORKDIR would create /app as
    // root.
    `COPY --chown=${USER} . /app`,
    "WORKDIR /app",
    `ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PORT=${PORT}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start.command),
  ]);
  return { description, decidingFiles: project.decidingFiles, port: PORT, text };
}

/**
 * Creates the Dockerfile lines that install all packages into /venv. Only /venv is copied to the final image, so
 * compilers and package managers are left out.
 */
function createInstallLines(project: PythonProject, server: string | undefined): readonly string[] {
  const manifests = `COPY ${project.manifests.join(" ")} ./`;
  const begin = ["WORKDIR /app", "RUN python -m venv /venv"];
  if (project.manager === "pip")
    return [
      ...begin,
      project.isPackage ? "COPY . ." : manifests,
      `RUN /venv/bin/pip install --no-cache-dir ${project.isPackage ? "." : "-r requirements.txt"}`,
      ...(server === undefined ? [] : [`RUN /venv/bin/pip install --no-cache-dir ${server}`]),
    ];
  if (project.manager === "uv")
    return [
      ...begin,
      "RUN pip install --no-cache-dir uv",
      "ENV UV_PROJECT_ENVIRONMENT=/venv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never",
      manifests,
      "RUN uv sync --frozen --no-dev --no-install-project",
      ...(project.isPackage ? ["COPY . .", "RUN uv sync --frozen --no-dev --no-editable"] : []),
      ...(server === undefined ? [] : [`RUN uv pip install --python /venv/bin/python ${server}`]),
    ];
  return [
    ...begin,
    "RUN pip install --no-cache-dir poetry",
    // Poetry installs into the active virtual environment, so these variables make /venv the active one.
    "ENV VIRTUAL_ENV=/venv PATH=/venv/bin:$PATH",
    manifests,
    "RUN poetry install --no-interaction --only main --no-root",
    ...(server === undefined ? [] : [`RUN /venv/bin/pip install --no-cache-dir ${server}`]),
  ];
}
