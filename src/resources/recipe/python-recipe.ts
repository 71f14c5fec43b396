import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { findPythonLibraries } from "./python-libraries.ts";
import { type PythonProject, readPythonProject } from "./python-project.ts";
import { findDjangoSettings, findPythonStart } from "./python-start.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8000;

/**
 * Creates the Dockerfile for Python 3 with pip, uv, Poetry, PDM or Pipenv. Throws `invalid_request` if no start command can be
 * derived.
 */
export async function createPythonDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const project = await readPythonProject(reader);
  if (project === undefined)
    throw undecidedSourceError(
      "there is neither requirements.txt nor a project in pyproject.toml, and no Pipfile",
      "add one",
    );
  const start = await findPythonStart(reader, project);
  const server =
    start.server !== undefined && !project.packages.has(start.server) ? start.server : undefined;
  const image = options.baseImage ?? `python:${project.version}`;
  const description = `Python ${project.version}${project.manager === "none" ? "" : ` with ${project.manager}`}`;
  const libraries = findPythonLibraries(project);
  const browsers = project.packages.has("playwright");
  const text = formatDockerfile(description, project.decidingFiles, [
    `FROM ${image} AS build`,
    ...createInstallLines(project, server),
    "",
    `FROM ${options.baseImage ?? `${image}-slim`}`,
    ...(libraries.length === 0
      ? []
      : [
          `RUN apt-get update && apt-get install -y --no-install-recommends ${libraries.join(" ")} && rm -rf /var/lib/apt/lists/*`,
        ]),
    "COPY --from=build /venv /venv",
    ...(browsers
      ? [
          "ENV PLAYWRIGHT_BROWSERS_PATH=/browsers",
          "RUN /venv/bin/playwright install --with-deps chromium",
        ]
      : []),
    // COPY comes before WORKDIR, because it creates /app with the owner USER, whereas WORKDIR would create /app as
    // root.
    `COPY --chown=${USER} . /app`,
    "WORKDIR /app",
    `ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PORT=${PORT}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    ...(await createStaticFileLines(reader, project)),
    formatCmdInstruction(start.command),
  ]);
  return { description, decidingFiles: project.decidingFiles, port: PORT, text };
}

/** Django with WhiteNoise serves the files that `collectstatic` collects. */
async function createStaticFileLines(
  reader: SourceReader,
  project: PythonProject,
): Promise<readonly string[]> {
  const settings = await findDjangoSettings(reader);
  if (settings === undefined || !/^STATIC_ROOT\s*=/m.test(settings.text)) return [];
  if (!project.packages.has("whitenoise")) return [];
  // Settings that need variables of the app cannot be read here; the app then runs without these files.
  return [
    'RUN SECRET_KEY=build python manage.py collectstatic --noinput || echo "warning: collectstatic failed"',
  ];
}

/**
 * Creates the Dockerfile lines that install all packages into /venv. Only /venv is copied to the final image, so
 * compilers and package managers are left out.
 */
function createInstallLines(project: PythonProject, server: string | undefined): readonly string[] {
  const manifests = `COPY ${project.manifests.join(" ")} ./`;
  const begin = ["WORKDIR /app", "RUN python -m venv /venv"];
  const pip = "/venv/bin/pip install --no-cache-dir";
  const addServer = server === undefined ? [] : [`RUN ${pip} ${server}`];
  // The environment variable makes /venv the active environment for the tools.
  const active = "ENV VIRTUAL_ENV=/venv PATH=/venv/bin:$PATH";
  switch (project.manager) {
    case "none":
      return [...begin, ...addServer];
    case "pip":
      return [
        ...begin,
        ...(project.needsSource ? ["COPY . ."] : copyFiles(project.manifests)),
        `RUN ${pip} ${project.manifests[0] === "pyproject.toml" ? "." : `-r ${project.requirements}`}`,
        ...addServer,
      ];
    case "uv":
      return [
        ...begin,
        "RUN pip install --no-cache-dir uv",
        "ENV UV_PROJECT_ENVIRONMENT=/venv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never",
        ...(project.needsSource
          ? ["COPY . .", "RUN uv sync --frozen --no-dev --no-editable"]
          : [manifests, "RUN uv sync --frozen --no-dev --no-install-project"]),
        ...(server === undefined ? [] : [`RUN uv pip install --python /venv/bin/python ${server}`]),
      ];
    case "pdm":
      return [
        ...begin,
        "RUN pip install --no-cache-dir pdm",
        `${active} PDM_CHECK_UPDATE=0`,
        project.needsSource ? "COPY . ." : manifests,
        `RUN pdm install --prod --frozen-lockfile --no-editable${project.needsSource ? "" : " --no-self"}`,
        ...addServer,
      ];
    case "pipenv":
      return [
        ...begin,
        "RUN pip install --no-cache-dir pipenv",
        active,
        manifests,
        `RUN pipenv ${project.manifests.includes("Pipfile.lock") ? "install --deploy" : "install"}`,
        ...addServer,
      ];
    default:
      return [
        ...begin,
        "RUN pip install --no-cache-dir poetry",
        active,
        manifests,
        "RUN poetry install --no-interaction --only main --no-root",
        ...addServer,
      ];
  }
}

/** Copies files to the same paths in the image; one instruction for each folder. */
function copyFiles(files: readonly string[]): readonly string[] {
  const folders = new Map<string, string[]>();
  for (const file of files) {
    const folder = file.includes("/") ? file.slice(0, file.lastIndexOf("/") + 1) : "";
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  return [...folders].map(([folder, names]) => `COPY ${names.join(" ")} ./${folder}`);
}
