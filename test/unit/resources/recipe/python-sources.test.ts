import { describe, expect, test } from "vitest";
import { chooseDockerfile } from "../../../../src/resources/recipe/choose-dockerfile.ts";
import { createMemorySource } from "./memory-source-reader.ts";

type Files = Readonly<Record<string, unknown>>;

async function textOf(files: Files) {
  const chosen = await chooseDockerfile(createMemorySource(files), {});
  if (chosen.type !== "generated") throw new Error(`${chosen.path} was found`);
  expect(chosen.language).toBe("python");
  return chosen.text;
}
const commandOf = async (files: Files) => (await textOf(files)).trim().split("\n").at(-1) ?? "";
const project = (text = "") => `[project]\nname = "a"\n${text}`;

describe("the packages of a Python source", () => {
  test("are installed by PDM with pdm.lock", async () => {
    const files = { "pyproject.toml": project(), "pdm.lock": "", "main.py": "" };
    expect(await textOf(files)).toMatch(
      /COPY pyproject.toml pdm.lock \.\/\nRUN pdm install --prod --frozen-lockfile --no-editable --no-self/,
    );
  });

  test("are installed by Pipenv with Pipfile.lock, on the version of the Pipfile", async () => {
    const files = {
      Pipfile: '[packages]\nflask = "*"\n[requires]\npython_version = "3.12"',
      "Pipfile.lock": "{}",
      "app.py": "app = Flask(__name__)",
    };
    const text = await textOf(files);
    expect(text).toContain("FROM python:3.12-slim");
    expect(text).toMatch(/COPY Pipfile Pipfile.lock \.\/\nRUN pipenv install --deploy\n/);
    expect(text).toContain("gunicorn");
  });

  test("include the members of a uv workspace, which are copied before the install", async () => {
    const files = {
      "pyproject.toml": project('[tool.uv.workspace]\nmembers = ["lib"]'),
      "uv.lock": "",
      "main.py": "",
    };
    expect(await textOf(files)).toMatch(/COPY \. \.\nRUN uv sync --frozen --no-dev --no-editable/);
  });

  test("include those of files that requirements.txt names", async () => {
    const files = {
      "requirements.txt": "-r requirements/base.txt\ngunicorn\n",
      "requirements/base.txt": "-c limits.txt\nflask\n",
      "requirements/limits.txt": "",
      "app.py": "app = Flask(__name__)",
    };
    const text = await textOf(files);
    expect(text).toContain(
      "COPY requirements.txt ./\nCOPY requirements/base.txt requirements/limits.txt ./requirements/\n",
    );
    expect(text).toContain("pip install --no-cache-dir -r requirements.txt");
  });

  test("are those of production if there is a folder of requirements", async () => {
    const files = { "requirements/dev.txt": "", "requirements/prod.txt": "flask", "main.py": "" };
    expect(await textOf(files)).toContain("pip install --no-cache-dir -r requirements/prod.txt");
  });

  test("are copied with the whole source if one of them is a folder of the source", async () => {
    expect(await textOf({ "requirements.txt": "-e .\n", "main.py": "" })).toMatch(
      /COPY \. \.\nRUN \/venv\/bin\/pip install/,
    );
  });

  test("are not needed by a single program", async () => {
    const text = await textOf({ "bot.py": "print()" });
    expect(text).toContain('CMD ["python", "bot.py"]');
    expect(text).not.toContain("pip install");
  });
});

describe("the version of Python", () => {
  test.each<[Files, string]>([
    [{ ".python-version": "# comment\n3.12\n" }, "3.12"],
    [{ ".tool-versions": "uv 0.7\npython 3.9.23\n" }, "3.9.23"],
    [{ "mise.toml": '[tools]\npython = ["3.10", "3.11"]' }, "3.10"],
    [{ ".python-version": "latest" }, "3.14"],
    [{ "runtime.txt": "python-3.11.2" }, "3.11.2"],
  ])("is the one that %j states: %s", async (files, version) => {
    expect(await textOf({ ...files, "main.py": "" })).toContain(`FROM python:${version}-slim`);
  });
});

