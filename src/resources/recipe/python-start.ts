import type { StartCommand } from "./generated-dockerfile.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

export interface PythonStart {
  readonly command: StartCommand;
  /**
   * The server program in the command, which is installed if the source does not require it; undefined if the command
   * needs none.
   */
  readonly server: "gunicorn" | "uvicorn" | undefined;
}

const moduleFiles = [
  "app.py",
  "main.py",
  "wsgi.py",
  "asgi.py",
  "server.py",
  "api.py",
  "application.py",
  "app/main.py",
  "app/app.py",
  "app/__init__.py",
  "src/main.py",
  "src/app.py",
];
const programFiles = ["main.py", "app.py", "server.py", "run.py", "bot.py", "src/main.py"];

/** Matches `NAME = FastAPI(` at the start of a line, with or without an annotation. */
const asgiApp = /^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?(?:FastAPI|Starlette|Litestar|Quart)\(/m;
const wsgiApp = /^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?(?:Flask|Bottle)\(/m;
const flaskFactory = /^def (create_app|make_app)\(/m;

/** Finds the start command of a Python app. Throws `invalid_request` if there is none. */
export async function findPythonStart(
  reader: SourceReader,
  packages: ReadonlySet<string>,
): Promise<PythonStart> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return { command: named, server: undefined };
  const django = await findDjangoStart(reader);
  if (django !== undefined) return django;
  if (packages.has("streamlit")) {
    const file = ["streamlit_app.py", "app.py", "main.py"].find((name) => reader.has(name));
    if (file !== undefined)
      return createShellStart(
        `streamlit run ${file} --server.address 0.0.0.0 --server.port $PORT`,
        undefined,
      );
  }
  for (const file of moduleFiles) {
    const text = await reader.read(file);
    if (text === undefined) continue;
    const module = file.replace(/(\/__init__)?\.py$/, "").replaceAll("/", ".");
    const asgi = asgiApp.exec(text)?.[1];
    if (asgi !== undefined) return createUvicornStart(`${module}:${asgi}`);
    const wsgi = wsgiApp.exec(text)?.[1];
    if (wsgi !== undefined) return createGunicornStart(`${module}:${wsgi}`);
    const factory = packages.has("flask") ? flaskFactory.exec(text)?.[1] : undefined;
    if (factory !== undefined) return createGunicornStart(`'${module}:${factory}()'`);
  }
  const file = programFiles.find((name) => reader.has(name));
  if (file !== undefined)
    return { command: { type: "program", words: ["python", file] }, server: undefined };
  throw undecidedSourceError(
    `no start command can be derived: there is no Procfile, no manage.py, and none of ${programFiles.join(", ")}`,
    "add a Procfile such as `web: gunicorn --bind 0.0.0.0:$PORT shop:app`",
  );
}

async function findDjangoStart(reader: SourceReader): Promise<PythonStart | undefined> {
  const manage = await reader.read("manage.py");
  const settings = /DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']/.exec(manage ?? "")?.[1];
  const project = settings?.split(".")[0];
  return project !== undefined && reader.has(`${project}/wsgi.py`)
    ? createGunicornStart(`${project}.wsgi`)
    : undefined;
}

function createGunicornStart(app: string): PythonStart {
  return createShellStart(`gunicorn --bind 0.0.0.0:$PORT ${app}`, "gunicorn");
}

function createUvicornStart(app: string): PythonStart {
  return createShellStart(
    `uvicorn --host 0.0.0.0 --port $PORT --proxy-headers --forwarded-allow-ips '*' ${app}`,
    "uvicorn",
  );
}

function createShellStart(line: string, server: PythonStart["server"]): PythonStart {
  return { command: { type: "shell", line }, server };
}