describe("the start of a Python app", () => {
  test.each<[string, Files, string]>([
    [
      "a factory of FastAPI",
      { "requirements.txt": "fastapi", "app/main.py": "def create_app():\n  pass" },
      "--factory app.main:create_app",
    ],
    [
      "a module in src/",
      { "requirements.txt": "fastapi", "src/app/main.py": "app = FastAPI()" },
      "--app-dir src app.main:app",
    ],
    [
      "Flask in src/",
      { "requirements.txt": "flask", "src/main.py": "app = Flask(__name__)" },
      "--pythonpath src main:app",
    ],
    [
      "Dash",
      { "requirements.txt": "dash", "app.py": "app = Dash()\nserver = app.server\n" },
      "gunicorn --bind 0.0.0.0:$PORT app:server",
    ],
    [
      "Streamlit with any file name",
      { "requirements.txt": "streamlit", "shop.py": "import streamlit as st" },
      "streamlit run shop.py --server.address 0.0.0.0",
    ],
    [
      "Chainlit",
      { "requirements.txt": "chainlit", "chat.py": "import chainlit as cl" },
      "chainlit run chat.py --headless --host 0.0.0.0 --port $PORT",
    ],
    [
      "Gradio",
      { "requirements.txt": "gradio", "demo.py": "import gradio as gr" },
      "GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=$PORT exec python demo.py",
    ],
    [
      "the only script of the project",
      {
        "pyproject.toml": project('[project.scripts]\nshop = "shop:main"\n[build-system]'),
        "uv.lock": "",
      },
      'CMD ["shop"]',
    ],
  ])("is found: %s", async (_, files, command) => {
    expect(await commandOf(files)).toContain(command);
  });

  test("collects the static files of Django if WhiteNoise serves them", async () => {
    const files = {
      "requirements.txt": "django\nwhitenoise",
      "manage.py": 'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")',
      "shop/wsgi.py": "",
      "shop/settings.py": "STATIC_ROOT = 'static'",
    };
    expect(await textOf(files)).toContain("manage.py collectstatic --noinput");
    expect(await textOf({ ...files, "requirements.txt": "django" })).not.toContain("collectstatic");
  });
});

describe("libraries of the system", () => {
  test.each([
    ["psycopg2", "libpq5"],
    ["psycopg>=3.2", "libpq5"],
    ["mysqlclient", "libmariadb3"],
    ["pydub\npdf2image", "ffmpeg poppler-utils"],
    ["opencv-python", "libgl1 libglib2.0-0"],
  ])("are in the final image for %j: %s", async (requirements, debian) => {
    expect(await textOf({ "requirements.txt": requirements, "main.py": "" })).toContain(
      `--no-install-recommends ${debian} &&`,
    );
  });

  test.each(["psycopg2-binary", "psycopg[binary]>=3", "flask"])(
    "are not needed for %s",
    async (requirements) => {
      expect(await textOf({ "requirements.txt": requirements, "main.py": "" })).not.toContain(
        "apt-get",
      );
    },
  );

  test("are installed by Playwright itself", async () => {
    expect(await textOf({ "requirements.txt": "playwright", "main.py": "" })).toContain(
      "RUN /venv/bin/playwright install --with-deps chromium",
    );
  });
});

const generate = async (files: Files) => {
  const chosen = await chooseDockerfile(createMemorySource(files), {});
  return chosen.text;
};

describe("Go with several modules or programs", () => {
  test("builds the only program of a workspace", async () => {
    const text = await generate({
      "go.work": "go 1.25\n\nuse (\n\t./api\n\t./shared\n)\n",
      "api/main.go": "package main",
      "shared/a.go": "package shared",
    });
    expect(text).toContain("FROM golang:1.25 AS build");
    expect(text).toMatch(/go build .* \.\/api\n/);
  });

  test("builds and starts the program that a Procfile names", async () => {
    const files = {
      "go.mod": "module shop",
      "cmd/api/main.go": "package main",
      "cmd/jobs/main.go": "package main",
      Procfile: "web: bin/api --port $PORT",
    };
    const text = await generate(files);
    expect(text).toMatch(/go build .* \.\/cmd\/api\n/);
    expect(text).toContain('"exec /usr/local/bin/app --port $PORT"');
  });
});
